"""Commits of LMDB that fail, and those of which nobody knows whether they failed."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import lmdb
import pytest

from grid_member.engine.api import ClusterState, EngineError, Reason, Refused
from grid_member.engine.lmdb import log as lmdb_log
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.lmdb.tables import MAP_SIZE_BYTES, Tables, open_environment
from grid_member.engine.shard.batching import LARGE
from tests.unit.engine.drive import condition
from tests.unit.engine.lmdb.test_log import engine_at, started

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_commit_that_failed_late_and_is_there_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await started(engine_at(tmp_path, wal_bytes=0))
    with monkeypatch.context() as patch:
        patch.setattr(Tables, "append", commit_then_fail)
        assert await driver.put("m", "k", b"1") is None
    assert await driver.put("m", "l", b"2") is None
    await driver.engine.stop()
    again = await started(engine_at(tmp_path, wal_bytes=0))
    assert [await again.value("m", "k"), await again.value("m", "l")] == [b"1", b"2"]
    await again.engine.stop()


_append = Tables.append


def commit_then_fail(
    tables: Tables, sequence: int, values: list[bytes], salt: bytes | None = None
) -> None:
    _append(tables, sequence, values, salt)
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

    def once(tables: Tables, sequence: int, values: list[bytes], salt: bytes | None = None) -> None:
        monkeypatch.setattr(Tables, "append", _append)
        commit_then_fail(tables, sequence, values, salt)

    driver = await started(engine_at(tmp_path, wal_bytes=0))
    monkeypatch.setattr(Tables, "append", once)
    monkeypatch.setattr(LmdbLog, "_open", stubborn)
    # What was refused for this alone is taken again before anyone looks at the disk.
    monkeypatch.setattr(LmdbLog, "_look_for_room", lambda log: None)
    answers = await asyncio.gather(*(driver.put("m", key, b"1") for key in "ab"))
    assert refusals == []
    assert answers == [None, None]
    assert await driver.put("m", "c", b"1") is None
    await driver.engine.stop()
    again = await started(engine_at(tmp_path, wal_bytes=0))
    assert [await again.value("m", key) for key in "abc"] == [b"1"] * 3
    await again.engine.stop()


class Silent:
    """A disk that fails a commit and cannot be read back until it is `well` again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.well = True
        self.failed = threading.Event()
        self.looks = 0
        self._reopen = LmdbLog._open
        monkeypatch.setattr(
            Tables, "append", lambda tables, *arguments: self._append(tables, *arguments)
        )
        monkeypatch.setattr(LmdbLog, "_open", lambda log: self._open(log))
        monkeypatch.setattr(lmdb_log, "REOPEN_INTERVAL_S", 0.01)

    def _append(
        self, tables: Tables, sequence: int, values: list[bytes], salt: bytes | None = None
    ) -> None:
        if not self.well:
            self.failed.set()
            raise lmdb.DiskError("planted")
        _append(tables, sequence, values, salt)

    def _open(self, log: LmdbLog) -> Tables:
        self.looks += 1
        if not self.well:
            raise lmdb.DiskError("planted")
        return self._reopen(log)


@pytest.mark.parametrize("puts", [1, 2 * LARGE])
async def test_only_what_was_in_a_commit_of_unknown_outcome_waits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    puts: int,
) -> None:
    disk = Silent(monkeypatch)
    driver = await started(engine_at(tmp_path, wal_bytes=0))
    assert await driver.put("m", "old", b"1") is None
    disk.well = False
    waiting = asyncio.gather(*(driver.put("m", "k", b"1") for _ in range(puts)))
    await asyncio.sleep(0)
    # Behind a large record they are gathered; behind a small one they may be in its commit.
    gathered = 3 if puts > LARGE else 0
    behind = asyncio.gather(*(driver.remove("m", "old") for _ in range(gathered)))
    await condition(disk.failed.is_set)
    assert all(isinstance(one, Refused) for one in await behind)
    for _ in range(3):
        later = await asyncio.gather(
            driver.put("m", "l", b"1"),
            driver.offer("q", b"1"),
            driver.remove("m", "old"),
            driver.change_state(ClusterState.PASSIVE),
        )
        assert all(isinstance(one, Refused) and one.reason is Reason.UNAVAILABLE for one in later)
    looks = disk.looks
    await condition(lambda: disk.looks > looks + 3)
    assert not waiting.done()
    assert await driver.value("m", "old") == b"1"
    assert len([line for line in caplog.messages if "cannot be read back" in line]) == 1
    disk.well = True
    assert all(isinstance(one, Refused) for one in await waiting)
    assert await driver.put("m", "l", b"2") is None
    await driver.engine.stop()
    again = await started(engine_at(tmp_path, wal_bytes=0))
    assert [await again.value("m", key) for key in ("old", "k", "l")] == [b"1", None, b"2"]
    await again.engine.stop()


@pytest.mark.parametrize("grace_s", [0.05, 3600])
async def test_a_stop_waits_for_a_silent_disk_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace_s: float
) -> None:
    monkeypatch.setattr("grid_member.engine.local.engine.UNKNOWN_GRACE_S", grace_s)
    disk = Silent(monkeypatch)
    driver = await started(engine_at(tmp_path, wal_bytes=0))
    disk.well = False
    waiting = asyncio.create_task(driver.put("m", "k", b"1"))
    await condition(disk.failed.is_set)
    stopping = asyncio.create_task(driver.engine.stop())
    async with asyncio.timeout(10):
        if grace_s > 1:
            looks = disk.looks
            await condition(lambda: disk.looks > looks + 3)
            assert not stopping.done()
            driver.engine.hurry()
        await stopping
    outcome = await waiting
    assert isinstance(outcome, Refused)
    assert "before the disk told" in outcome.message


async def test_a_record_is_never_written_over_another(tmp_path: Path) -> None:
    driver = await started(engine_at(tmp_path, wal_bytes=0))
    await driver.put("m", "a", b"1")
    await driver.engine.stop()
    environment = open_environment(tmp_path / "store" / "shard-0", MAP_SIZE_BYTES, False)
    try:
        tables = Tables(environment)
        with pytest.raises(lmdb.KeyExistsError):
            tables.append(0, [b"other"])
        assert tables.record(1) not in (None, b"other")
    finally:
        environment.close()
