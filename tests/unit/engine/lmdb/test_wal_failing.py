"""The WAL of a log, and LMDB beside it, when a disk fails one of them or both."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from typing import TYPE_CHECKING

import lmdb
import pytest

from grid_member.engine.api import Refused
from grid_member.engine.lmdb import log as lmdb_log
from grid_member.engine.lmdb.tables import (
    MAP_SIZE_BYTES,
    Tables,
    create_log,
    open_environment,
    open_tables,
)
from grid_member.engine.lmdb.wal import SMALL_BYTES, Wal
from grid_member.engine.state.operations import Committed, MapPut, Record
from tests.unit.engine.drive import condition
from tests.unit.engine.lmdb.test_log import RESERVE_BYTES, SMALL_WAL_BYTES, engine_at, started
from tests.unit.engine.lmdb.test_wal import LAST, VALUE, WAL, copied, lively

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture(autouse=True)
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_log, "IDLE_S", 3600)


class Failing:
    """Disks whose writes fail: that of the WAL, and that of LMDB, as long as they are to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wal = self.disown = self.pages = True
        self.share = 1.0
        """How much of a write to the WAL is there when it fails."""
        self.waiting = threading.Event()
        pwrite, append = os.pwrite, Tables.append

        def write(file: int, data: bytes, place: int) -> int:
            if not any(data) and self.disown:
                self.waiting.set()
                raise OSError(errno.EIO, "planted")
            if any(data) and self.wal:
                # A part or all of it is there nevertheless.
                pwrite(file, data[: int(self.share * len(data))], place)
                raise OSError(errno.EIO, "planted")
            return pwrite(file, data, place)

        def pages(
            tables: Tables, sequence: int, values: Sequence[bytes], salt: bytes | None = None
        ) -> None:
            if self.pages:
                raise lmdb.DiskError("planted")
            append(tables, sequence, values, salt)

        monkeypatch.setattr(os, "pwrite", write)
        monkeypatch.setattr(Tables, "append", pages)
        monkeypatch.setattr(lmdb_log, "REOPEN_INTERVAL_S", 0.01)


async def test_lmdb_takes_over_from_a_tail_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver = await lively(tmp_path / "a")
    disk = Failing(monkeypatch)
    disk.pages = False
    for key in "xyz":
        assert await driver.put("m", key, b"1") is None
    assert len([line for line in caplog.messages if "tail of the log of shard 0" in line]) == 1
    assert not (tmp_path / "a" / WAL).exists()
    left = copied(tmp_path / "a", tmp_path / "b")
    await driver.engine.stop()
    disk.wal = False
    again = await started(engine_at(left))
    assert [await again.value("m", key) for key in (LAST, *"xyz")] == [VALUE, *[b"1"] * 3]
    await again.engine.stop()


async def test_what_was_refused_is_not_found_in_the_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither disk takes it, and it is refused only when the WAL does not have it for sure."""
    driver = await lively(tmp_path / "a")
    disk = Failing(monkeypatch)
    waiting = driver.put("m", "refused", b"1")

    putting = asyncio.ensure_future(waiting)
    await condition(disk.waiting.is_set)
    assert not putting.done()
    unknown = copied(tmp_path / "a", tmp_path / "b")
    disk.disown = False
    assert isinstance(await putting, Refused)
    known = copied(tmp_path / "a", tmp_path / "c")
    disk.pages = disk.wal = False
    assert await driver.put("m", "later", b"1") is None
    after = copied(tmp_path / "a", tmp_path / "d")
    await driver.engine.stop()
    for place, expected in ((unknown, [b"1", None]), (known, [None] * 2), (after, [None, b"1"])):
        again = await started(engine_at(place))
        assert await again.value("m", LAST) == VALUE
        assert [await again.value("m", key) for key in ("refused", "later")] == expected
        await again.engine.stop()


async def test_a_takeover_that_failed_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it when LMDB cannot be opened again at the first try."""
    driver = await lively(tmp_path)
    append, reopen = Tables.append, lmdb_log.LmdbLog._open
    failures: list[str] = []

    def failing(
        tables: Tables, sequence: int, values: Sequence[bytes], salt: bytes | None = None
    ) -> None:
        if "commit" not in failures:
            failures.append("commit")
            raise lmdb.DiskError("planted")
        append(tables, sequence, values, salt)

    def closed(log: lmdb_log.LmdbLog) -> Tables:
        if "open" not in failures:
            failures.append("open")
            raise OSError(errno.EMFILE, "planted")
        return reopen(log)

    monkeypatch.setattr(Tables, "append", failing)
    monkeypatch.setattr(lmdb_log.LmdbLog, "_open", closed)
    monkeypatch.setattr(lmdb_log, "IDLE_S", 0.01)
    assert await driver.put("m", "more", b"1") is None
    await condition(lambda: failures == ["commit", "open"])
    async with asyncio.timeout(20):
        while isinstance(await driver.put("m", "later", b"1"), Refused):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await driver.value("m", LAST) == VALUE
    await driver.engine.stop()


def test_what_lmdb_has_already_is_confirmed_by_a_commit_of_its_own(tmp_path: Path) -> None:
    """Its root page may be in the page cache only."""
    create_log(tmp_path, 0)
    tables = open_tables(tmp_path, 0, MAP_SIZE_BYTES, open_environment)
    wal = Wal(tmp_path, 0, SMALL_WAL_BYTES, lambda _: None)
    wal.make()
    wal.settle(tables, 0, [b"first"])
    assert wal.append(2, [b"second"], 6)
    tables.append(1, [b"second"])  # which was said to have failed
    wal._unsettled = True
    commits = tables.environment.info()["last_txnid"]
    wal.settle(tables, 2)
    assert tables.environment.info()["last_txnid"] == commits + 1
    assert wal.append(3, [b"third"], 5)
    wal.close()
    tables.environment.close()


