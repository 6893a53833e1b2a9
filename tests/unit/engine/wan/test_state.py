"""What single operations of WAN replication do to a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_member.engine.api import Eviction, EvictionPolicy, Reason, Refused
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import (
    MapClear,
    MapPut,
    MapPutBounded,
    MapRemove,
    Operation,
    Record,
    WanAcknowledge,
    WanAgree,
    WanCompare,
    WanDropQueue,
    WanMemberState,
    WanPurge,
)
from grid_member.engine.state.sharding import merge, split, without_values
from grid_member.engine.state.snapshot import (
    Part,
    QueuedPart,
    SnapshotError,
    StampPart,
    TombstonePart,
    WanMapPart,
    WanPart,
    parts,
)
from grid_member.engine.wan.agreement import (
    Agreement,
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.engine.wan.changes import ChangeKind, MergeResult, Received
from grid_member.engine.wan.publisher_queue import PublisherQueue
from grid_member.engine.wan.stamps import STAMP_BITS, last_stamp
from tests.unit.engine.backed_up import dumps
from tests.unit.engine.images import through_a_snapshot
from tests.unit.engine.wan import planted
from tests.unit.engine.wan.agreements import LONDON, OWN, agreement, publisher
from tests.unit.engine.wan.single import (
    AHEAD,
    NOW_MS,
    OTHER,
    PASS_THROUGH,
    PLACE_BITS,
    A,
    B,
    Single,
    change,
)
from tests.unit.engine.wan_strategies import SMALL_WAN_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.wan.map_wan import MapWan

JOB, LATER_JOB = b"1" * 16, b"2" * 16
PUT_IF_ABSENT = MergePolicy.PUT_IF_ABSENT
REFUSING = (publisher(when_full=WhenQueueFull.THROW_EXCEPTION),)


def check_equal_stamps_change_nothing() -> None:
    single = Single(agreement())
    assert single.merge(change("k", AHEAD)) is MergeResult.TAKEN
    assert single.merge(change("k", AHEAD)) is MergeResult.UNCHANGED


def check_a_change_that_was_here_is_dropped() -> None:
    single = Single(agreement(policy=PASS_THROUGH))
    assert single.merge(change("k", 5, passed=(OTHER, OWN)), PASS_THROUGH) is MergeResult.LOOPED
    assert single.state.entry("m", "k", single.now_ms) is None


def check_a_clock_too_far_ahead_is_refused() -> None:
    single = Single(agreement())
    outcome = single.merge(change("k", last_stamp(NOW_MS + 120_000)))
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.CLOCK_AHEAD
    assert single.state.wan.clock < AHEAD


def check_tombstones_have_a_limit() -> None:
    single = Single(agreement(max_tombstones=4))
    single.apply(WanMemberState(LONDON, A, PublisherState.STOPPED))
    for number in range(20):
        single.apply(MapRemove("m", str(number)))
    found = single.state.wan.maps["m"]
    assert found.purged > 0
    assert list(found.tombstones)[-1] == "19"


def check_the_end_of_an_older_compare_closes_no_younger_gap() -> None:
    single = Single(agreement())
    for key in "kln":
        single.put(key)
    single.apply(WanCompare(LONDON, "m", JOB, begin=True))
    for key in "kln":
        single.put(key)
    assert single.state.wan.comparing(LONDON) == {"m"}, "the queue was full again"
    single.apply(WanCompare(LONDON, "m", JOB, begin=True))
    assert single.state.wan.comparing(LONDON) == {"m"}, "a job that goes on has not begun anew"
    single.apply(WanCompare(LONDON, "m", LATER_JOB, begin=True))
    assert single.state.wan.comparing(LONDON) == set()
    single.apply(WanCompare(LONDON, "m", JOB, begin=False))
    assert single.state.wan.unsynced(LONDON) == {"m"}
    single.state = through_a_snapshot(single.state)
    single.apply(WanCompare(LONDON, "m", JOB, begin=False))
    assert single.state.wan.unsynced(LONDON) == {"m"}
    single.apply(WanCompare(LONDON, "m", LATER_JOB, begin=False))
    assert single.state.wan.unsynced(LONDON) == set()


CHECKS = {
    check_equal_stamps_change_nothing: planted.equal_stamps_count,
    check_a_change_that_was_here_is_dropped: planted.passed_clusters_are_ignored,
    check_a_clock_too_far_ahead_is_refused: planted.skew_is_unchecked,
    check_tombstones_have_a_limit: planted.limits_are_ignored,
    check_the_end_of_an_older_compare_closes_no_younger_gap: planted.the_end_of_any_compare_counts,
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_rule_holds(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("check", CHECKS)
def test_a_planted_fault_breaks_the_rule(
    check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    CHECKS[check](monkeypatch)
    with pytest.raises(AssertionError):
        check()


def test_a_stamp_has_59_bits_until_2093() -> None:
    assert last_stamp(3_881_520_000_000) < 1 << STAMP_BITS  # the begin of 2093


def test_a_full_queue_refuses_the_write() -> None:
    single = Single(agreement(REFUSING))
    assert [single.put(key) for key in "kl"] == [None, None]
    for outcome in (single.put("m"), single.apply(MapRemove("m", "n"))):
        assert outcome == Refused(
            Reason.OVERLOADED, "WAN replication r/london is full: nothing was stored"
        )
    assert single.state.entry("m", "m", single.now_ms) is None
    assert single.put("k") is None
    assert single.put("m", B) is None


def test_a_change_of_another_cluster_makes_a_full_queue_compare() -> None:
    """Two clusters with full queues must not wait for each other."""
    single = Single(agreement(REFUSING))
    single.put("k")
    single.put("l")
    assert single.merge(change("n", AHEAD)) is MergeResult.TAKEN
    assert single.state.wan.comparing(LONDON) == {"m"}


def test_a_full_queue_compares() -> None:
    single = Single(agreement())
    for key in "kln":
        assert single.put(key) is None
    assert single.state.wan.comparing(LONDON) == {"m"}
    assert single.state.wan.queue_sizes(LONDON) == {}
    single.apply(WanCompare(LONDON, "m", JOB, begin=True))
    assert single.state.wan.comparing(LONDON) == set()
    assert single.state.wan.unsynced(LONDON) == {"m"}
    single.put("k")
    assert single.queued() == [("k", ChangeKind.PUT)]
    single.apply(WanCompare(LONDON, "m", JOB, begin=False))
    assert single.state.wan.unsynced(LONDON) == set()


def test_a_gap_that_opens_during_a_compare_stays_when_it_ends() -> None:
    single = Single(agreement())
    single.put("k")
    single.apply(WanCompare(LONDON, "m", JOB, begin=True))
    single.apply(WanDropQueue(LONDON, A))
    single.apply(WanCompare(LONDON, "m", JOB, begin=False))
    assert single.state.wan.unsynced(LONDON) == {"m"}


def test_a_key_that_waits_fits_into_a_queue_that_became_smaller() -> None:
    single = Single(agreement(REFUSING))
    single.put("k")
    single.put("l")
    smaller = publisher(capacity=1, when_full=WhenQueueFull.THROW_EXCEPTION)
    single.apply(WanAgree(agreement((smaller,), revision=2)))
    assert single.put("k") is None
    assert single.state.wan.comparing(LONDON) == set()
    assert single.queued() == [("l", ChangeKind.PUT), ("k", ChangeKind.PUT)]
    assert isinstance(single.put("n"), Refused)


def test_a_queue_refuses_only_while_it_is_sent() -> None:
    when_full = WhenQueueFull.THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE
    single = Single(agreement((publisher(when_full=when_full),)))
    single.put("k")
    single.put("l")
    assert isinstance(single.put("n"), Refused)
    single.apply(WanMemberState(LONDON, A, PublisherState.PAUSED))
    assert single.put("n") is None
    assert single.state.wan.comparing(LONDON) == {"m"}


def test_a_key_waits_in_the_queue_of_the_member_that_changed_it_last() -> None:
    single = Single(agreement())
    single.put("k")
    single.put("l")
    single.put("k", B)
    assert single.state.wan.queue_sizes(LONDON) == {("m", A): 1, ("m", B): 1}
    assert single.queued(A) == [("l", ChangeKind.PUT)]
    assert single.queued(B) == [("k", ChangeKind.PUT)]
    single.apply(WanDropQueue(LONDON, B))
    assert single.queued(B) == []
    assert single.state.wan.unsynced(LONDON) == {"m"}


def test_a_stopped_member_queues_nothing() -> None:
    single = Single(agreement())
    single.put("k")
    assert single.apply(WanMemberState(LONDON, A, PublisherState.STOPPED)) is True
    assert single.state.wan.member_state(LONDON, B) is PublisherState.REPLICATING
    single.put("l")
    assert single.queued() == [("k", ChangeKind.PUT)]
    assert single.state.wan.unsynced(LONDON) == {"m"}
    assert single.apply(WanMemberState(PublisherName("r", "x"), A, PublisherState.PAUSED)) is False


def test_a_clear_is_one_change_between_others() -> None:
    single = Single(agreement())
    single.put("k")
    single.apply(MapClear("m"))
    single.put("l")
    assert single.queued() == [("", ChangeKind.CLEAR), ("l", ChangeKind.PUT)]
    place = single.state.wan.read_queue(LONDON, "m", A, 0, 1, 1, 0)[0].place
    single.apply(WanAcknowledge(LONDON, (("m", A, place),)))
    assert single.queued() == [("l", ChangeKind.PUT)]


def test_places_of_another_log_acknowledge_nothing() -> None:
    """A log in memory that its servers lost begins again, and so do places."""
    single = Single(agreement())
    single.put("k")
    ahead = (single.counter + 1) << PLACE_BITS
    single.apply(WanAcknowledge(LONDON, (("m", A, ahead),)))
    assert single.state.wan.queue_sizes(LONDON) == {("m", A): 1}
    single.acknowledge_all()
    assert not single.state.wan.queue_sizes(LONDON)


def test_a_later_change_is_not_acknowledged() -> None:
    single = Single(agreement())
    single.put("k")
    (queued,) = single.state.wan.read_queue(LONDON, "m", A, 0, 9, 99, 0)
    assert queued.change.passed == (OWN,)
    single.apply(MapRemove("m", "k"))
    single.apply(WanAcknowledge(LONDON, (("m", A, queued.place),)))
    assert single.queued() == [("k", ChangeKind.REMOVAL)]


def test_pass_through_overrules_clients_and_not_later_changes() -> None:
    single = Single(agreement(policy=PASS_THROUGH))
    single.put("k")
    assert single.merge(change("k", 7), PASS_THROUGH) is MergeResult.TAKEN
    assert single.merge(change("k", 6), PASS_THROUGH) is MergeResult.OLDER
    assert single.state.wan.maps["m"].stamp("k") == 7


def test_a_clear_that_passes_through_overrules_clients_and_not_later_changes() -> None:
    single = Single(agreement(policy=PASS_THROUGH))
    single.put("client's")
    single.merge(change("older", 6), PASS_THROUGH)
    single.merge(change("later", 8), PASS_THROUGH)
    clear = change("", 7, kind=ChangeKind.CLEAR)
    assert single.merge(clear, PASS_THROUGH) is MergeResult.TAKEN
    assert list(single.state.maps.by_name["m"].entries) == ["later"]
    assert single.merge(clear, PASS_THROUGH) is MergeResult.UNCHANGED
    assert single.merge(change("older", 6), PASS_THROUGH) is MergeResult.OLDER


def test_a_clear_that_passes_through_overrules_a_client_s_clear() -> None:
    single = Single(agreement(policy=PASS_THROUGH))
    single.apply(MapClear("m"))
    assert single.merge(change("k", 6), PASS_THROUGH) is MergeResult.TAKEN
    clear = change("", 7, kind=ChangeKind.CLEAR)
    assert single.merge(clear, PASS_THROUGH) is MergeResult.TAKEN
    assert single.state.entry("m", "k", single.now_ms) is None
    assert single.merge(change("k", 8), PASS_THROUGH) is MergeResult.TAKEN


def test_put_if_absent_takes_what_is_neither_there_nor_removed() -> None:
    single = Single(agreement(policy=PUT_IF_ABSENT))
    single.put("k")
    single.apply(MapRemove("m", "l"))
    results = [single.merge(change(key, AHEAD), PUT_IF_ABSENT) for key in "kln"]
    assert results == [MergeResult.OLDER, MergeResult.OLDER, MergeResult.TAKEN]


def test_a_clear_of_another_cluster_spares_excluded_keys() -> None:
    single = Single(agreement(exclude=("tmp-*",)))
    single.put("tmp-1")
    single.put("k")
    assert single.queued() == [("k", ChangeKind.PUT)]
    assert single.merge(change("", AHEAD, kind=ChangeKind.CLEAR)) is MergeResult.TAKEN
    assert list(single.state.maps.by_name["m"].entries) == ["tmp-1"]


def test_a_purged_tombstone_makes_an_older_put_ambiguous() -> None:
    single = Single(agreement())
    single.apply(MapRemove("m", "k"))
    single.apply(WanPurge("m", AHEAD, 0))
    assert single.merge(change("k", 5)) is MergeResult.OLDER  # it waits in the queue
    single.acknowledge_all()
    single.apply(WanPurge("m", AHEAD, 0))
    assert single.merge(change("k", 5)) is MergeResult.AMBIGUOUS
    assert single.state.wan.maps["m"].ambiguous == 1


def test_tombstones_that_wait_are_not_searched_for_some_that_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else removals get slower and slower while a target is away."""
    asked: list[str] = []
    has = PublisherQueue.has

    def noted(queue: PublisherQueue, key: str) -> bool:
        asked.append(key)
        return has(queue, key)

    monkeypatch.setattr(PublisherQueue, "has", noted)
    single = Single(agreement((publisher(capacity=10_000),), max_tombstones=4))
    for number in range(3000):
        single.apply(MapRemove("m", str(number)))
    tombstones = single.state.wan.maps["m"].tombstones
    assert (len(tombstones), asked) == (3000, [])
    single.acknowledge_all()
    for number in range(3000, 3100):
        single.apply(MapRemove("m", str(number)))
    assert list(tombstones)[-100:] == [str(number) for number in range(3000, 3100)]
    assert len(tombstones) < 200


