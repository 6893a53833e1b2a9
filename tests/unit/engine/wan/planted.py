"""Faults that are planted into the state, each of which a test must catch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.state import wan as state_wan
from grid_member.engine.state.maps import Maps
from grid_member.engine.state.operations import MapRemove
from grid_member.engine.state.snapshot import QueuedPart, StampPart, TombstonePart, WanMapPart
from grid_member.engine.state.wan import Wan
from grid_member.engine.wan import map_wan, merging
from grid_member.engine.wan.changes import Change, ChangeKind, MergeResult
from grid_member.engine.wan.map_wan import MapWan
from grid_member.engine.wan.publisher_queue import PublisherQueue
from tests.unit.engine.wan.model import Link

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from grid_member.engine.api import Refused
    from grid_member.engine.state.operations import MapClear, Outcome, WanMerge
    from grid_member.engine.wan.agreement import MergePolicy, PublisherName
    from grid_member.engine.wan.merging import Known, Rank

    Patch = Callable[[pytest.MonkeyPatch], None]

FOREVER: Final = 1 << 62


def equal_stamps_count(patch: pytest.MonkeyPatch) -> None:
    """Take a change that is there already: `>=` for `>`."""

    def result(change: Change, policy: MergePolicy, known: Known | None) -> MergeResult:
        if known is not None and change.stamp == known.stamp:
            newer = merging.rank_of_change(change) >= known.rank
            return MergeResult.TAKEN if newer else MergeResult.OLDER
        return original(change, policy, known)

    original = merging.merge_result
    patch.setattr(f"{state_wan.__name__}.merge_result", result)


def ties_go_by_arrival(patch: pytest.MonkeyPatch) -> None:
    """Let the change that arrives last count at equal stamps."""

    def result(change: Change, policy: MergePolicy, known: Known | None) -> MergeResult:
        found = original(change, policy, known)
        tie = known is not None and change.stamp == known.stamp
        return MergeResult.TAKEN if tie and found is MergeResult.OLDER else found

    original = merging.merge_result
    patch.setattr(f"{state_wan.__name__}.merge_result", result)


def the_latest_end_counts(patch: pytest.MonkeyPatch) -> None:
    """Turn the order of ends round at equal stamps."""

    def rank(value: bytes, content_type: str | None, deadline_ms: int) -> Rank:
        end, *others = original(value, content_type, deadline_ms)
        return (-end, *others)  # type: ignore[return-value]

    original = merging.rank_of_entry
    patch.setattr(merging, "rank_of_entry", rank)


def a_missing_key_leaves_no_tombstone(patch: pytest.MonkeyPatch) -> None:
    """Note a client's removal only where there is an entry."""

    def remove(maps: Maps, operation: MapRemove, *others: Any) -> Outcome:
        found = maps.by_name.get(operation.name)
        if found is None or operation.key not in found.entries:
            return None
        return original(maps, operation, *others)

    original = Maps.remove
    patch.setattr(Maps, "remove", remove)


def an_unknown_removal_is_no_change(patch: pytest.MonkeyPatch) -> None:
    """Note another cluster's removal only where there is an entry or tombstone."""

    def result(change: Change, policy: MergePolicy, known: Known | None) -> MergeResult:
        if known is None and change.kind is ChangeKind.REMOVAL:
            return MergeResult.UNCHANGED
        return original(change, policy, known)

    original = merging.merge_result
    patch.setattr(f"{state_wan.__name__}.merge_result", result)


def an_expired_change_is_thrown_away(patch: pytest.MonkeyPatch) -> None:
    """Drop what comes after its deadline."""

    def merge(
        wan: Wan, operation: WanMerge, member: bytes, place: int, now_ms: int
    ) -> MergeResult | Refused:
        if 0 < operation.change.deadline_ms <= now_ms:
            return MergeResult.OLDER
        return original(wan, operation, member, place, now_ms)

    original = Wan.merge
    patch.setattr(Wan, "merge", merge)


def expiry_leaves_no_tombstone(patch: pytest.MonkeyPatch) -> None:
    """Forget an entry that has expired."""
    patch.setattr(MapWan, "expire", MapWan.forget)


def tombstones_go_when_acknowledged(patch: pytest.MonkeyPatch) -> None:
    """Purge a tombstone as soon as the target has it."""

    def acknowledge(found: MapWan, publisher: PublisherName, member: bytes, place: int) -> None:
        original(found, publisher, member, place)
        for key in list(found.tombstones):
            if not any(queue.has(key) for queue in found.queues.values()):
                del found.tombstones[key]

    original = MapWan.acknowledge
    patch.setattr(MapWan, "acknowledge", acknowledge)


