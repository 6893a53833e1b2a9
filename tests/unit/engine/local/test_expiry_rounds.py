"""When entries of the state machine end: the index of what expires, and late proposals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.engine.api import Entry, Eviction, EvictionPolicy, MapSettings, Reason, Refused
from grid_member.engine.local import purge_rounds
from grid_member.engine.local.expiry_rounds import ExpiryRounds
from grid_member.engine.local.purge_rounds import LOOKS
from grid_member.engine.state.machine import State
from grid_member.engine.state.maps import EXPIRY_SLACK
from grid_member.engine.state.operations import (
    Access,
    MapClear,
    MapExpire,
    MapExpireIdle,
    MapPut,
    MapPutBounded,
    MapRemove,
    MapTouch,
    Operation,
    Record,
    WanAgree,
    WanPurge,
)
from grid_member.engine.wan.agreement import Agreement, MapReference, MergePolicy
from grid_member.engine.wan.stamps import last_stamp
from tests.unit.engine.cluster.proposals import OTHER, Proposals
from tests.unit.engine.images import through_a_snapshot

if TYPE_CHECKING:
    import pytest

MEMBER = b"M" * 16
ENTRY = (b"v", "t")


class Timed:
    """A state to which operations are applied at given times."""

    def __init__(self) -> None:
        self.state = State()

    def at(self, now_ms: int, *operations: Operation) -> None:
        sequence = self.state.sequence + 1
        self.state.apply(sequence, now_ms, Record(MEMBER, 1, sequence, operations))

    def there(self, key: str) -> bool:
        found = self.state.maps.by_name.get("m")
        return found is not None and key in found.entries


def living(key: str, ttl_ms: int) -> MapPut:
    return MapPut("m", key, *ENTRY, ttl_ms)


def idling(key: str, idle_ms: int, ttl_ms: int = 0) -> MapPutBounded:
    return MapPutBounded("m", key, *ENTRY, ttl_ms, idle_ms, None)


def test_what_is_due_comes_in_order_and_once() -> None:
    timed = Timed()
    timed.at(0, living("a", 30), living("b", 10), living("c", 20), idling("d", 15))
    maps = timed.state.maps
    assert maps.due(9, 10) == []
    assert maps.due(20, 10) == [
        MapExpire("m", "b"),
        MapExpireIdle("m", "d", 0),
        MapExpire("m", "c"),
    ]
    assert not maps.overdue(20)
    assert maps.due(20, 10) == []


def test_what_was_refused_is_due_again() -> None:
    timed = Timed()
    timed.at(0, living("a", 10))
    maps = timed.state.maps
    (expiry,) = maps.due(10, 10)
    maps.postpone(expiry)
    assert maps.due(10, 10) == [expiry]
    timed.at(10, expiry)
    maps.postpone(expiry)
    assert maps.due(99, 10) == []
    assert not timed.there("a")


def test_only_so_many_keys_are_looked_at() -> None:
    timed = Timed()
    timed.at(0, *(living(str(number), 10) for number in range(10)))
    maps = timed.state.maps
    assert len(maps.due(10, 4)) == 4
    assert maps.overdue(10)
    assert len(maps.due(10, 4)) + len(maps.due(10, 4)) == 6
    assert not maps.overdue(10)


def test_a_key_written_again_and_again_is_looked_at_once() -> None:
    timed = Timed()
    for now_ms in range(100):
        timed.at(now_ms, living("ttl", 10), idling("idle", 10))
    maps = timed.state.maps
    assert set(maps.due(109, 2)) == {MapExpire("m", "ttl"), MapExpireIdle("m", "idle", 99)}
    assert not maps.overdue(1000)


def test_keys_that_live_longer_than_scheduled_are_scheduled_again() -> None:
    timed = Timed()
    timed.at(0, living("a", 10), idling("b", 10))
    timed.at(5, living("a", 10), MapTouch("m", (Access("b", 5, 0),)))
    maps = timed.state.maps
    assert maps.due(14, 10) == []
    assert maps.due(15, 10) == [MapExpire("m", "a"), MapExpireIdle("m", "b", 5)]


def test_keys_that_live_shorter_than_scheduled_are_due_in_time() -> None:
    timed = Timed()
    timed.at(0, living("a", 1000), living("b", 1000), living("c", 1000))
    timed.at(1, living("a", 10), idling("b", 10, 1000), living("c", 0))
    maps = timed.state.maps
    assert maps.due(11, 10) == [MapExpire("m", "a"), MapExpireIdle("m", "b", 1)]
    assert maps.due(10_000, 10) == []


def test_the_index_does_not_grow_with_what_is_gone() -> None:
    timed = Timed()
    timed.at(0, living("stays", 10**9))
    for number in range(20_000):
        timed.at(number, living(str(number), 10**9), MapRemove("m", str(number)))
    assert len(timed.state.maps._expiry) <= 3 * EXPIRY_SLACK
    assert timed.state.maps.due(2 * 10**9, 10**6) == [MapExpire("m", "stays")]


def test_an_expiry_that_a_write_overtook_removes_nothing() -> None:
    timed = Timed()
    timed.at(0, living("ttl", 10), idling("idle", 10))
    due = timed.state.maps.due(10, 10)
    timed.at(10, living("ttl", 10), idling("idle", 10), *due)
    assert timed.there("ttl")
    assert timed.there("idle")
    timed.at(20, MapExpire("m", "ttl"))
    assert not timed.there("ttl")


def test_an_idle_entry_goes_only_as_it_was_seen() -> None:
    """Who proposed it did not know of the touch: it must look again."""
    timed = Timed()
    timed.at(0, idling("a", 10))
    timed.at(8, MapTouch("m", (Access("a", 5, 0),)))
    timed.at(100, MapExpireIdle("m", "a", 0))
    assert timed.there("a")
    timed.at(100, MapExpireIdle("m", "a", 5))
    assert not timed.there("a")


def test_touches_never_make_an_access_older_nor_later_than_the_log() -> None:
    timed = Timed()
    timed.at(50, idling("a", 10))
    timed.at(52, MapTouch("m", (Access("a", 40, 0), Access("missing", 40, 1))))
    assert timed.state.entry("m", "a", 59) == Entry(*ENTRY)
    assert timed.state.entry("m", "a", 60) is None
    timed.at(55, MapTouch("m", (Access("a", 10**6, 0),)))
    assert timed.state.entry("m", "a", 64) == Entry(*ENTRY)
    assert timed.state.entry("m", "a", 65) is None


def test_expiries_for_what_is_not_there_do_nothing() -> None:
    timed = Timed()
    timed.at(0, MapExpire("m", "a"), MapExpireIdle("m", "a", 0), MapTouch("m", ()))
    timed.at(1, living("a", 0), idling("b", 5))
    timed.at(99, MapExpire("m", "a"), MapExpire("m", "b"), MapExpireIdle("m", "a", 1))
    assert timed.there("a")
    assert timed.there("b")


def test_times_survive_an_image() -> None:
    timed = Timed()
    timed.at(0, living("a", 10), idling("b", 20, 30), idling("c", 40))
    timed.state = through_a_snapshot(timed.state)
    maps = timed.state.maps
    assert maps.due(25, 10) == [MapExpire("m", "a"), MapExpireIdle("m", "b", 0)]
    assert maps.due(40, 10) == [MapExpireIdle("m", "c", 0)]


def test_an_empty_map_is_forgotten() -> None:
    timed = Timed()
    timed.at(0, living("a", 10), idling("b", 10))
    timed.at(10, MapExpire("m", "a"), MapExpireIdle("m", "b", 0))
    assert not timed.state.maps.by_name
    timed.at(11, living("a", 10), MapRemove("m", "a"))
    assert not timed.state.maps.by_name
    timed.at(12, living("a", 10), idling("b", 10), MapClear("m"))
    assert not timed.state.maps.by_name
    assert timed.state.live_bytes == 0
    assert timed.state.maps.due(10**6, 10) == []


async def test_a_log_that_refuses_all_is_asked_to_remove_nothing() -> None:
    """It would refuse each at once, and there would be more to do at any time."""
    proposals = Proposals()
    shard, log = proposals.shard, proposals.log
    lru = Eviction(EvictionPolicy.LRU, max_entries=9)
    put = MapPutBounded("m", "a", *ENTRY, 10, 0, lru)
    proposals.come_back(Record(OTHER, 1, 1, (put,)))
    found, now_ms = shard.state.maps.by_name["m"], shard.state.timestamp_ms
    shard.reads.read(found, "m", "a", MapSettings(eviction=lru), lambda _: None)
    rounds = ExpiryRounds([shard], lambda _: now_ms + 10, asyncio.get_running_loop())
    log.refusal = Refused(Reason.UNAVAILABLE, "no quorum")
    assert rounds._look_once() is False
    assert shard.state.maps.overdue(now_ms + 10)

    log.refusal = None
    rounds._look_once()
    await asyncio.sleep(0)
    (record,) = log.on_their_way
    assert [type(operation) for operation in record.operations] == [MapTouch, MapExpire]


def with_tombstones(**counts: int) -> Proposals:
    """Return a shard with so many tombstones in maps."""
    proposals = Proposals()
    reference = MapReference(
        "r", MergePolicy.LATEST_UPDATE, republishing=True, include=(), exclude=()
    )
    agreed = Agreement(1, b"c" * 16, (("*", reference),), (), 600_000, 100_000, 60_000)
    removals = (MapRemove(name, str(n)) for name, count in counts.items() for n in range(count))
    proposals.come_back(Record(OTHER, 1, 1, (WanAgree(agreed),)))
    proposals.come_back(Record(OTHER, 1, 2, tuple(removals)))
    return proposals


async def test_old_tombstones_are_looked_for_once_a_minute() -> None:
    proposals = with_tombstones(m=1)
    then_ms = proposals.shard.state.timestamp_ms + 600_000
    rounds = ExpiryRounds([proposals.shard], lambda _: then_ms, asyncio.get_running_loop())
    for _ in range(2):
        rounds._look_once()
    await asyncio.sleep(0)
    (record,) = proposals.log.on_their_way
    assert record.operations == (WanPurge("m", last_stamp(then_ms - 600_000), LOOKS),)


async def test_old_tombstones_go_in_slices_however_many_maps_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One look and one record meet a number of them; the round ends when none is left."""
    monkeypatch.setattr(purge_rounds, "LOOKS", 100)
    proposals = with_tombstones(large=950, a=40, b=40, c=40)
    shard, log = proposals.shard, proposals.log
    then_ms = shard.state.timestamp_ms + 600_000
    rounds = ExpiryRounds([shard], lambda _: then_ms, asyncio.get_running_loop())
    maps, looks = shard.state.wan.maps, 0
    while rounds._look_once():
        await asyncio.sleep(0)
        for record in list(log.on_their_way):
            purges = [each for each in record.operations if isinstance(each, WanPurge)]
            assert sum(min(each.most, len(maps[each.name].tombstones)) for each in purges) <= 100
        proposals.come_back()
        looks += 1
        assert looks < 1000
    assert maps == {}
    assert looks > 10
