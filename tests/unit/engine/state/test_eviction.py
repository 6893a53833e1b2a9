"""Which entries give way: the state machine against a model that looks at every entry."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_member.engine.api import Eviction, EvictionPolicy
from grid_member.engine.state.eviction import empty_order, lot
from grid_member.engine.state.machine import State
from grid_member.engine.state.maps import MAX_VICTIMS_PER_PUT, key_bytes
from grid_member.engine.state.operations import (
    Access,
    MapClear,
    MapPut,
    MapPutBounded,
    MapRemove,
    MapTouch,
    Operation,
    Record,
)
from tests.unit.engine.images import through_a_snapshot
from tests.unit.engine.local.bounded import BoundedMap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.state.eviction import EvictionOrder
    from grid_member.engine.state.snapshot import Level

MEMBER = b"M" * 16
KEYS = st.sampled_from(["a", "b", "c", "d", "e", "ä", "€€"])
VALUES = st.binary(max_size=6)
EVICTIONS = st.builds(
    Eviction,
    st.sampled_from([EvictionPolicy.LRU, EvictionPolicy.LFU]),
    st.integers(0, 4),
    st.sampled_from([0, 0, 0, 5, 12]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, VALUES, st.none() | EVICTIONS),
        st.tuples(st.just("put"), KEYS, VALUES, EVICTIONS),
        st.tuples(st.just("put"), KEYS, VALUES, EVICTIONS),
        st.tuples(st.just("touch"), st.lists(st.tuples(KEYS, st.integers(1, 9)), max_size=4)),
        st.tuples(st.just("remove"), KEYS),
        st.tuples(st.just("clear")),
    ),
    max_size=60,
)


class Single:
    """Applies one operation at a time to the map `m`."""

    def __init__(self, state: State | None = None) -> None:
        self.state = State() if state is None else state

    def apply(self, operation: Operation) -> None:
        sequence = self.state.sequence + 1
        outcomes = self.state.apply(sequence, 0, Record(MEMBER, 1, sequence, (operation,)))
        assert outcomes == [None]

    def put(self, key: str, eviction: Eviction | None, value: bytes = b"") -> None:
        self.apply(MapPutBounded("m", key, value, None, 0, 0, eviction))

    def read(self, *keys: str) -> None:
        self.apply(MapTouch("m", tuple(Access(key, 0, 1) for key in keys)))

    @property
    def keys(self) -> set[str]:
        found = self.state.maps.by_name.get("m")
        return set() if found is None else set(found.entries)


def do(single: Single, model: BoundedMap, step: tuple[object, ...]) -> None:
    match step:
        case "put", str(key), bytes(value), None:
            single.apply(MapPut("m", key, value, None, 0))
            model.put(key, value, None)
        case "put", str(key), bytes(value), Eviction() as eviction:
            single.put(key, eviction, value)
            model.put(key, value, eviction)
        case "touch", list(touched):
            accesses = tuple(Access(key, 0, hits) for key, hits in dict(touched).items())
            single.apply(MapTouch("m", accesses))
            for key, _, hits in accesses:
                model.touch(key, hits)
        case "remove", str(key):
            single.apply(MapRemove("m", key))
            model.remove(key)
        case _:
            single.apply(MapClear("m"))
            model.clear()


@given(STEPS)
@settings(max_examples=500)
def test_the_victims_are_those_of_the_model(steps: list[tuple[object, ...]]) -> None:
    single, model = Single(), BoundedMap()
    for step in steps:
        do(single, model, step)
        found = single.state.maps.by_name.get("m")
        entries = {} if found is None else found.entries
        assert entries == {k: held.value for k, held in model.held.items()}
        if found is not None and found.order is not None:
            assert sorted(k for _, keys in found.order.levels() for k in keys) == sorted(entries)
            assert found.size_bytes == sum(key_bytes(k) + len(v) for k, v in entries.items())


@given(STEPS, st.data())
@settings(max_examples=300)
def test_an_image_keeps_the_order(steps: list[tuple[object, ...]], data: st.DataObject) -> None:
    single, model = Single(), BoundedMap()
    for number in data.draw(st.lists(st.integers(0, len(steps)), max_size=3).map(sorted)):
        for step in steps[:number]:
            do(single, model, step)
        steps = steps[number:]
        single = Single(through_a_snapshot(single.state))
    for step in steps:
        do(single, model, step)
        assert single.keys == set(model.held)


def test_lru_evicts_what_was_accessed_longest_ago() -> None:
    single, eviction = Single(), Eviction(EvictionPolicy.LRU, max_entries=3)
    for key in "abc":
        single.put(key, eviction)
    single.read("a")
    single.put("b", eviction)
    single.put("d", eviction)
    assert single.keys == {"a", "b", "d"}
    single.put("e", eviction)
    assert single.keys == {"b", "d", "e"}


def test_lfu_evicts_what_was_accessed_least_often() -> None:
    single, eviction = Single(), Eviction(EvictionPolicy.LFU, max_entries=3)
    for key in "abc":
        single.put(key, eviction)
    single.read("a", "c")
    single.read("a")
    single.put("d", eviction)
    assert single.keys == {"a", "c", "d"}
    single.read("d")
    single.put("e", eviction)
    # c and d were accessed twice, c longer ago.
    assert single.keys == {"a", "d", "e"}


def test_the_entry_just_written_stays_however_large() -> None:
    for policy in EvictionPolicy:
        single = Single()
        for key in "abc":
            single.put(key, Eviction(policy, max_bytes=10), b"123")
        assert len(single.keys) == 2
        single.put("large", Eviction(policy, max_bytes=10), b"x" * 100)
        assert single.keys == {"large"}
        single.put("other", Eviction(policy, max_entries=1), b"")
        assert single.keys == {"other"}


def test_bytes_are_those_of_keys_and_values() -> None:
    single, eviction = Single(), Eviction(EvictionPolicy.LRU, max_bytes=9)
    single.put("€", eviction, b"12")
    single.put("k", eviction, b"123")
    assert single.keys == {"€", "k"}
    single.put("k", eviction, b"1234")
    assert single.keys == {"k"}


@pytest.mark.parametrize("policy", EvictionPolicy)
def test_a_lowered_limit_is_reached_step_by_step(policy: EvictionPolicy) -> None:
    single = Single()
    for number in range(200):
        single.put(str(number), Eviction(policy, max_entries=1000))
    single.put("0", Eviction(policy, max_entries=10))
    assert len(single.keys) == 200 - MAX_VICTIMS_PER_PUT
    for _ in range(2):
        single.put("0", Eviction(policy, max_entries=10))
    assert len(single.keys) == 10
    assert "0" in single.keys


def test_without_a_limit_nothing_goes() -> None:
    single = Single()
    for policy in EvictionPolicy:
        for number in range(50):
            single.put(f"{policy}{number}", Eviction(policy))
    assert len(single.keys) == 150


def test_live_bytes_follow_evictions() -> None:
    single = Single()
    for number in range(500):
        single.put(str(number), Eviction(EvictionPolicy.RANDOM, max_entries=7), b"x" * number)
    assert single.state.live_bytes == through_a_snapshot(single.state).live_bytes
    single.apply(MapClear("m"))
    assert single.state.live_bytes == 0
    assert not single.state.maps.by_name


def victims(seed_place: int, puts: int) -> Iterable[str]:
    single, eviction = Single(), Eviction(EvictionPolicy.RANDOM, max_entries=10)
    single.state.sequence = seed_place
    for number in range(puts):
        before = single.keys
        single.put(str(number), eviction)
        assert str(number) in single.keys
        yield from before - single.keys


def test_random_is_the_same_everywhere_and_spread() -> None:
    assert list(victims(0, 300)) == list(victims(0, 300))
    assert list(victims(0, 300)) != list(victims(1000, 300))
    ages = Counter(number - int(victim) for number, victim in enumerate(victims(0, 20_010), 10))
    # Whoever is drawn out of ten alike has lived ten puts on average.
    mean = sum(age * count for age, count in ages.items()) / ages.total()
    assert 9 < mean < 11
    assert max(ages) > 40


def test_lots_differ_by_place_and_by_number() -> None:
    lots = {lot(place << 16, number) for place in range(100) for number in range(64)}
    assert len(lots) == 6400
    assert max(lots) < 2**64
    assert max(Counter(value % 10 for value in lots).values()) < 800


@given(
    st.sampled_from([EvictionPolicy.LRU, EvictionPolicy.LFU, EvictionPolicy.RANDOM]),
    st.lists(st.tuples(KEYS, st.integers(0, 20)), max_size=60),
)
def test_an_order_is_rebuilt_from_its_hits(
    policy: EvictionPolicy, steps: list[tuple[str, int]]
) -> None:
    order = empty_order(policy)
    held: set[str] = set()
    for key, hits in steps:
        if hits:
            order.access(key, hits)
            held.add(key)
        elif key in held:
            order.discard(key)
            held.remove(key)
    rebuilt = empty_order(policy)
    for hits, keys in order.levels():
        for key in keys:
            rebuilt.access(key, hits)
    assert list(drained(rebuilt)) == list(drained(order))


def drained(order: EvictionOrder) -> Iterable[tuple[str, list[Level]]]:
    order.access("spared", 1)
    number = 0
    while (victim := order.victim("spared", lot(1, number := number + 1))) is not None:
        yield victim, order.levels()
        order.discard(victim)
