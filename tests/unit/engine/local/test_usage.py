"""What an engine says that it holds, and snapshots of all of it."""

from __future__ import annotations

import asyncio
import gc
import random
from typing import TYPE_CHECKING

import pytest

from grid_member.engine import open_engine
from grid_member.engine.api import EngineError, Eviction, EvictionPolicy, Item, MapSettings
from grid_member.engine.local.usage import StructureUsage
from grid_member.engine.state import codec, snapshot
from grid_member.engine.state.machine import State
from grid_member.engine.state.stored import value_bytes
from tests.unit.engine.drive import FixedStructures, condition

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.engine.conftest import Bench


async def test_usage_counts_what_is_held(bench: Bench) -> None:
    driver = await bench.open()
    engine = driver.engine
    assert engine.structure_usage() == []
    assert engine.held_structures() == []
    await driver.put("m", "k", b"four")
    await driver.put("m", "k", b"fivex")
    await driver.put("m", "ä€", b"")
    await driver.put("gone", "k", b"v")
    await driver.clear("gone")
    await driver.put("empty", "k", b"v")
    await driver.remove("empty", "k")
    await driver.offer("q", b"12")
    await driver.offer("q", b"345")
    item = await driver.poll("q")
    await driver.offer("over", b"1")
    await driver.take("over")
    await condition(lambda: ("queue", "over") not in engine.held_structures())
    assert sorted(engine.structure_usage(), key=lambda usage: usage.kind) == [
        StructureUsage("map", "m", 2, 6 + 5),
        StructureUsage("queue", "q", 2, 5),
    ]
    assert sorted(engine.held_structures()) == [("map", "m"), ("queue", "q")]
    assert isinstance(item, Item)
    engine.queue_confirm(item)
    await condition(lambda: StructureUsage("queue", "q", 1, 3) in engine.structure_usage())


@pytest.mark.parametrize(
    "settings",
    [MapSettings(), MapSettings(5, 7), MapSettings(5, 0, Eviction(EvictionPolicy.LFU, 9))],
)
async def test_usage_is_right_whatever_happened(bench: Bench, settings: MapSettings) -> None:
    chance = random.Random(1)
    bench.structures.maps["m"] = settings
    driver = await bench.open()

    def held() -> list[int]:
        for shard in driver.engine.shards:
            if "m" in shard.state.maps.by_name:
                entries = shard.state.maps.by_name["m"].entries
                return [
                    len(entries),
                    sum(len(key.encode()) + value_bytes(entry) for key, entry in entries.items()),
                ]
        return []

    for number in range(400):
        key = chance.choice(["", "a", "ä", "b" * 9, "c", "😀", "d", "e", "f", "g", "h", "i"])
        match chance.randrange(8):
            case 0:
                await driver.remove("m", key)
            case 1 if number % 10 == 0:
                await driver.clear("m")
            case 2:
                bench.clock.advance(1)
            case _:
                await driver.put("m", key, b"x" * chance.randrange(9))
        usage = [[found.entries, found.size_bytes] for found in driver.engine.structure_usage()]
        assert usage == ([held()] if held() else [])


@pytest.mark.parametrize("shards", [1, 3])
async def test_usage_is_the_same_after_a_restart(durable: Bench, shards: int) -> None:
    durable.shards = shards
    driver = await durable.open()
    for number in range(30):
        await driver.put(f"m{number % 4}", f"ö{number}", b"v" * number)
        await driver.offer(f"q{number % 3}", b"v" * number)
    before = driver.engine.structure_usage()
    await driver.engine.stop()
    driver = await durable.open()
    assert driver.engine.structure_usage() == before
    copy = State()
    for part in snapshot.parts(driver.engine.snapshot()[0]):
        copy.load([part])
    for name, found in driver.engine.shards[0].state.maps.by_name.items():
        assert copy.maps.by_name[name].size_bytes == found.size_bytes
    for name, queue in driver.engine.shards[0].state.queues.by_name.items():
        assert copy.queues.by_name[name].size_bytes == queue.size_bytes


async def test_store_bytes_are_those_of_the_disk(durable: Bench, tmp_path: Path) -> None:
    memory = open_engine(FixedStructures())
    assert memory.store_bytes() is None
    driver = await durable.open()
    before = driver.engine.store_bytes()
    assert before is not None
    for number in range(60):
        await driver.put("m", str(number), b"v" * 100_000)
    after = driver.engine.store_bytes()
    assert after is not None
    assert after - before >= 6_000_000
    data = tmp_path / "store" / "shard-0" / "data.mdb"
    assert after >= data.stat().st_blocks * 512
    await driver.engine.stop()
    assert driver.engine.store_bytes() is not None


async def test_a_snapshot_is_one_moment(bench: Bench) -> None:
    """What was answered before is in all of it, what is proposed later in none."""
    driver = await bench.open()
    with pytest.raises(EngineError):
        open_engine(FixedStructures()).snapshot()
    for number in range(20):
        await driver.put(f"m{number}", "k", b"old")
        await driver.offer(f"q{number}", b"old")
    await driver.system("config/1", b"{}")
    later = [driver.put(f"m{number}", "k", b"new") for number in range(20)]
    begun = [asyncio.ensure_future(put) for put in later]
    snapshots = driver.engine.snapshot()
    await asyncio.gather(*begun)
    await asyncio.gather(*(driver.take(f"q{number}") for number in range(20)))
    await driver.system("config/1", None)
    assert len(snapshots) == bench.shards
    states = []
    for one in snapshots:
        # Written out and read while the engine goes on.
        states.append(State())
        for part in snapshot.parts(one):
            states[-1].load(codec.decode_parts(codec.encode_parts([part])))
        assert states[-1].sequence == one.sequence
    assert states[0].system.items("", 0) == [("config/1", b"{}")]
    kept = 20 if bench.structures.persistent else 0
    entries = [found.entries["k"] for state in states for found in state.maps.by_name.values()]
    assert entries == [b"old"] * kept
    assert sum(len(state.queues.by_name) for state in states) == kept


async def test_the_garbage_collector_looks_at_nothing_that_is_stored(bench: Bench) -> None:
    driver = await bench.open()
    await driver.put("m", "k", b"plain")
    await driver.put("m", "l", b"typed", "text/plain")
    await driver.offer("q", b"item")
    shards = driver.engine.shards
    entries = [
        e for shard in shards for m in shard.state.maps.by_name.values() for e in m.entries.values()
    ]
    items = [
        item for shard in shards for q in shard.state.queues.by_name.values() for item in q.items
    ]
    assert (len(entries), len(items)) == (2, 1)
    gc.collect()
    assert not any(map(gc.is_tracked, [*entries, *items]))
