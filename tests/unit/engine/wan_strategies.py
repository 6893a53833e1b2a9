"""Hypothesis strategies for the operations of WAN replication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from grid_member.engine.api import Eviction, EvictionPolicy
from grid_member.engine.state.operations import (
    Operation,
    WanAcknowledge,
    WanAgree,
    WanCompare,
    WanDropQueue,
    WanMemberState,
    WanMerge,
    WanPurge,
)
from grid_member.engine.state.wan_layout import (
    AGREEMENT,
    CHANGE,
    MERGE_POLICY,
    PLACES,
    PUBLISHER,
    PUBLISHER_STATE,
    TRUTH,
)
from grid_member.engine.wan.agreement import (
    AgreedPublisher,
    Agreement,
    MapReference,
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.engine.wan.changes import MAX_PASSED, Change, ChangeKind
from tests.unit.engine.wan.agreements import MEMBERS, OWN

if TYPE_CHECKING:
    from grid_member.engine.state.layout import Field

NUMBERS = st.integers(0, 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
IDS = st.binary(min_size=16, max_size=16)
PASSED = st.lists(IDS, max_size=MAX_PASSED).map(tuple)
PUBLISHERS = st.builds(PublisherName, TEXTS, TEXTS)
POLICIES = st.sampled_from(MergePolicy)
STATES = st.sampled_from(PublisherState)
PATTERNS = st.lists(TEXTS, max_size=3).map(tuple)
REFERENCES = st.builds(MapReference, TEXTS, POLICIES, st.booleans(), PATTERNS, PATTERNS)
AGREED = st.builds(
    AgreedPublisher, PUBLISHERS, TEXTS, NUMBERS, st.sampled_from(WhenQueueFull), STATES
)
AGREEMENTS = st.builds(
    Agreement,
    NUMBERS,
    IDS,
    st.lists(st.tuples(TEXTS, st.none() | REFERENCES), max_size=4).map(tuple),
    st.lists(AGREED, max_size=3).map(tuple),
    NUMBERS,
    NUMBERS,
    NUMBERS,
)
CHANGES = st.builds(
    Change,
    TEXTS,
    st.sampled_from(ChangeKind),
    TEXTS,
    NUMBERS,
    st.binary(),
    st.none() | TEXTS,
    NUMBERS,
    NUMBERS,
    PASSED,
)
WAN_FIELDS: dict[Field[Any], tuple[st.SearchStrategy[Any], ...]] = {
    AGREEMENT: (AGREEMENTS,),
    CHANGE: (CHANGES,),
    MERGE_POLICY: (POLICIES,),
    PUBLISHER: (PUBLISHERS,),
    PUBLISHER_STATE: (STATES,),
    PLACES: (st.lists(st.tuples(TEXTS, IDS, NUMBERS), max_size=3).map(tuple),),
    TRUTH: (st.booleans(),),
}

# A small world, in which operations meet each other and the maps of the other strategies.
_NAMES = st.sampled_from("ab")
_KEYS = st.sampled_from("klm")
_SMALL_IDS = st.sampled_from([OWN, b"1" * 16, b"2" * 16, b"3" * 16])
_SMALL_PASSED = st.lists(_SMALL_IDS, min_size=1, max_size=2).map(tuple)
_SMALL_PUBLISHERS = st.builds(PublisherName, st.just("r"), st.sampled_from("pq"))
_MEMBERS = st.sampled_from(MEMBERS)
_STAMPS = st.integers(1, 60)
_PLACES = st.builds(lambda sequence, index: (sequence << 16) + index, st.integers(1, 40),
                    st.integers(0, 2))  # fmt: skip
_SMALL_REFERENCES = st.builds(
    MapReference, st.just("r"), POLICIES, st.booleans(), st.just(()), st.sampled_from([(), ("m*",)])
)
_SMALL_AGREED = st.builds(
    AgreedPublisher,
    _SMALL_PUBLISHERS,
    st.just("london"),
    st.integers(1, 3),
    st.sampled_from(WhenQueueFull),
    STATES,
)
_SMALL_AGREEMENTS = st.builds(
    Agreement,
    st.integers(1, 9),
    st.sampled_from([OWN, OWN, OWN, b"n" * 16]),
    st.sampled_from(["a", "*", "default"]).flatmap(
        lambda name: st.tuples(st.tuples(st.just(name), st.none() | _SMALL_REFERENCES))
    ),
    st.lists(_SMALL_AGREED, max_size=2, unique_by=lambda one: one.name).map(tuple),
    st.just(600_000),
    st.integers(1, 4),
    st.just(60_000),
)
_SMALL_CHANGES = st.builds(
    Change,
    _NAMES,
    st.sampled_from([ChangeKind.PUT, ChangeKind.PUT, ChangeKind.REMOVAL, ChangeKind.CLEAR]),
    _KEYS,
    _STAMPS,
    st.binary(max_size=2),
    st.sampled_from([None, None, "t"]),
    st.sampled_from([0, 0, 20, 60]),
    st.sampled_from([0, 0, 8]),
    _SMALL_PASSED,
)
_EVICTIONS = st.none() | st.builds(
    Eviction, st.sampled_from(EvictionPolicy), st.integers(0, 2), st.just(0)
)
_MERGES = st.builds(WanMerge, _SMALL_CHANGES, POLICIES, _EVICTIONS)
_ACKNOWLEDGED = st.lists(st.tuples(_NAMES, _MEMBERS, _PLACES), max_size=2).map(tuple)
_AGREES = st.builds(WanAgree, _SMALL_AGREEMENTS)
SMALL_WAN_OPERATIONS: list[st.SearchStrategy[Operation]] = [
    _AGREES,
    _AGREES,
    _MERGES,
    _MERGES,
    _MERGES,
    st.builds(WanAcknowledge, _SMALL_PUBLISHERS, _ACKNOWLEDGED),
    st.builds(WanMemberState, _SMALL_PUBLISHERS, _MEMBERS, STATES),
    st.builds(WanDropQueue, _SMALL_PUBLISHERS, _MEMBERS),
    st.builds(WanCompare, _SMALL_PUBLISHERS, _NAMES, _SMALL_IDS, st.booleans()),
    st.builds(WanPurge, _NAMES, _STAMPS, st.integers(0, 3)),
]
