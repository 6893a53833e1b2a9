"""What travels together in a record of a shard, and what becomes of what a record cannot hold."""

from __future__ import annotations

import asyncio

from grid_member.engine.api import Reason, Refused
from grid_member.engine.shard.batching import MAX_RECORD_BYTES, MAX_SYSTEM_BYTES, record_bounds
from grid_member.engine.state.operations import (
    MAX_OPERATIONS_PER_RECORD,
    MapPut,
    QueueOffer,
    SystemPut,
    SystemRemove,
)
from tests.unit.engine.cluster.proposals import Proposals, put

TOO_LARGE = Refused(Reason.UNAVAILABLE, "too large")
HALF = MAX_SYSTEM_BYTES // 2


def test_content_types_and_names_count() -> None:
    puts = [MapPut("m" * 5000, f"k{number}", b"v", "t" * 5000, 0) for number in range(100)]
    begins = [begin for begin, _ in record_bounds(puts)]
    assert len(begins) == -(-100 // (MAX_RECORD_BYTES // 10_070))


def test_what_is_larger_than_a_record_travels_alone() -> None:
    small, large = put("k"), QueueOffer("q", bytes(2 * MAX_RECORD_BYTES), None, 0)
    assert list(record_bounds([small, large, small])) == [(0, 1), (1, 2), (2, 3)]


def test_operations_without_a_size_are_counted() -> None:
    count = MAX_OPERATIONS_PER_RECORD + 1
    ends = [end for _, end in record_bounds([SystemRemove(str(number)) for number in range(count)])]
    assert ends[-1] == count
    assert len(ends) > 1


async def test_values_of_the_cluster_itself_travel_in_records_of_bounded_size() -> None:
    proposals = Proposals()
    outcomes: list[object] = []
    for number in range(5):
        proposals.shard.propose_system(
            SystemPut(str(number), bytes(HALF), 0), outcomes.append, HALF
        )
    before = len(proposals.log.sent)
    await asyncio.sleep(0)
    assert [len(one.operations) for one in proposals.log.sent[before:]] == [1, 1, 1, 1, 1]
    proposals.come_back()
    assert outcomes == [None] * 5
    assert not proposals.shard.busy


async def test_a_record_that_the_log_cannot_hold_is_refused_and_readers_wait_for_the_next() -> None:
    proposals = Proposals()
    reads: list[object] = []
    proposals.shard.read_when_current(reads.append)
    record = await proposals.propose("large", put("large"))
    proposals.log.on_their_way.remove(record)
    proposals.shard.take_rejected([record], TOO_LARGE)
    assert proposals.answers == {"large": TOO_LARGE}
    assert reads == []
    await asyncio.sleep(0)
    proposals.come_back()
    assert reads == [None]
    assert not proposals.shard.busy