def test_a_tombstone_is_overdue_after_its_retention_unless_it_waits_in_a_queue() -> None:
    single = Single(agreement())
    single.apply(MapRemove("m", "k"))
    single.apply(MapRemove("m", "l"))
    wan, later_ms = single.state.wan, single.now_ms + 600_000
    assert wan.purge_due("m", later_ms, 9) is None, "both wait in the queue"
    single.acknowledge_all()
    assert wan.purge_due("m", later_ms - 2, 9) is None
    due = wan.purge_due("m", later_ms - 1, 9)
    assert due == WanPurge("m", last_stamp(later_ms - 600_001), 9)
    single.apply(due)
    assert list(wan.maps["m"].tombstones) == ["l"]
    assert Single(None).state.wan.purge_due("m", later_ms, 9) is None


def test_a_map_of_which_other_clusters_send_changes_needs_no_reference() -> None:
    single = Single(agreement()._replace(maps=(("other", None),)))
    assert single.merge(change("k", AHEAD)) is MergeResult.TAKEN
    single.put("k")
    assert single.state.wan.maps["m"].stamp("k") > AHEAD
    assert isinstance(Single(None).merge(change("k", 5)), Refused)


def test_entries_from_before_need_a_sync_and_are_as_old_as_the_begin() -> None:
    single = Single(None)
    single.put("k")
    assert single.apply(WanAgree(agreement())) is True
    assert single.apply(WanAgree(agreement())) is False
    assert single.state.wan.unsynced(LONDON) == {"m"}
    assert single.state.wan.maps["m"].stamp("k") == single.state.wan.maps["m"].floor
    assert single.merge(change("k", 5)) is MergeResult.OLDER
    single.apply(WanAgree(agreement(revision=2)._replace(maps=())))
    assert single.state.maps.by_name["m"].fast is False  # it has received a change


