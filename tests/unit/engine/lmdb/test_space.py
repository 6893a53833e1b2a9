"""A full log and a full disk: what stores something is refused, the rest goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lmdb
import pytest

from grid_member.engine.api import Item, Reason, Refused
from grid_member.engine.lmdb.tables import Tables
from tests.unit.engine.drive import Driver, condition
from tests.unit.engine.lmdb.test_log import RESERVE_BYTES, data, engine_at, started
from tests.unit.engine.volume import MIB, fill, needs_volumes, volume

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


VALUE = b"v" * 50_000


async def filled(driver: Driver, limit: int = 1000) -> int:
    """Put entries k0, k1 … until one is refused; return how many are there."""
    for number in range(limit):
        outcome = await driver.put("m", f"k{number}", VALUE)
        if outcome is not None:
            assert outcome.reason is Reason.UNAVAILABLE
            assert outcome.message.startswith("the log cannot take writes now: ")
            return number
    raise AssertionError("the disk does not fill")


async def takes_writes(driver: Driver) -> None:
    """Put an entry over and over until it is not refused any more."""
    async with asyncio.timeout(10):
        while isinstance(await driver.put("m", "again", VALUE), Refused):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_disk_that_does_not_tell_its_room_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(tables: Tables) -> tuple[int, int]:
        raise lmdb.DiskError("planted")

    with monkeypatch.context() as patch:
        # From the start on: room that was found once is not looked for again before it is used.
        patch.setattr("grid_member.engine.lmdb.tables.Tables.free_bytes", silent)
        driver = await started(engine_at(tmp_path))
        async with asyncio.timeout(10):
            assert isinstance(await driver.put("m", "k", b"v"), Refused)
            assert await driver.remove("m", "k") is None
    await takes_writes(driver)
    await driver.engine.stop()


async def test_a_full_log_refuses_what_stores_and_takes_what_removes(tmp_path: Path) -> None:
    driver = await started(engine_at(tmp_path, map_size_bytes=4 * MIB))
    await driver.offer("q", b"1")
    await driver.put("m", "first", b"v")
    count = await filled(driver)
    assert count > 10
    assert isinstance(await driver.offer("q", b"2"), Refused)
    assert await driver.value("m", "first") == b"v"
    assert await driver.value("m", f"k{count}") is None
    assert await driver.remove("m", "first") is None
    assert await driver.take("q") == b"1"
    assert await driver.clear("m") is None
    await takes_writes(driver)
    before = data(driver)
    await driver.engine.stop()
    again = await started(engine_at(tmp_path, map_size_bytes=4 * MIB))
    assert data(again) == before
    await again.engine.stop()


async def test_what_removes_is_not_refused_with_what_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operations of one tick travel in one record."""
    full = [True]

    append = Tables.append

    def small(
        tables: Tables, sequence: int, values: list[bytes], salt: bytes | None = None
    ) -> None:
        if full and any(len(value) > len(VALUE) for value in values):
            raise lmdb.DiskError("No space left on device")
        append(tables, sequence, values, salt)

    driver = await started(engine_at(tmp_path, wal_bytes=0))
    await driver.put("m", "k", b"1")
    await driver.offer("q", b"1")
    monkeypatch.setattr(Tables, "append", small)
    put, offer, removed, item = await asyncio.gather(
        driver.put("m", "l", VALUE),
        driver.offer("q", VALUE),
        driver.remove("m", "k"),
        driver.poll("q"),
    )
    assert isinstance(put, Refused)
    assert isinstance(offer, Refused)
    assert removed is None
    assert isinstance(item, Item)
    full.clear()
    assert await driver.put("m", "l", VALUE) is None
    await driver.engine.stop()
    again = await started(engine_at(tmp_path))
    assert [await again.value("m", key) for key in "kl"] == [None, VALUE]
    assert await again.take("q") == b"1"
    await again.engine.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with volume(tmp_path / "disk", 12 * MIB) as place:
        yield place


@needs_volumes
async def test_what_is_removed_makes_room_on_a_full_disk(small_disk: Path) -> None:
    driver = await started(engine_at(small_disk / "data"))
    for _ in range(3):
        count = await filled(driver)
        assert count * len(VALUE) > 3 * MIB
        for number in range(0, count, 2):
            assert await driver.remove("m", f"k{number}") is None
        await takes_writes(driver)
    before = data(driver)
    await driver.engine.stop()
    again = await started(engine_at(small_disk / "data"))
    assert data(again) == before
    await again.engine.stop()


@needs_volumes
async def test_a_disk_that_others_fill(small_disk: Path) -> None:
    driver = await started(engine_at(small_disk / "data"))
    for number in range(40):
        assert await driver.put("m", f"first{number}", VALUE) is None
        assert await driver.offer("q", b"%d" % number)
    fill(small_disk / "ballast")
    count = await filled(driver)
    reserve = small_disk / "data" / "store" / "shard-0" / "reserve"
    assert reserve.stat().st_size in (0, RESERVE_BYTES)
    for number in range(20):
        assert await driver.take("q") == b"%d" % number
        assert await driver.remove("m", f"first{number}") is None
    assert isinstance(await driver.offer("q", VALUE), Refused)
    assert await driver.value("m", "first30") == VALUE
    before = data(driver)
    # As after a crash, on the full disk: the files stay as they are.
    await driver.engine.stop()
    again = await started(engine_at(small_disk / "data"))
    assert data(again) == before
    assert await again.remove("m", "first30") is None
    assert isinstance(await again.put("m", "more", VALUE), Refused)
    (small_disk / "ballast").unlink()
    await takes_writes(again)
    await condition(lambda: reserve.stat().st_size == RESERVE_BYTES)
    assert await again.value("m", f"k{count}") is None
    await again.engine.stop()
