"""What the log is told of reads, and what becomes of it when the log does not take it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, Eviction, EvictionPolicy, MapSettings, Refused
from grid_member.engine.state.local_reads import MAX_PENDING_READS
from grid_member.engine.state.operations import MapExpireIdle, MapPut, MapPutBounded, MapTouch
from tests.unit.engine.drive import condition
from tests.unit.engine.recording import Recorded, ticks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.engine.drive import Driver

IDLE_100 = MapSettings(max_idle_s=100)
LRU_3 = MapSettings(eviction=Eviction(EvictionPolicy.LRU, max_entries=3))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 3600)
    return Recorded(monkeypatch)


@pytest.fixture
async def driver(recorded: Recorded) -> AsyncIterator[Driver]:
    recorded.structures.maps["m"] = IDLE_100
    recorded.structures.maps["lru"] = LRU_3
    driver = await recorded.open()
    yield driver
    recorded.log.refuses = False
    await driver.engine.stop()


async def test_plain_maps_are_not_touched(recorded: Recorded, driver: Driver) -> None:
    await driver.put("plain", "k", b"v")
    for _ in range(10):
        await driver.value("plain", "k")
    await driver.engine.stop()
    assert len(recorded.operations(MapPut)) == 1
    assert not recorded.operations(MapPutBounded)
    assert not recorded.operations(MapTouch)


async def test_a_busy_key_is_touched_four_times_in_its_idle_time(
    recorded: Recorded, driver: Driver
) -> None:
    await driver.put("m", "k", b"v")
    for _ in range(1000):
        recorded.clock.advance(1)
        assert await driver.value("m", "k") == b"v"
        await ticks()
    touches = recorded.operations(MapTouch)
    assert 36 <= len(touches) <= 40
    logged = [touch.accesses[0].accessed_ms for touch in touches]
    assert all(25_000 < later - sooner <= 26_000 for sooner, later in pairwise(logged))


async def test_the_reads_of_a_tick_are_one_touch_a_map(recorded: Recorded, driver: Driver) -> None:
    recorded.structures.maps["n"] = IDLE_100
    for number in range(50):
        await driver.put("m", str(number), b"v")
        await driver.put("n", str(number), b"v")
    recorded.clock.advance(30)
    await asyncio.gather(
        *(driver.get(name, str(number)) for _ in range(3) for name in "mn" for number in range(50))
    )
    await ticks()
    touches = recorded.operations(MapTouch)
    assert sorted(touch.name for touch in touches) == ["m", "n"]
    assert all(len(touch.accesses) == 50 for touch in touches)
    # They wait in flight no longer: nothing is sent again.
    await asyncio.gather(*(driver.get("m", str(number)) for number in range(50)))
    await ticks()
    assert len(recorded.operations(MapTouch)) == 2


async def test_a_touch_on_its_way_is_not_sent_again(recorded: Recorded, driver: Driver) -> None:
    await driver.put("m", "k", b"v")
    recorded.clock.advance(60)
    shard = driver.engine.shards[0]
    held: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "propose", lambda *proposal: held.append(proposal))
        for _ in range(5):
            assert await driver.value("m", "k") == b"v"
            await ticks()
    assert len(held) == 1


async def test_evicting_maps_are_touched_before_a_put_only(
    recorded: Recorded, driver: Driver
) -> None:
    for key in "abc":
        await driver.put("lru", key, b"v")
    for key in "abab":
        await driver.value("lru", key)
    await ticks()
    assert not recorded.operations(MapTouch)
    await driver.put("lru", "d", b"v")
    *_, record = recorded.log.records
    assert [type(operation) for operation in record.operations] == [MapTouch, MapPutBounded]
    (touch,) = recorded.operations(MapTouch)
    assert [(access.key, access.hits) for access in touch.accesses] == [("a", 2), ("b", 2)]
    await driver.put("lru", "e", b"v")
    assert len(recorded.operations(MapTouch)) == 1


async def test_random_eviction_needs_no_touches(recorded: Recorded, driver: Driver) -> None:
    recorded.structures.maps["r"] = MapSettings(eviction=Eviction(EvictionPolicy.RANDOM, 3))
    for key in "abcdef":
        await driver.put("r", key, b"v")
        await driver.value("r", key)
    assert not recorded.operations(MapTouch)


async def test_many_reads_between_puts_are_sent_in_pieces(
    recorded: Recorded, driver: Driver
) -> None:
    keys = [str(number) for number in range(MAX_PENDING_READS + 10)]
    eviction = Eviction(EvictionPolicy.LRU, max_entries=len(keys))
    recorded.structures.maps["big"] = MapSettings(eviction=eviction)
    await asyncio.gather(*(driver.put("big", key, b"v") for key in keys))
    for key in reversed(keys):
        await driver.value("big", key)
        await ticks(2)
    (touch,) = recorded.operations(MapTouch)
    assert len(touch.accesses) <= MAX_PENDING_READS + 1
    recorded.structures.maps["big"] = MapSettings(
        eviction=Eviction(EvictionPolicy.LRU, max_entries=len(keys) - 5)
    )
    await driver.put("big", "new", b"v")
    left = driver.engine.shards[0].state.maps.by_name["big"].entries
    assert set(left) == {"new", *keys[:-6]}


async def test_a_stop_tells_the_log_what_was_read(recorded: Recorded, driver: Driver) -> None:
    for key in "abc":
        await driver.put("lru", key, b"v")
    await driver.value("lru", "a")
    await driver.engine.stop()
    (touch,) = recorded.operations(MapTouch)
    assert [access.key for access in touch.accesses] == ["a"]


async def test_a_log_that_takes_nothing_stops_no_reader_and_loses_no_read(
    recorded: Recorded, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await driver.put("m", "k", b"v")
    for key in "abc":
        await driver.put("lru", key, b"v")
    recorded.log.refuses = True
    for _ in range(10):
        recorded.clock.advance(90)
        assert await driver.value("m", "k") == b"v"
        assert await driver.value("lru", "a") == b"v"
        await ticks()
    # Refused once; the next try is not every reader's business.
    assert len(recorded.operations(MapTouch)) == 1
    assert isinstance(await driver.put("lru", "d", b"v"), Refused)
    recorded.log.refuses = False
    await driver.put("lru", "d", b"v")
    assert set(driver.engine.shards[0].state.maps.by_name["lru"].entries) == {"a", "c", "d"}


async def test_a_refused_touch_is_sent_again(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 0.01)
    recorded.structures.maps["m"] = IDLE_100
    driver = await recorded.open()
    await driver.put("m", "k", b"v")
    recorded.log.refuses = True
    recorded.clock.advance(30)
    read_ms = recorded.clock.now_ms
    assert await driver.value("m", "k") == b"v"
    await condition(lambda: len(recorded.operations(MapTouch)) > 2)
    recorded.log.refuses = False
    idle = driver.engine.shards[0].state.maps.by_name["m"].idle
    await condition(lambda: idle["k"].accessed_ms == read_ms)
    sent = len(recorded.operations(MapTouch))
    recorded.clock.advance(10)
    assert await driver.value("m", "k") == b"v"
    await ticks()
    assert len(recorded.operations(MapTouch)) == sent
    await driver.engine.stop()


async def test_an_expiry_that_a_read_overtook_removes_nothing(
    recorded: Recorded, driver: Driver
) -> None:
    """As when another member proposes it, which does not know of the read yet."""
    await driver.put("m", "k", b"v")
    shard = driver.engine.shards[0]
    seen_ms = shard.state.maps.by_name["m"].idle["k"].accessed_ms
    recorded.clock.advance(99)
    assert await driver.value("m", "k") == b"v"
    await ticks()
    recorded.clock.advance(50)
    outcomes: list[object] = []
    shard.propose(MapExpireIdle("m", "k", seen_ms), outcomes.append, 0)
    await ticks()
    assert outcomes == [None]
    assert await driver.value("m", "k") == b"v"
    await ticks()
    touched_ms = shard.state.maps.by_name["m"].idle["k"].accessed_ms
    recorded.clock.advance(99)
    shard.propose(MapExpireIdle("m", "k", touched_ms), outcomes.append, 0)
    shard.propose(MapExpireIdle("m", "missing", touched_ms), outcomes.append, 0)
    await ticks()
    assert "m" in shard.state.maps.by_name


async def test_who_finds_an_entry_idle_is_answered_when_the_log_knows(
    recorded: Recorded, driver: Driver
) -> None:
    await driver.put("m", "k", b"v")
    recorded.clock.advance(100)
    outcomes: list[object] = []
    driver.engine.map_get("m", "k", outcomes.append)
    assert outcomes == []
    await condition(lambda: outcomes == [None])
    assert len(recorded.operations(MapExpireIdle)) == 1
    assert not driver.engine.shards[0].state.maps.by_name


async def test_an_idle_entry_that_a_late_touch_keeps_is_removed_all_the_same(
    recorded: Recorded, driver: Driver
) -> None:
    """The log hears of a read only when it finds the entry idle, and keeps it for that."""
    await driver.put("m", "k", b"v")
    recorded.log.refuses = True
    recorded.clock.advance(30)
    assert await driver.value("m", "k") == b"v"
    await ticks()
    recorded.log.refuses = False
    recorded.clock.advance(100)
    driver.engine.shards[0].reads.send_urgent()
    assert await driver.value("m", "k") is None
    assert len(recorded.operations(MapExpireIdle)) == 2
    assert not driver.engine.shards[0].state.maps.by_name


async def test_who_finds_an_entry_idle_gets_what_was_written_first(
    recorded: Recorded, driver: Driver
) -> None:
    await driver.put("m", "k", b"v")
    recorded.clock.advance(100)
    outcomes = await asyncio.gather(driver.put("m", "k", b"w"), driver.value("m", "k"))
    assert [*outcomes] == [None, b"w"]


async def test_an_idle_entry_is_gone_though_the_log_takes_nothing(
    recorded: Recorded, driver: Driver
) -> None:
    await driver.put("m", "k", b"v")
    recorded.clock.advance(100)
    recorded.log.refuses = True
    assert await driver.value("m", "k") is None
    assert await driver.value("m", "k") is None
    recorded.log.refuses = False
    assert await driver.value("m", "k") is None
    assert not driver.engine.shards[0].state.maps.by_name


async def test_an_expiry_before_its_time_removes_nothing(
    recorded: Recorded, driver: Driver
) -> None:
    await driver.put("m", "k", b"v")
    shard = driver.engine.shards[0]
    seen_ms = shard.state.maps.by_name["m"].idle["k"].accessed_ms
    recorded.clock.advance(99.999)
    shard.propose(MapExpireIdle("m", "k", seen_ms), lambda outcome: None, 0)
    await ticks()
    assert await driver.value("m", "k") == b"v"


async def test_a_read_by_a_clock_that_was_ahead_ends_with_the_next_write(
    recorded: Recorded, driver: Driver
) -> None:
    await driver.put("m", "k", b"v")
    recorded.clock.advance(10)
    assert await driver.value("m", "k") == b"v"
    recorded.clock.advance(-10)
    await driver.put("m", "k", b"w")
    recorded.clock.advance(100)
    assert await driver.value("m", "k") is None


async def test_what_is_noted_of_reads_goes_with_the_entries(
    recorded: Recorded, driver: Driver
) -> None:
    recorded.structures.maps["both"] = MapSettings(
        max_idle_s=100, eviction=Eviction(EvictionPolicy.LRU, 100)
    )
    for number in range(50):
        await driver.put("both", str(number), b"v")
        await driver.value("both", str(number))
    heard = driver.engine.shards[0].state.maps.by_name["both"].local_reads
    assert heard is not None
    for number in range(49):
        await driver.remove("both", str(number))
        assert heard.read_ms(str(number)) == 0
    assert heard.read_ms("49") > 0
    assert len(heard.take()) <= 1


async def test_touches_go_on_when_passive(recorded: Recorded, driver: Driver) -> None:
    await driver.put("m", "k", b"v")
    await driver.change_state(ClusterState.PASSIVE)
    recorded.clock.advance(30)
    await driver.value("m", "k")
    await ticks()
    idle = driver.engine.shards[0].state.maps.by_name["m"].idle
    assert idle["k"].accessed_ms == recorded.clock.now_ms