async def test_a_commit_that_is_there_although_it_failed_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compactor's, of what is pending: nobody waits for that."""
    driver = await lively(tmp_path)
    shard, append = driver.engine.shards[0], Tables.append
    failures = 0

    def late(
        tables: Tables, sequence: int, values: Sequence[bytes], salt: bytes | None = None
    ) -> None:
        nonlocal failures
        append(tables, sequence, values, salt)
        if not failures:
            failures += 1
            raise lmdb.DiskError("after the root page was written")

    monkeypatch.setattr(Tables, "append", late)
    shard._log.store_snapshot(shard.state.snapshot())
    await condition(lambda: failures > 0)
    for number in range(30):
        async with asyncio.timeout(20):
            # Until the disk was looked at.
            while isinstance(await driver.put("m", f"later{number}", b"1"), Refused):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    left = copied(tmp_path, tmp_path.with_name("left"))
    await driver.engine.stop()
    for place in (tmp_path, left):
        again = await started(engine_at(place))
        assert await again.value("m", LAST) == VALUE
        assert [await again.value("m", f"later{number}") for number in range(30)] == [b"1"] * 30
        await again.engine.stop()


def records(*values: str) -> list[Record]:
    puts = [MapPut("m", value, b"v", None, 0) for value in values]
    return [Record(bytes(16), 1, number, (put,)) for number, put in enumerate(puts, 1)]


class Told:
    """Hears what became of records."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def take_committed(self, batch: Sequence[Committed]) -> None:
        for one in batch:
            for operation in one.record.operations:
                assert isinstance(operation, MapPut)
                self.taken.append(operation.key)

    def take_rejected(self, records: Sequence[Record], refused: Refused) -> None:
        pass


async def test_nothing_is_answered_in_the_place_of_what_lmdb_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit fails late, nobody learns of it until patience ends, and more is asked for then."""
    create_log(tmp_path, 0)
    log = lmdb_log.LmdbLog(tmp_path, 0, lambda: 1, reserve_bytes=RESERVE_BYTES)
    list(log.replay())
    told, append, reopen = Told(), Tables.append, lmdb_log.LmdbLog._open
    monkeypatch.setattr(lmdb_log.LmdbLog, "_tell", lambda log, news: news(told))
    first, second, third, unknown, later = records("first", "second", "third", "unknown", "later")
    for one in (first, second, third):
        log._space.hold()
        log._wal.make()
        log._commit([one], 100)
        log._purging = False
    assert len(log._wal.pending) == 2

    def late(
        tables: Tables, sequence: int, values: Sequence[bytes], salt: bytes | None = None
    ) -> None:
        append(tables, sequence, values, salt)
        raise lmdb.DiskError("after the root page was written")

    def closed(log: lmdb_log.LmdbLog) -> Tables:
        raise lmdb.DiskError("cannot open")

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "append", late)
        patch.setattr(lmdb_log.LmdbLog, "_open", closed)
        patch.setattr(Wal, "append", lambda *_: False)
        log.lose_patience(0)
        log._commit([unknown], 100)
    assert told.taken == ["first", "second", "third"]
    log._tables = reopen(log)
    log.refusal = None
    log._commit([later], 100)
    await log.close()
    again = lmdb_log.LmdbLog(tmp_path, 0, lambda: 1)
    steps = [step for step in again.replay() if isinstance(step, Committed)]
    await again.close()
    found = Told()
    found.take_committed(steps)
    assert set(told.taken) <= set(found.taken)
    assert "unknown" in found.taken


async def test_what_is_not_there_as_a_whole_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a group that the page cache has a part of nothing can come back."""
    driver = await lively(tmp_path)
    disk = Failing(monkeypatch)
    disk.share = 0.01
    assert isinstance(await driver.put("m", "refused", b"1"), Refused)
    disk.pages = False
    await driver.engine.stop()


@pytest.mark.parametrize("opens", [True, False])
async def test_a_commit_of_unknown_outcome_with_what_is_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
    """A large group is committed with it, and LMDB opens again at once, or at the third try."""
    driver = await lively(tmp_path / "a")
    append, reopen = Tables.append, lmdb_log.LmdbLog._open
    failing, tries = [True], [] if opens else [1, 2]

    def late(
        tables: Tables, sequence: int, values: Sequence[bytes], salt: bytes | None = None
    ) -> None:
        append(tables, sequence, values, salt)
        if failing:
            failing.clear()
            raise lmdb.DiskError("after the root page was written")

    def stubborn(log: lmdb_log.LmdbLog) -> Tables:
        if tries:
            tries.pop()
            raise lmdb.DiskError("cannot open")
        return reopen(log)

    monkeypatch.setattr(Tables, "append", late)
    monkeypatch.setattr(lmdb_log.LmdbLog, "_open", stubborn)
    monkeypatch.setattr(lmdb_log, "REOPEN_INTERVAL_S", 0.01)
    large = bytes(2 * SMALL_BYTES)
    assert await driver.put("m", "large", large) is None
    assert not failing
    assert await driver.put("m", "later", b"1") is None
    left = copied(tmp_path / "a", tmp_path / "b")
    await driver.engine.stop()
    for place in (left, tmp_path / "a"):
        again = await started(engine_at(place))
        found = [await again.value("m", key) for key in (LAST, "large", "later")]
        assert found == [VALUE, large, b"1"]
        await again.engine.stop()
