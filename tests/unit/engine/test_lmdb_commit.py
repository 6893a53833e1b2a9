"""Commits of LMDB that fail, and those of which nobody knows whether they failed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lmdb
import pytest

from grid_member.engine import lmdb_log
from grid_member.engine.api import EngineError
from grid_member.engine.lmdb_log import LmdbLog, _put
from grid_member.engine.lmdb_tables import MAP_SIZE_BYTES, Tables, open_environment
from tests.unit.engine.test_lmdb import engine_at, started

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_commit_that_failed_late_and_is_there_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await started(engine_at(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(lmdb_log, "_put", commit_then_fail)
        assert await driver.put("m", "k", b"1") is None
    assert await driver.put("m", "l", b"2") is None
    await driver.engine.stop()
    again = await started(engine_at(tmp_path))
    assert [await again.value("m", "k"), await again.value("m", "l")] == [b"1", b"2"]
    await again.engine.stop()


def commit_then_fail(tables: Tables, sequence: int, values: list[bytes]) -> None:
    _put(tables, sequence, values)
    raise lmdb.DiskError("after the root page was written")


async def test_a_commit_of_unknown_outcome_is_answered_only_when_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is on disk, its success is not reported, and LMDB opens only at the third try."""
    refusals = [lmdb.DiskError("cannot open"), EngineError("cannot open")]
    reopen = LmdbLog._open

    def stubborn(self: LmdbLog) -> Tables:
        if refusals:
            raise refusals.pop()
        return reopen(self)

    def once(tables: Tables, sequence: int, values: list[bytes]) -> None:
        monkeypatch.setattr(lmdb_log, "_put", _put)
        commit_then_fail(tables, sequence, values)

    driver = await started(engine_at(tmp_path))
    monkeypatch.setattr(lmdb_log, "_put", once)
    monkeypatch.setattr(LmdbLog, "_open", stubborn)
    answers = await asyncio.gather(*(driver.put("m", key, b"1") for key in "ab"))
    assert refusals == []
    assert answers == [None, None]
    assert await driver.put("m", "c", b"1") is None
    await driver.engine.stop()
    again = await started(engine_at(tmp_path))
    assert [await again.value("m", key) for key in "abc"] == [b"1"] * 3
    await again.engine.stop()


async def test_a_record_is_never_written_over_another(tmp_path: Path) -> None:
    driver = await started(engine_at(tmp_path))
    await driver.put("m", "a", b"1")
    await driver.engine.stop()
    environment = open_environment(tmp_path / "store" / "shard-0", MAP_SIZE_BYTES, False)
    try:
        tables = Tables(environment)
        with pytest.raises(lmdb.KeyExistsError):
            _put(tables, 0, [b"other"])
        assert tables.record(1) not in (None, b"other")
    finally:
        environment.close()