MOVED = publisher()._replace(cluster_name="paris")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(agreement(exclude=("k",)), agreement(revision=2), id="filter"),
        pytest.param(
            agreement(republishing=False),
            agreement(revision=2, republishing=True),
            id="republishing",
        ),
        pytest.param(agreement(), agreement((MOVED,), revision=2), id="target"),
    ],
)
def test_a_map_needs_a_sync_when_more_than_before_is_published(
    first: Agreement, second: Agreement
) -> None:
    single = Single(first)
    single.merge(change("k", AHEAD))
    single.acknowledge_all()
    assert single.state.wan.unsynced(LONDON) == set()
    single.apply(WanAgree(second))
    assert single.state.wan.unsynced(LONDON) == {"m"}


def test_a_map_needs_no_sync_when_as_much_as_before_is_published() -> None:
    single = Single(agreement(republishing=True))
    single.put("k")
    single.apply(WanAgree(agreement(revision=2, republishing=False)))
    assert single.state.wan.unsynced(LONDON) == set()
    assert single.queued() == [("k", ChangeKind.PUT)]


def test_a_restored_copy_is_another_cluster() -> None:
    single = Single(agreement())
    single.put("k")
    single.apply(MapRemove("m", "l"))
    kept = without_values(single.state.snapshot(), ())
    assert kept.wan.whole.agreement is None
    assert kept.wan.maps["m"].tombstones
    assert kept.wan.maps["m"].queues == {}
    single.apply(WanAgree(agreement(cluster_id=b"n" * 16)))
    assert single.queued() == []
    assert single.state.wan.unsynced(LONDON) == {"m"}


