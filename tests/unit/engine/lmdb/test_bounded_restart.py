"""Bounded maps in a durable log: what restarts and crashes leave of times and orders."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from grid_member.engine import open_engine
from grid_member.engine.api import Eviction, EvictionPolicy, MapSettings
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.state import snapshot as image
from tests.unit.engine.drive import Driver, condition
from tests.unit.engine.recording import ticks

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.log.log import Clock
    from grid_member.engine.state.machine import State
    from tests.unit.engine.conftest import Bench

IDLE_100 = MapSettings(max_idle_s=100)


@pytest.fixture(autouse=True)
def _no_expiry_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 3600)


async def crashed(bench: Bench, driver: Driver, where: Path) -> Driver:
    """Open what the disk holds at this moment, as after a power cut."""
    await settled(driver)
    assert bench.directory is not None
    shutil.copytree(bench.directory, where)
    bench.directory = where
    return await bench.open()


async def settled(driver: Driver) -> None:
    await ticks()
    for shard in driver.engine.shards:
        await shard.settle()


async def test_idle_time_goes_on_over_a_restart(durable: Bench) -> None:
    durable.structures.maps["m"] = IDLE_100
    driver = await durable.open()
    await driver.put("m", "k", b"v")
    await driver.engine.stop()
    durable.clock.advance(99)
    driver = await durable.open()
    assert await driver.value("m", "k") == b"v"
    await driver.engine.stop()
    durable.clock.advance(126)
    driver = await durable.open()
    assert await driver.value("m", "k") is None


@pytest.mark.parametrize("last_read_s", [0, 1, 24, 25, 26, 60, 99])
async def test_a_crash_expires_nothing_early(
    durable: Bench, tmp_path: Path, last_read_s: int
) -> None:
    durable.structures.maps["m"] = IDLE_100
    driver = await durable.open()
    await driver.put("m", "k", b"v")
    durable.clock.advance(last_read_s)
    assert await driver.value("m", "k") == b"v"
    driver = await crashed(durable, driver, tmp_path / "copy")
    durable.clock.advance(99.999)
    found = driver.engine.shards[0].state
    assert found.entry("m", "k", durable.clock.now_ms) is not None
    # At most a quarter of the idle time late.
    durable.clock.advance(25.001)
    assert await driver.value("m", "k") is None


@pytest.mark.parametrize("read_s", [0, 10, 60])
async def test_who_found_an_entry_idle_does_not_see_it_again(
    durable: Bench, tmp_path: Path, read_s: int
) -> None:
    durable.structures.maps["m"] = IDLE_100
    driver = await durable.open()
    await driver.put("m", "k", b"v")
    durable.clock.advance(read_s)
    assert await driver.value("m", "k") == b"v"
    await settled(driver)
    durable.clock.advance(100)
    assert await asyncio.gather(*(driver.value("m", "k") for _ in range(3))) == [None] * 3
    assert durable.directory is not None
    shutil.copytree(durable.directory, tmp_path / "copy")  # at once: as after a power cut
    durable.directory = tmp_path / "copy"
    driver = await durable.open()
    assert await driver.value("m", "k") is None


async def test_two_crashes_give_no_more_grace_than_one(durable: Bench, tmp_path: Path) -> None:
    durable.structures.maps["m"] = IDLE_100
    driver = await durable.open()
    await driver.put("m", "k", b"v")
    for number in range(3):
        driver = await crashed(durable, driver, tmp_path / f"copy-{number}")
        durable.clock.advance(30)
    durable.clock.advance(34.999)
    assert driver.engine.shards[0].state.entry("m", "k", durable.clock.now_ms) is not None
    durable.clock.advance(0.001)
    assert await driver.value("m", "k") is None


async def test_what_is_accessed_after_a_restart_gets_no_grace(durable: Bench) -> None:
    durable.structures.maps["m"] = IDLE_100
    driver = await durable.open()
    for key in ("read", "written"):
        await driver.put("m", key, b"v")
    await driver.engine.stop()
    durable.clock.advance(50)
    driver = await durable.open()
    assert await driver.value("m", "read") == b"v"
    await driver.put("m", "written", b"w")
    durable.clock.advance(99.999)
    state = driver.engine.shards[0].state
    assert state.entry("m", "read", durable.clock.now_ms) is not None
    assert state.entry("m", "written", durable.clock.now_ms) is not None
    durable.clock.advance(0.001)
    assert await driver.value("m", "read") is None
    assert await driver.value("m", "written") is None


async def test_a_clock_set_back_over_a_restart_brings_nothing_back(durable: Bench) -> None:
    durable.structures.maps["ttl"] = MapSettings(time_to_live_s=100)
    durable.structures.maps["m"] = IDLE_100
    driver = await durable.open()
    for name in ("ttl", "m"):
        await driver.put(name, "k", b"v")
    durable.clock.advance(126)
    await driver.put("m", "other", b"v")
    await driver.engine.stop()
    durable.clock.advance(-1000)
    driver = await durable.open()
    for name in ("ttl", "m"):
        assert await driver.value(name, "k") is None
    assert await driver.value("m", "other") == b"v"


async def test_a_removed_idle_time_keeps_what_is_written_anew(durable: Bench) -> None:
    durable.structures.maps["m"] = IDLE_100
    driver = await durable.open()
    for key in ("old", "new"):
        await driver.put("m", key, b"v")
    await driver.engine.stop()
    durable.structures.maps["m"] = MapSettings()
    driver = await durable.open()
    await driver.put("m", "new", b"v")
    durable.clock.advance(10_000)
    # An entry has the times that it was written with.
    assert await driver.value("m", "old") is None
    assert await driver.value("m", "new") == b"v"


@pytest.mark.parametrize("policy", [EvictionPolicy.LRU, EvictionPolicy.LFU])
async def test_the_order_of_eviction_survives_a_stop(
    durable: Bench, policy: EvictionPolicy
) -> None:
    durable.structures.maps["m"] = MapSettings(eviction=Eviction(policy, 3))
    driver = await durable.open()
    for key in "abc":
        await driver.put("m", key, b"v")
    await driver.value("m", "a")
    await driver.engine.stop()
    driver = await durable.open()
    for key in "de":
        await driver.put("m", key, b"v")
    assert "a" in driver.engine.shards[0].state.maps.by_name["m"].entries


async def test_a_map_that_gets_a_limit_later_loses_what_was_written_first(durable: Bench) -> None:
    driver = await durable.open()
    for key in "dacb":
        await driver.put("m", key, b"v")
    await driver.engine.stop()
    durable.structures.maps["m"] = MapSettings(eviction=Eviction(EvictionPolicy.LRU, 3))
    driver = await durable.open()
    assert len(driver.engine.shards[0].state.maps.by_name["m"].entries) == 4
    await driver.put("m", "e", b"v")
    assert set(driver.engine.shards[0].state.maps.by_name["m"].entries) == {"c", "b", "e"}
    await driver.engine.stop()
    durable.structures.maps["m"] = MapSettings()
    driver = await durable.open()
    for key in "fgh":
        await driver.put("m", key, b"v")
    assert len(driver.engine.shards[0].state.maps.by_name["m"].entries) == 6


@pytest.mark.parametrize("policy", EvictionPolicy)
async def test_a_cleaned_log_gives_the_same_state(
    tmp_path: Path, durable: Bench, policy: EvictionPolicy
) -> None:
    def open_log(path: Path, shard: int, clock: Clock) -> LmdbLog:
        return LmdbLog(path, shard, clock, compaction_slack_bytes=20_000)

    bounds = MapSettings(50, 100, Eviction(policy, 20))
    durable.structures.maps["m"] = bounds
    directory = tmp_path / "cleaned"
    engine = open_engine(durable.structures, directory, clock=durable.clock, open_log=open_log)
    await engine.start()
    driver = Driver(engine)
    snapshots = 0
    shard = engine.shards[0]
    snapshot = shard.state.snapshot

    def counted() -> image.Snapshot:
        nonlocal snapshots
        snapshots += 1
        return snapshot()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard.state, "snapshot", counted)
        number = 0
        while snapshots < 3:
            number += 1
            await driver.put("m", str(number % 37), b"x" * 100)
            await driver.value("m", str(number * 7 % 37))
            durable.clock.advance(0.1)
    await settled(driver)
    await engine.stop()
    before = _entries(shard.state)
    assert len(before) == 20
    again = open_engine(durable.structures, directory, clock=durable.clock, open_log=open_log)
    await again.start()
    await condition(lambda: not again.shards[0].busy)
    assert _entries(again.shards[0].state) == before
    await again.stop()


def _entries(state: State) -> list[image.Part]:
    """Leave out the system and member parts, which a start changes."""
    parts = image.parts(state.snapshot(), ordered=True)
    return [part for part in parts if isinstance(part, image.TrackedEntryPart)]
