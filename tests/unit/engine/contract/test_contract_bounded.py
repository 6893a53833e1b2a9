"""What every log gives the callers of maps with a time to live, an idle time or a limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, Eviction, EvictionPolicy, MapSettings
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench
    from tests.unit.engine.drive import Driver

LRU_3 = MapSettings(eviction=Eviction(EvictionPolicy.LRU, max_entries=3))


async def present(driver: Driver, name: str, keys: str) -> str:
    """Return the keys that are there, without reading any."""
    found = [shard.state.maps.by_name.get(name) for shard in driver.engine.shards]
    there = {key for data in found if data is not None for key in data.entries}
    return "".join(key for key in keys if key in there)


async def test_an_entry_is_gone_when_nobody_accessed_it(bench: Bench) -> None:
    bench.structures.maps["m"] = MapSettings(max_idle_s=10)
    driver = await bench.open()
    for key in ("read", "written", "left"):
        await driver.put("m", key, b"v")
    bench.clock.advance(9.999)
    assert await driver.value("m", "read") == b"v"
    await driver.put("m", "written", b"w")
    bench.clock.advance(0.001)
    assert await driver.value("m", "left") is None
    bench.clock.advance(9.998)
    assert await driver.value("m", "written") == b"w"
    bench.clock.advance(0.001)
    assert await driver.value("m", "read") is None
    bench.clock.advance(9.998)
    assert await driver.value("m", "written") == b"w"
    bench.clock.advance(10)
    assert await driver.value("m", "written") is None


async def test_reads_keep_an_entry_for_ever(bench: Bench) -> None:
    bench.structures.maps["m"] = MapSettings(max_idle_s=2)
    driver = await bench.open()
    await driver.put("m", "k", b"v")
    for _ in range(50):
        bench.clock.advance(1.9)
        assert await driver.value("m", "k") == b"v"
    bench.clock.advance(2)
    assert await driver.value("m", "k") is None


@pytest.mark.parametrize(
    ("ttl_s", "idle_s", "read_at_s", "gone_at_s"),
    [(10, 4, [], 4), (10, 4, [3, 6, 9], 10), (10, 4, [3, 5], 9), (3, 9, [1, 2], 3), (0, 4, [3], 7)],
)
async def test_whichever_time_is_over_first(
    bench: Bench, ttl_s: int, idle_s: int, read_at_s: list[int], gone_at_s: int
) -> None:
    bench.structures.maps["m"] = MapSettings(time_to_live_s=ttl_s, max_idle_s=idle_s)
    driver = await bench.open()
    await driver.put("m", "k", b"v")
    begin_ms = bench.clock.now_ms
    for read_s in read_at_s:
        bench.clock.now_ms = begin_ms + read_s * 1000
        assert await driver.value("m", "k") == b"v"
    bench.clock.now_ms = begin_ms + gone_at_s * 1000
    assert await driver.value("m", "k") is None
    # Not gone a moment before: the same again, and a look then.
    bench.structures.maps["again"] = MapSettings(time_to_live_s=ttl_s, max_idle_s=idle_s)
    await driver.put("again", "k", b"v")
    begin_ms = bench.clock.now_ms
    for second in [*read_at_s, gone_at_s - 0.001]:
        bench.clock.now_ms = begin_ms + int(second * 1000)
        assert await driver.value("again", "k") == b"v"


async def test_a_clock_that_is_set_back_brings_nothing_back(bench: Bench) -> None:
    bench.structures.maps["idle"] = MapSettings(max_idle_s=10)
    bench.structures.maps["ttl"] = MapSettings(time_to_live_s=10)
    driver = await bench.open()
    for name in ("idle", "ttl"):
        await driver.put(name, "k", b"v")
    bench.clock.advance(10)
    # Whatever is written tells the log what time it is.
    for name in ("idle", "ttl"):
        await driver.put(name, "other", b"v")
        assert await driver.value(name, "k") is None
    bench.clock.advance(-60)
    for name in ("idle", "ttl"):
        assert await driver.value(name, "k") is None
        assert await driver.value(name, "other") == b"v"
        await driver.put(name, "late", b"v")
    bench.clock.advance(60 + 9.999)
    for name in ("idle", "ttl"):
        assert await driver.value(name, "late") == b"v"
    bench.clock.advance(10)
    for name in ("idle", "ttl"):
        assert await driver.value(name, "late") is None


async def test_idle_entries_leave_the_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 0.01)
    bench.structures.maps["m"] = MapSettings(max_idle_s=10)
    driver = await bench.open()
    await asyncio.gather(*(driver.put("m", str(n), b"v") for n in range(2500)))
    bench.clock.advance(6)
    assert await driver.value("m", "7") == b"v"
    bench.clock.advance(4)

    def left() -> set[str]:
        found = [shard.state.maps.by_name.get("m") for shard in driver.engine.shards]
        return {key for data in found if data is not None for key in data.entries}

    await condition(lambda: left() == {"7"})
    bench.clock.advance(6)
    await condition(lambda: not any(shard.state.maps.by_name for shard in driver.engine.shards))
    assert all(shard.state.maps.live_bytes == 0 for shard in driver.engine.shards)


async def test_idle_entries_that_are_read_stay_in_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 0.001)
    bench.structures.maps["m"] = MapSettings(max_idle_s=10)
    driver = await bench.open()
    await driver.put("m", "read", b"v")
    for number in range(20):
        assert await driver.value("m", "read") == b"v"
        await driver.put("m", f"left-{number}", b"v")
        bench.clock.advance(9)
        assert await driver.value("m", "read") == b"v"
        bench.clock.advance(1)
        gone = f"left-{number}"
        await condition(
            lambda gone=gone: all(  # type: ignore[misc]
                gone not in data.entries
                for shard in driver.engine.shards
                for data in shard.state.maps.by_name.values()
            )
        )
    assert await driver.value("m", "read") == b"v"


async def test_a_read_saves_an_entry_from_eviction(bench: Bench) -> None:
    bench.structures.maps["m"] = LRU_3
    driver = await bench.open()
    for key in "abc":
        await driver.put("m", key, b"v")
    assert await driver.value("m", "a") == b"v"
    assert await driver.get("m", "missing") is None
    await driver.put("m", "d", b"v")
    assert await present(driver, "m", "abcd") == "acd"
    # All of one tick: what was read before the put counts, what was read after it does not.
    await asyncio.gather(
        driver.get("m", "c"), driver.put("m", "e", b"v"), driver.get("m", "d"),
        driver.put("m", "f", b"v"),
    )  # fmt: skip
    assert await present(driver, "m", "abcdef") == "def"


async def test_frequent_reads_save_an_entry_from_eviction(bench: Bench) -> None:
    eviction = Eviction(EvictionPolicy.LFU, max_entries=3)
    bench.structures.maps["m"] = MapSettings(eviction=eviction)
    driver = await bench.open()
    for key in "abc":
        await driver.put("m", key, b"v")
    for key in "aab":
        await driver.value("m", key)
    for key in "de":
        await driver.put("m", key, b"v")
    assert await present(driver, "m", "abcde") == "abe"
    for key in "eeee":
        await driver.value("m", key)
    await driver.put("m", "f", b"v")
    assert await present(driver, "m", "abcdef") == "aef"


@pytest.mark.parametrize("policy", EvictionPolicy)
async def test_a_full_map_takes_what_is_put(bench: Bench, policy: EvictionPolicy) -> None:
    bench.structures.maps["m"] = MapSettings(eviction=Eviction(policy, 0, 1000))
    driver = await bench.open()
    for number in range(100):
        key = str(number)
        assert await driver.put("m", key, b"x" * 90) is None
        assert await driver.value("m", key) == b"x" * 90
    held = await present(driver, "m", "".join("0123456789"))
    assert len(held) <= 10
    sizes = [shard.state.maps.by_name["m"].size_bytes
             for shard in driver.engine.shards if "m" in shard.state.maps.by_name]  # fmt: skip
    assert 900 <= sum(sizes) <= 1000


async def test_clear_and_remove_of_bounded_maps(bench: Bench) -> None:
    bench.structures.maps["m"] = MapSettings(5, 5, Eviction(EvictionPolicy.LFU, 2))
    driver = await bench.open()
    for key in "ab":
        await driver.put("m", key, b"v")
        await driver.value("m", key)
    await driver.remove("m", "a")
    await driver.put("m", "c", b"v")
    assert await present(driver, "m", "abc") == "bc"
    await driver.clear("m")
    assert not any(shard.state.maps.by_name for shard in driver.engine.shards)
    assert all(shard.state.maps.live_bytes == 0 for shard in driver.engine.shards)
    for key in "cd":
        await driver.put("m", key, b"v")
    assert await present(driver, "m", "bcd") == "cd"


async def test_passive_keeps_what_is_read(bench: Bench) -> None:
    bench.structures.maps["m"] = MapSettings(max_idle_s=10)
    bench.structures.maps["lru"] = LRU_3
    driver = await bench.open()
    await driver.put("m", "k", b"v")
    for key in "abc":
        await driver.put("lru", key, b"v")
    await driver.change_state(ClusterState.PASSIVE)
    for _ in range(5):
        bench.clock.advance(9)
        assert await driver.value("m", "k") == b"v"
        assert await driver.value("lru", "a") == b"v"
    await driver.change_state(ClusterState.ACTIVE)
    await driver.put("lru", "d", b"v")
    assert await present(driver, "lru", "abcd") == "acd"
    assert await driver.value("m", "k") == b"v"
