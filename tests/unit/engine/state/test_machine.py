"""The state machine against a plain dict and deque, and against itself."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from grid_member.engine.api import ClusterState, Item
from grid_member.engine.state import codec
from grid_member.engine.state.machine import COUNTER_WINDOW, State
from grid_member.engine.state.operations import (
    ClusterStateChange,
    MapClear,
    MapPut,
    MapRemove,
    Operation,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
    QueueTake,
    Record,
)
from tests.unit.engine.images import through_a_snapshot
from tests.unit.engine.strategies import SMALL_RECORDS

MEMBER = b"M" * 16
STEPS = st.lists(st.tuples(st.integers(0, 9), SMALL_RECORDS), max_size=40)
"""Milliseconds since the record before, and the record."""


class Single:
    """Applies one operation at a time, as one member."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.counter = 0

    def apply(self, operation: Operation) -> object:
        self.counter += 1
        record = Record(MEMBER, 1, self.counter, (operation,))
        outcomes = self.state.apply(self.state.sequence + 1, self.counter, record)
        assert outcomes is not None
        return outcomes[0]


MAP_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "remove", "clear"]),
        st.sampled_from("abc"),
        st.sampled_from("xyz"),
        st.binary(max_size=3),
    )
)


@given(MAP_STEPS)
def test_maps_are_dicts(steps: list[tuple[str, str, str, bytes]]) -> None:
    single = Single(State())
    model: dict[str, dict[str, bytes]] = {name: {} for name in "abc"}
    for kind, name, key, value in steps:
        match kind:
            case "put":
                single.apply(MapPut(name, key, value, None, 0))
                model[name][key] = value
            case "remove":
                single.apply(MapRemove(name, key))
                model[name].pop(key, None)
            case _:
                single.apply(MapClear(name))
                model[name].clear()
        for map_name, entries in model.items():
            for map_key in "xyz":
                entry = single.state.entry(map_name, map_key, 0)
                assert (entry and entry.value) == entries.get(map_key)


QUEUE_STEPS = st.lists(
    st.tuples(st.sampled_from(["offer", "offer", "take", "confirm", "return"]), st.integers(0, 9))
)


@given(QUEUE_STEPS, st.integers(1, 6))
def test_queues_are_deques(steps: list[tuple[str, int]], max_size: int) -> None:
    single = Single(State())
    waiting: deque[int] = deque()
    in_flight: dict[int, Item] = {}
    for number, (kind, pick) in enumerate(steps):
        if kind == "offer":
            accepted = len(waiting) + len(in_flight) < max_size
            value = str(number).encode()
            assert single.apply(QueueOffer("q", value, None, max_size)) is accepted
            if accepted:
                waiting.append(number)
        elif kind == "take":
            item = single.apply(QueueTake("q"))
            if waiting:
                assert isinstance(item, Item)
                assert item.value == str(waiting[0]).encode()
                in_flight[waiting.popleft()] = item
            else:
                assert item is None
        elif in_flight:
            chosen = sorted(in_flight)[pick % len(in_flight)]
            item = in_flight.pop(chosen)
            if kind == "confirm":
                single.apply(QueueConfirm("q", item.item_id, item.take_id))
            else:
                single.apply(QueueReturn("q", item.item_id, item.take_id))
                waiting = deque(sorted([*waiting, chosen]))
        assert single.state.queue_size("q") == len(waiting)


@given(STEPS)
@settings(max_examples=300)
def test_two_replicas_are_equal_at_every_sequence(steps: list[tuple[int, Record]]) -> None:
    one, other = State(), State()
    now_ms = 0
    for sequence, (later_ms, record) in enumerate(steps, 1):
        now_ms += later_ms
        copy = codec.decode_record(codec.encode_record(record))
        outcomes = one.apply(sequence, now_ms, record)
        assert outcomes == other.apply(sequence, now_ms, copy)
        assert one.dump() == other.dump()
        assert one.live_bytes == other.live_bytes


