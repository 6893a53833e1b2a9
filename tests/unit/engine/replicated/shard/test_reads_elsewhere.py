"""Reads that other members answer: of few of them the log hears at once, and nothing goes early."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.engine.api import (
    Entry,
    Eviction,
    EvictionPolicy,
    MapSettings,
    Reason,
    Refused,
)
from grid_member.engine.state.operations import (
    Access,
    MapExpireIdle,
    MapPutBounded,
    MapTouch,
    Operation,
    Record,
)
from tests.unit.engine.cluster.proposals import OTHER, Proposals
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from grid_member.engine.state.maps import MapData

GIVEN_UP = Refused(Reason.UNAVAILABLE, "no quorum")
IDLE_MS = 1000
LRU = Eviction(EvictionPolicy.LRU, max_entries=2)


def idling(key: str) -> MapPutBounded:
    return MapPutBounded("m", key, b"v", None, 0, IDLE_MS, None)


def bounded(key: str) -> MapPutBounded:
    return MapPutBounded("m", key, b"v", None, 0, 0, LRU)


class Written(Proposals):
    """A shard whose records other members write."""

    def write(self, *operations: Operation) -> int:
        """Apply a record of another member; return its time."""
        counter = len(self.log.kept) + 1
        self.come_back(Record(OTHER, 1, counter, operations))
        return self.shard.state.timestamp_ms

    @property
    def found(self) -> MapData:
        return self.shard.state.maps.by_name["m"]

    def over(self, now_ms: int) -> object:
        return self.shard.state.maps.expiry(self.found, "m", "k", now_ms)

    def check_an_entry_lives_as_long_as_a_read_elsewhere_may_have_it(self, put_ms: int) -> None:
        longest_ms = put_ms + IDLE_MS + IDLE_MS // 4
        assert self.over(longest_ms - 1) is None
        assert self.over(longest_ms) == MapExpireIdle("m", "k", put_ms)


async def test_an_entry_that_another_member_may_have_read_is_idle_later() -> None:
    written = Written()
    put_ms = written.write(idling("k"))
    written.check_an_entry_lives_as_long_as_a_read_elsewhere_may_have_it(put_ms)
    touched_ms = written.write(MapTouch("m", (Access("k", put_ms + 1, 0),)))
    assert touched_ms == put_ms + 1
    written.check_an_entry_lives_as_long_as_a_read_elsewhere_may_have_it(touched_ms)


async def test_so_it_is_when_the_log_was_read_anew() -> None:
    written = Written()
    put_ms = written.write(idling("k"))
    written.shard.reload()
    await condition(lambda: written.log.resumed == 1)
    written.check_an_entry_lives_as_long_as_a_read_elsewhere_may_have_it(put_ms)
    put_ms = written.write(idling("k"))
    written.check_an_entry_lives_as_long_as_a_read_elsewhere_may_have_it(put_ms)


async def test_reads_count_for_an_eviction_though_this_member_writes_nothing() -> None:
    written = Written()
    written.write(bounded("a"), bounded("b"))
    heard: list[Entry | Refused | None] = []
    settings = MapSettings(eviction=LRU)
    written.shard.reads.read(written.found, "m", "a", settings, heard.append)
    assert heard == [Entry(b"v", None)]
    await asyncio.sleep(0)
    assert not written.log.on_their_way  # many of them are to travel together
    written.shard.reads.send_urgent()
    await asyncio.sleep(0)
    (record,) = written.log.on_their_way
    assert [type(operation) for operation in record.operations] == [MapTouch]
    written.come_back()
    written.shard.reads.send_urgent()
    await asyncio.sleep(0)
    assert not written.log.on_their_way
    written.write(bounded("c"))
    assert set(written.found.entries) == {"a", "c"}


async def test_a_read_that_the_log_did_not_take_is_sent_again() -> None:
    written = Written()
    written.write(bounded("a"), bounded("b"))
    written.shard.reads.read(written.found, "m", "a", MapSettings(eviction=LRU), lambda _: None)
    written.shard.reads.send_urgent()
    await asyncio.sleep(0)
    refused = written.log.withdraw()
    written.shard.take_rejected(refused, GIVEN_UP)
    for _ in range(2):
        await asyncio.sleep(0)
    written.shard.reads.send_urgent()
    await asyncio.sleep(0)
    written.come_back()
    written.write(bounded("c"))
    assert set(written.found.entries) == {"a", "c"}