def acknowledged_regardless_of_the_place(patch: pytest.MonkeyPatch) -> None:
    """Take the keys of a batch, though they have changed since it was read."""

    def queue(found: PublisherQueue, key: str, member: bytes, place: int) -> None:
        former = found.by_member.get(member, {}).get(key, place)
        original(found, key, member, place)
        if key in found.by_member.get(member, ()):
            found.by_member[member][key] = former

    original = PublisherQueue.queue
    patch.setattr(PublisherQueue, "queue", queue)


def acknowledged_beyond_a_gap(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge all before a batch that arrived."""
    patch.setattr(Link, "gap_matters", False)


def answered_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge a batch that the target has not stored yet."""
    patch.setattr(Link, "waits_for_commit", False)


def passed_clusters_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """Send and merge a change that has passed this cluster."""
    patch.setattr(Link, "looks_at_passed", False)

    def merge(
        wan: Wan, operation: WanMerge, member: bytes, place: int, now_ms: int
    ) -> MergeResult | Refused:
        change = operation.change._replace(passed=(b"x" * 16,))
        return original(wan, operation._replace(change=change), member, place, now_ms)

    original = Wan.merge
    patch.setattr(Wan, "merge", merge)


def _loads_not(kind: type[QueuedPart | TombstonePart | StampPart]) -> Patch:
    def plant(patch: pytest.MonkeyPatch) -> None:
        def load(wan: Wan, part: Any) -> None:
            if not isinstance(part, kind):
                original(wan, part)

        original = Wan.load
        patch.setattr(Wan, "load", load)

    return plant


def _no_floor(patch: pytest.MonkeyPatch) -> None:
    _changes_marks(patch, lambda part: part._replace(floor=0))


def _no_clear(patch: pytest.MonkeyPatch) -> None:
    _changes_marks(patch, lambda part: part._replace(cleared=0))


def _changes_marks(patch: pytest.MonkeyPatch, change: Callable[[WanMapPart], WanMapPart]) -> None:
    def load(wan: Wan, part: Any) -> None:
        original(wan, change(part) if isinstance(part, WanMapPart) else part)

    original = Wan.load
    patch.setattr(Wan, "load", load)


def a_clear_is_many_removals(patch: pytest.MonkeyPatch) -> None:
    """Remove the entries that there are one by one."""

    def clear(maps: Maps, operation: MapClear, member: bytes, place: int, now_ms: int) -> None:
        found = maps.by_name.get(operation.name)
        for key in [] if found is None else list(found.entries):
            maps.remove(MapRemove(operation.name, key), member, place, now_ms)

    patch.setattr(Maps, "clear", clear)


def a_compare_never_runs(patch: pytest.MonkeyPatch) -> None:
    """Note that a queue was full, and leave it at that."""
    patch.setattr(Link, "runs_compares", False)


def the_end_of_any_compare_counts(patch: pytest.MonkeyPatch) -> None:
    """Close the gap when any compare has ended, also one from before the gap."""

    def compare(found: PublisherQueue, job: bytes, *, begin: bool) -> None:
        original(found, job if begin else found.job, begin=begin)

    original = PublisherQueue.compare
    patch.setattr(PublisherQueue, "compare", compare)


def skew_is_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Take a change of any time."""
    patch.setattr(state_wan, "last_stamp", lambda time_ms: FOREVER)


def a_full_queue_drops(patch: pytest.MonkeyPatch) -> None:
    """Drop what a full queue has no place for."""

    def queue(found: PublisherQueue, key: str, member: bytes, place: int) -> None:
        original(found, key, member, place)
        found.set_gaps(0)

    original = PublisherQueue.queue
    patch.setattr(PublisherQueue, "queue", queue)


def purged_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    """Take what may be older than a purged tombstone in silence."""
    patch.setattr(MapWan, "counts_as_ambiguous", lambda found, stamp: False)


def limits_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """Keep any number of tombstones."""
    patch.setattr(map_wan, "EXCESS_STEP", 1)  # no number is 1 modulo 1


BY_MODEL: Final[tuple[Patch, ...]] = (
    equal_stamps_count,
    ties_go_by_arrival,
    the_latest_end_counts,
    a_missing_key_leaves_no_tombstone,
    an_unknown_removal_is_no_change,
    an_expired_change_is_thrown_away,
    expiry_leaves_no_tombstone,
    tombstones_go_when_acknowledged,
    acknowledged_regardless_of_the_place,
    answered_before_the_commit,
    acknowledged_beyond_a_gap,
    passed_clusters_are_ignored,
    a_clear_is_many_removals,
    a_compare_never_runs,
    a_full_queue_drops,
    skew_is_unchecked,
)
"""What the seeded runs catch."""
SNAPSHOTS: Final[dict[str, Patch]] = {
    "no queues": _loads_not(QueuedPart),
    "no tombstones": _loads_not(TombstonePart),
    "no stamps": _loads_not(StampPart),
    "no floor": _no_floor,
    "no clear": _no_clear,
}
"""Parts that a snapshot might lack; the runs catch each."""
