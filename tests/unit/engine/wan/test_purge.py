"""Promise: tombstones go in slices: no record and no look meets more of them than a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine.state.operations import MapRemove, WanMemberState, WanPurge
from grid_member.engine.wan.agreement import PublisherState
from grid_member.engine.wan.map_wan import EXCESS_LOOKS
from grid_member.engine.wan.publisher_queue import PublisherQueue
from tests.unit.engine.images import through_a_snapshot
from tests.unit.engine.wan.agreements import LONDON, agreement, publisher
from tests.unit.engine.wan.single import AHEAD, A, B, Single

if TYPE_CHECKING:
    import pytest

ROOMY = agreement((publisher(capacity=1_000_000),))
RETENTION_MS = agreement().tombstone_retention_ms + 60_000


def removals(single: Single, count: int, member: bytes = A, first: int = 0) -> list[str]:
    keys = [f"{number:06}" for number in range(first, first + count)]
    for key in keys:
        single.apply(MapRemove("m", key), member)
    return keys


def tombstones(single: Single) -> list[str]:
    return list(single.state.wan.maps["m"].tombstones)


class Looks:
    """Counts how often queues are asked whether a key waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        has = PublisherQueue.has

        def noted(queue: PublisherQueue, key: str) -> bool:
            self.count += 1
            return has(queue, key)

        monkeypatch.setattr(PublisherQueue, "has", noted)

    def taken(self) -> int:
        count, self.count = self.count, 0
        return count


def test_a_purge_forgets_the_oldest_up_to_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    single = Single(ROOMY)
    keys = removals(single, 1000)
    single.acknowledge_all()
    looks = Looks(monkeypatch)
    single.apply(WanPurge("m", AHEAD, 100))
    assert (tombstones(single), looks.taken()) == (keys[100:], 100)
    single.apply(WanPurge("m", 0, 100))
    assert (tombstones(single), looks.taken()) == (keys[100:], 0)
    single.state = through_a_snapshot(single.state)
    for _ in range(9):
        single.apply(WanPurge("m", AHEAD, 100))
    assert tombstones(single) == []


def test_tombstones_that_wait_are_passed_and_hold_up_no_others() -> None:
    single = Single(ROOMY)
    waiting = removals(single, 500)
    removals(single, 500, B, first=500)
    single.acknowledge_all()
    single.apply(WanMemberState(LONDON, A, PublisherState.PAUSED))
    removals(single, 500)  # of A, which wait now
    taken = 0
    for _ in range(20):
        before = len(tombstones(single))
        single.apply(WanPurge("m", AHEAD, 100))
        taken = max(taken, before - len(tombstones(single)))
    assert tombstones(single) == [*(f"{n:06}" for n in range(500, 1000)), *waiting]
    for key in tombstones(single)[:500]:
        # B's are acknowledged now, and A's go on waiting.
        assert single.state.wan.maps["m"].queues[LONDON].has(key)
    queue = single.state.wan.maps["m"].queues[LONDON]
    queue.drop_queue(B)
    for _ in range(10):
        single.apply(WanPurge("m", AHEAD, 100))
    assert tombstones(single) == waiting


def test_too_many_tombstones_go_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of a million has a sixteenth too many go at once: all of them were looked at."""
    limit = 20 * EXCESS_LOOKS
    single = Single(agreement((publisher(capacity=1_000_000),), max_tombstones=limit))
    wan = single.state.wan.maps
    keys = removals(single, limit)
    single.acknowledge_all()
    looks = Looks(monkeypatch)
    single.apply(MapRemove("m", "one more"))
    assert looks.taken() == EXCESS_LOOKS
    assert tombstones(single) == [*keys[EXCESS_LOOKS:], "one more"]
    most = 0
    for number in range(2 * EXCESS_LOOKS):
        single.apply(MapRemove("m", f"more {number}"))
        single.acknowledge_all()
        most = max(most, looks.taken())
        assert len(wan["m"].tombstones) <= limit
    assert most <= EXCESS_LOOKS + 1


def test_a_look_for_what_is_overdue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    single = Single(ROOMY)
    keys = removals(single, 3000)
    looks, later_ms = Looks(monkeypatch), single.now_ms + RETENTION_MS
    wan = single.state.wan
    assert wan.purge_due("m", later_ms, 1000) is None, "all of them wait"
    assert looks.taken() == 1000
    single.state.wan.maps["m"].queues[LONDON].forget(keys[-1])
    due = wan.purge_due("m", later_ms, 1000)
    assert due is not None
    assert due.most == 1000
    for _ in range(3):
        assert wan.purge_due("m", later_ms, 1000) == due
        single.apply(due)
    assert tombstones(single) == keys[:-1]
    assert wan.purge_due("m", later_ms, 1000) is None
    assert wan.purge_due("n", later_ms, 1000) is None


def test_a_purge_without_a_number_looks_at_all() -> None:
    """Members proposed such purges once: each log means for ever what it meant."""
    single = Single(ROOMY)
    keys = removals(single, 3)
    single.acknowledge_all()
    single.state.wan.maps["m"].tombstones[keys[0]] = AHEAD + 1
    single.apply(WanPurge("m", AHEAD, 0))
    assert tombstones(single) == keys[:1]
