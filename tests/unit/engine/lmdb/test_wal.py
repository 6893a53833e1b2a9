"""The WAL of a log: what only it has is found again, whatever happened to it."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.backup.salvage import refuse_healthy, salvage_store
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.engine.lmdb import log as lmdb_log
from grid_member.engine.lmdb import wal
from grid_member.engine.lmdb.pages import Pages
from grid_member.engine.lmdb.space import Space
from grid_member.engine.lmdb.tables import (
    FORMAT,
    MAP_SIZE_BYTES,
    WAL_FORMAT,
    open_environment,
    open_tables,
)
from grid_member.engine.lmdb.wal import BLOCK_BYTES, WAL_FILE, Wal, WalContent, read_wal
from tests.unit.engine.drive import condition
from tests.unit.engine.lmdb.test_log import SMALL_WAL_BYTES, engine_at, started

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.engine.drive import Driver

SHARD = "store/shard-0"
WAL = f"{SHARD}/{WAL_FILE}"
KEYS = 14
LAST, VALUE = "k13", b"v13"
SETTLED = 10
"""The sequence of the last record that LMDB has of a member with so many keys."""


def version(directory: Path) -> int:
    environment = open_environment(directory / SHARD, 1 << 30, False)
    try:
        with environment.begin(environment.open_db(b"meta")) as transaction:
            found: int = FORMAT.unpack(transaction.get(b"format", b""))[1]
    finally:
        environment.close()
    return found


def log_of(driver: Driver) -> lmdb_log.LmdbLog:
    log = driver.engine.shards[0]._log
    assert isinstance(log, lmdb_log.LmdbLog)
    return log


async def lively(directory: Path) -> Driver:
    """A member that has some records in LMDB and some in the WAL only."""
    driver = await started(engine_at(directory))
    for number in range(KEYS):
        assert await driver.put("m", f"k{number}", b"v%d" % number) is None
    log = log_of(driver)
    assert log._sequence - len(log._wal.pending) == SETTLED < log._sequence
    return driver


def copied(directory: Path, target: Path) -> Path:
    """Copy what a process that died now would leave."""
    shutil.copytree(directory, target)
    return target


@pytest.fixture(autouse=True)
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_log, "IDLE_S", 3600)


async def test_when_nobody_writes_lmdb_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await lively(tmp_path)
    log = log_of(driver)
    monkeypatch.setattr(lmdb_log, "IDLE_S", 0.01)
    assert await driver.put("m", "last", b"1") is None
    await condition(lambda: log._wal.pending == [])
    await driver.engine.stop()


async def test_what_only_the_tail_has_is_replayed(tmp_path: Path) -> None:
    driver = await lively(tmp_path / "a")
    left = copied(tmp_path / "a", tmp_path / "b")
    await driver.engine.stop()
    assert version(left) == WAL_FORMAT  # which an older program refuses
    for _ in range(2):
        again = await started(engine_at(left))
        for number in range(KEYS):
            assert await again.value("m", f"k{number}") == b"v%d" % number
        assert await again.put("m", "later", b"1") is None
        await again.engine.stop()


async def test_a_start_goes_on_with_the_tail_that_it_finds(tmp_path: Path) -> None:
    driver = await lively(tmp_path / "0")
    for incarnation in range(3):
        left = copied(tmp_path / f"{incarnation}", tmp_path / f"{incarnation + 1}")
        await driver.engine.stop()
        driver = await started(engine_at(left))
        assert await driver.put("m", f"life {incarnation}", b"1") is None
    assert [await driver.value("m", f"life {incarnation}") for incarnation in range(3)] == [
        b"1"
    ] * 3
    await driver.engine.stop()


async def test_a_stopped_member_leaves_lmdb_everything(tmp_path: Path) -> None:
    driver = await lively(tmp_path)
    assert (tmp_path / WAL).stat().st_mode & 0o077 == 0
    await driver.engine.stop()
    tables = open_tables(tmp_path / SHARD, 0, MAP_SIZE_BYTES, open_environment)
    try:
        assert tables.record(KEYS + 1) is not None
        assert read_wal(tmp_path / SHARD, tables.salt(), KEYS + 1) == WalContent([], gap=False)
    finally:
        tables.environment.close()


async def test_a_stop_that_died_between_its_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB has all but the last record of the last group."""
    driver = await lively(tmp_path)
    await asyncio.gather(*(driver.put("m", key, b"1") for key in "xyz"))
    monkeypatch.setattr(Wal, "settle", lambda *_: None)
    await driver.engine.stop()
    monkeypatch.undo()
    again = await started(engine_at(tmp_path))
    assert [await again.value("m", key) for key in (LAST, *"xyz")] == [VALUE, *[b"1"] * 3]
    await again.engine.stop()