def test_what_is_split_and_merged_keeps_what_is_replicated() -> None:
    single = Single(agreement())
    single.put("k")
    single.apply(MapRemove("m", "l"))
    shards = split(single.state.snapshot(), 3)
    whole = merge(shards)
    assert whole.wan == single.state.snapshot().wan
    assert dumps([merge(split(whole, 5))]) == dumps([whole])


PARIS = PublisherName("r", "paris")


def test_shards_with_different_agreements_merge_to_a_snapshot_that_can_be_loaded() -> None:
    """One shard has got an agreement that ends a publisher and begins another one."""
    older, newer = Single(agreement((publisher(), publisher("oslo")))), Single(None)
    older.put("k")
    newer.apply(WanAgree(agreement((publisher(), publisher("paris")), revision=2)))
    snapshot = merge([newer.state.snapshot(), older.state.snapshot()])
    target = State()
    target.load(list(parts(snapshot)))
    assert target.wan.queue_sizes(LONDON) == {("m", A): 1}
    assert target.wan.unsynced(LONDON) == set()
    assert target.wan.unsynced(PARIS) == {"m"}


def test_shards_that_refer_a_map_differently_need_a_sync_when_merged() -> None:
    older, newer = Single(agreement(exclude=("k",))), Single(agreement(revision=2))
    older.put("l")
    target = State()
    target.load(list(parts(merge([newer.state.snapshot(), older.state.snapshot()]))))
    assert target.wan.unsynced(LONDON) == {"m"}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(StampPart("x", "k", 1, ()), id="stamp"),
        pytest.param(TombstonePart("x", "k", 1, ()), id="tombstone"),
        pytest.param(QueuedPart("x", LONDON, A, "k", 1), id="queued"),
        pytest.param(QueuedPart("m", PARIS, A, "k", 1), id="publisher"),
        pytest.param(
            WanMapPart("m", 0, 0, (), 0, 0, Received.NOTHING, ((PARIS, b"", 0, 0, b""),)), id="mark"
        ),
        pytest.param(WanPart(1, None, ((PARIS, A, PublisherState.PAUSED),)), id="state"),
    ],
)
def test_a_part_that_names_what_is_not_there_is_an_error_of_the_snapshot(part: Part) -> None:
    single = Single(agreement())
    single.put("k")
    with pytest.raises(SnapshotError, match="snapshot is damaged"):
        single.state.load([part])