@given(STEPS)
@settings(max_examples=300)
def test_a_replica_that_starts_anew_at_every_sequence_is_equal(
    steps: list[tuple[int, Record]],
) -> None:
    whole, anew = State(), State()
    now_ms = 0
    for sequence, (later_ms, record) in enumerate(steps, 1):
        now_ms += later_ms
        anew = through_a_snapshot(anew)
        assert anew.apply(sequence, now_ms, record) == whole.apply(sequence, now_ms, record)
        assert anew.dump() == whole.dump()
        assert anew.live_bytes == whole.live_bytes


@given(STEPS, st.data())
@settings(max_examples=300)
def test_an_image_and_the_rest_is_the_whole(
    steps: list[tuple[int, Record]], data: st.DataObject
) -> None:
    """What a compacted log is: the state from a snapshot at any place equals the original."""
    cut = data.draw(st.integers(0, len(steps)))
    whole, cleaned = State(), State()
    now_ms = 0
    for sequence, (later_ms, record) in enumerate(steps, 1):
        now_ms += later_ms
        if sequence == cut + 1:
            cleaned = through_a_snapshot(whole)
        outcomes = whole.apply(sequence, now_ms, record)
        if sequence > cut:
            assert cleaned.apply(sequence, now_ms, record) == outcomes
            assert cleaned.dump() == whole.dump()
            assert cleaned.live_bytes == whole.live_bytes


@given(STEPS)
def test_live_bytes_are_what_lives(steps: list[tuple[int, Record]]) -> None:
    state = State()
    for sequence, (_, record) in enumerate(steps, 1):
        state.apply(sequence, 0, record)
    copy = through_a_snapshot(state)
    assert copy.live_bytes == state.live_bytes


@given(STEPS, st.data())
def test_a_record_seen_again_changes_nothing(
    steps: list[tuple[int, Record]], data: st.DataObject
) -> None:
    state = State()
    for sequence, (_, record) in enumerate(steps, 1):
        state.apply(sequence, 0, record)
        before = state.dump()
        again = data.draw(st.sampled_from([r for _, r in steps[:sequence]]))
        assert state.apply(sequence, 0, again) is None
        assert state.dump() == before


def test_records_may_overtake_each_other_within_the_window() -> None:
    state = State()
    record = Record(MEMBER, 1, COUNTER_WINDOW, (QueueOffer("q", b"", None, 100),))
    for sequence, counter in enumerate([COUNTER_WINDOW, 1, 5, 1, 5, COUNTER_WINDOW], 1):
        state.apply(sequence, 0, record._replace(counter=counter))
    assert state.queue_size("q") == 3
    assert state.apply(9, 0, record._replace(counter=COUNTER_WINDOW + 1)) is not None
    # Now 1 is outside: it may have been seen, so it is not applied.
    assert state.apply(10, 0, record._replace(counter=1)) is None


def test_a_new_incarnation_brings_taken_items_back_in_order() -> None:
    state = State()
    offers = tuple(QueueOffer("q", bytes([n]), None, 10) for n in range(4))
    state.apply(1, 0, Record(MEMBER, 1, 1, offers))
    state.apply(2, 0, Record(b"O" * 16, 1, 1, (QueueTake("q"),)))
    state.apply(3, 0, Record(MEMBER, 1, 2, (QueueTake("q"), QueueTake("q"))))
    assert state.queue_size("q") == 1
    state.apply(4, 0, Record(MEMBER, 2, 1, ()))
    assert [value for _, value, _ in state.queues.by_name["q"].items] == [b"\x01", b"\x02", b"\x03"]
    assert len(state.queues.by_name["q"].in_flight) == 1
    assert state.apply(5, 0, Record(MEMBER, 1, 9, (MapClear("m"),))) is None


def test_in_transition_and_frozen_take_writes() -> None:
    single = Single(State())
    for cluster_state in (ClusterState.FROZEN, ClusterState.NO_MIGRATION):
        assert single.apply(ClusterStateChange(cluster_state)) is True
        assert single.apply(MapPut("m", "k", b"", None, 0)) is None