@pytest.mark.parametrize("change", ["gone", "cut", "damaged", "salt", "no salt"])
async def test_a_tail_that_is_lost_is_damage(tmp_path: Path, change: str) -> None:
    driver = await lively(tmp_path / "a")
    left = copied(tmp_path / "a", tmp_path / "b")
    await driver.engine.stop()
    if change == "gone":
        (left / WAL).unlink()
    elif change == "cut":
        os.truncate(left / WAL, SMALL_WAL_BYTES - BLOCK_BYTES)
    elif change == "damaged":
        content = bytearray((left / WAL).read_bytes())
        content[100] ^= 1
        (left / WAL).write_bytes(content)
    else:
        environment = open_environment(left / SHARD, 1 << 30, False)
        with environment.begin(environment.open_db(b"meta"), write=True) as transaction:
            noted = transaction.get(b"tail", b"")
            if change == "salt":
                transaction.put(b"tail", bytes([noted[0] ^ 1]) + noted[1:])
            else:
                transaction.delete(b"tail")
        environment.close()
    with pytest.raises(DamagedStoreError, match="tail"):
        await engine_at(left).start()
    refuse_healthy(left, 1)
    (last,) = salvage_store(left, 1).sequences
    # The root page before the one with the damaged salt has the right one.
    assert last == (KEYS + 1 if "salt" in change else SETTLED)
    again = await started(engine_at(left))
    assert await again.value("m", "k0") == b"v0"
    assert await again.value("m", LAST) == (VALUE if "salt" in change else None)
    await again.engine.stop()


async def test_a_recovery_takes_the_tail_along(tmp_path: Path) -> None:
    driver = await lively(tmp_path / "a")
    left = copied(tmp_path / "a", tmp_path / "b")
    await driver.engine.stop()
    with (left / SHARD / "data.mdb").open("rb+") as file:
        newest = Pages(file).roots[0].commit % 2
        file.seek((1 - newest) * BLOCK_BYTES)
        file.write(bytes(BLOCK_BYTES))
    assert salvage_store(left, 1).sequences == (KEYS + 1,)
    again = await started(engine_at(left))
    assert await again.value("m", LAST) == VALUE
    await again.engine.stop()


async def test_records_that_the_tail_has_still_are_recovered_from_it(tmp_path: Path) -> None:
    """LMDB has taken them over since, and lost them."""
    driver = await lively(tmp_path)
    await driver.engine.stop()
    data = (tmp_path / SHARD / "data.mdb").read_bytes()
    (tmp_path / SHARD / "data.mdb").write_bytes(data.replace(b"k11v11", b"k11v12"))
    with pytest.raises(DamagedStoreError, match="checksum"):
        await engine_at(tmp_path).start()
    assert salvage_store(tmp_path, 1).sequences == (KEYS + 1,)


async def test_what_is_pending_goes_on_behind_an_image(tmp_path: Path) -> None:
    driver = await lively(tmp_path / "a")
    log = log_of(driver)
    log.store_snapshot(driver.engine.shards[0].state.snapshot())
    await condition(lambda: log._job is None and not log._purging)
    assert await driver.put("m", "later", b"1") is None
    left = copied(tmp_path / "a", tmp_path / "b")
    await driver.engine.stop()
    again = await started(engine_at(left))
    assert [await again.value("m", key) for key in (LAST, "later")] == [VALUE, b"1"]
    await again.engine.stop()


async def test_on_a_disk_that_is_short_nothing_waits_for_lmdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await lively(tmp_path)
    log = log_of(driver)
    monkeypatch.setattr(Space, "roomy", False)
    for number in range(3):
        assert await driver.put("m", f"more{number}", b"1") is None
        assert log._wal.pending == []
    await driver.engine.stop()


async def test_without_room_there_is_no_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, size_bytes: int) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "planted")

    monkeypatch.setattr(wal, "_fill", full)
    driver = await started(engine_at(tmp_path))
    for number in range(5):
        assert await driver.put("m", f"k{number}", b"v") is None
    assert not (tmp_path / WAL).exists()
    await driver.engine.stop()
    again = await started(engine_at(tmp_path))
    assert await again.value("m", "k4") == b"v"
    await again.engine.stop()