class Unwalkable(dict[str, "MapWan"]):
    """Lets nobody look at all maps."""

    def walked(self) -> Any:
        raise AssertionError("all maps are walked")

    __iter__ = items = values = keys = walked


def test_what_waits_is_found_without_a_look_at_all_maps() -> None:
    single = Single(agreement(maps=("*",)))
    for name in "abcde":
        single.apply(MapPut(name, "k", b"v", None, 0))
    single.acknowledge_all(*"bcd")
    for key in "lm":
        single.apply(MapPut("e", key, b"v", None, 0))
    single.state.wan._registry.maps = Unwalkable(single.state.wan.maps)
    wan = single.state.wan
    assert wan.queue_sizes(LONDON) == {("a", A): 1}
    assert wan.comparing(LONDON) == wan.unsynced(LONDON) == {"e"}
    single.apply(WanDropQueue(LONDON, A))
    assert wan.queue_sizes(LONDON) == {}
    assert wan.unsynced(LONDON) == {"a", "e"}


def test_a_map_that_is_not_replicated_has_nothing_of_it() -> None:
    single = Single(agreement())
    single.apply(MapPut("plain", "k", b"v", None, 0))
    assert single.state.maps.by_name["plain"].fast
    assert single.state.maps.by_name["plain"].wan is None
    assert set(single.state.wan.maps) == set()


OPERATIONS = st.one_of(
    *SMALL_WAN_OPERATIONS,
    st.builds(MapPut, st.sampled_from("ab"), st.sampled_from("klm"), st.binary(max_size=1),
              st.none(), st.sampled_from([0, 0, 5])),
    st.builds(MapPutBounded, st.sampled_from("ab"), st.sampled_from("klm"), st.binary(max_size=1),
              st.none(), st.sampled_from([0, 5]), st.sampled_from([0, 3]),
              st.none() | st.sampled_from([Eviction(policy, 2, 0) for policy in EvictionPolicy])),
    st.builds(MapRemove, st.sampled_from("ab"), st.sampled_from("klm")),
    st.builds(MapClear, st.sampled_from("ab")),
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([A, B]), OPERATIONS), max_size=40))
@settings(max_examples=300)
def test_a_replica_that_starts_anew_at_every_record_is_equal(
    steps: list[tuple[int, bytes, Operation]],
) -> None:
    whole, anew = State(), State()
    now_ms = 0
    agree = WanAgree(agreement()._replace(maps=(("*", agreement().maps[0][1]),), revision=0))
    steps.insert(0, (0, A, agree))
    for sequence, (later_ms, member, operation) in enumerate(steps, 1):
        now_ms += later_ms
        anew = through_a_snapshot(anew)
        record = Record(member, 1, sequence, (operation, *whole.maps.due(now_ms, 9)))
        assert anew.apply(sequence, now_ms, record) == whole.apply(sequence, now_ms, record)
        assert anew.dump() == whole.dump()
        assert anew.live_bytes == whole.live_bytes
        for target in whole.wan._registry.targets.values():
            assert {*target.waiting, *target.gapped} <= set(whole.wan.maps)
        for name, found in whole.wan.maps.items():
            of_map = whole.maps.by_name.get(name)
            check_map(name, found, set() if of_map is None else set(of_map.entries))
            check_reads(whole, name, now_ms)


def check_map(name: str, found: MapWan, entries: set[str]) -> None:
    known = {*found.tombstones, *found.stamps}
    assert set(found.stamps) <= entries
    assert entries.isdisjoint(found.tombstones)
    assert set(found.passed) <= known
    for queue in found.queues.values():
        queued = [key for keys in queue.by_member.values() for key in keys]
        assert len(queued) == len(set(queued)) == queue.count()
        assert set(queued) <= known
        assert (queue.target.waiting.get(name) is queue) == bool(queued or queue.clear_member)
        assert (queue.target.gapped.get(name) is queue) == bool(queue.gaps)
        for keys in queue.by_member.values():
            assert list(keys.values()) == sorted({*keys.values()})


def check_reads(state: State, name: str, now_ms: int) -> None:
    """Hold what is read of a queue at once against what is known of each key."""
    for member in (A, B):
        found = state.wan.read_queue(LONDON, name, member, 0, 99, 1 << 20, now_ms)
        for _, each in found:
            if each.kind is not ChangeKind.CLEAR:
                assert each == state.wan.change(name, each.key, now_ms)
        places = [queued.place for queued in found]
        for after in (0, *places):
            unread = sum(place > after for place in places)
            counts = [state.wan.unread(LONDON, name, member, after, most) for most in (1, 99)]
            assert counts == [min(unread, 1), unread]
