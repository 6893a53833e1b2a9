"""Hypothesis strategies for operations and records."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from grid_member.engine.api import ClusterState, Eviction, EvictionPolicy
from grid_member.engine.state import codec, operation_table
from grid_member.engine.state.layout import (
    ACCESSES,
    BLOB,
    CLUSTER_STATE,
    CONTENT_TYPE,
    ENTRY,
    EVICTION,
    NUMBER,
    TEXT,
    Field,
)
from grid_member.engine.state.operations import (
    Access,
    ClusterStateChange,
    MapClear,
    MapExpire,
    MapExpireIdle,
    MapPut,
    MapPutBounded,
    MapRemove,
    MapTouch,
    MemberGone,
    Operation,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
    QueueTake,
    Record,
    SystemExpire,
    SystemPut,
    SystemRemove,
    TransientStateChange,
)
from tests.unit.engine.wan_strategies import SMALL_WAN_OPERATIONS, WAN_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBERS = st.integers(0, 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
CONTENT_TYPES = st.none() | TEXTS
MEMBERS = st.binary(min_size=16, max_size=16)
CLUSTER_STATES = st.sampled_from(ClusterState)
ENTRIES = (st.binary(), CONTENT_TYPES)
"""Value and content type."""
EVICTIONS = st.builds(Eviction, st.sampled_from(EvictionPolicy), NUMBERS, NUMBERS)
ACCESSED = st.builds(Access, TEXTS, NUMBERS, st.integers(0, 2**32 - 1))
FIELDS: dict[Field[Any], tuple[st.SearchStrategy[Any], ...]] = {
    TEXT: (TEXTS,),
    BLOB: (st.binary(),),
    NUMBER: (NUMBERS,),
    CONTENT_TYPE: (CONTENT_TYPES,),
    CLUSTER_STATE: (CLUSTER_STATES,),
    EVICTION: (st.none() | EVICTIONS,),
    ACCESSES: (st.lists(ACCESSED).map(tuple),),
    ENTRY: (TEXTS, TEXTS, *ENTRIES, NUMBERS),
    **WAN_FIELDS,
}
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    [
        st.builds(spec.operation, *(values for field in spec.fields for values in FIELDS[field]))
        for spec in operation_table.OPERATIONS.specs
    ]
)
RECORDS = st.builds(Record, MEMBERS, NUMBERS, NUMBERS, st.lists(OPERATIONS).map(tuple))

# A small world, in which operations meet each other.
_NAMES = st.sampled_from("ab")
_KEYS = st.sampled_from("klm")
_SMALL_ENTRIES = (st.binary(max_size=2), st.sampled_from([None, None, "t"]))
_SMALL_EVICTIONS = st.builds(
    Eviction, st.sampled_from(EvictionPolicy), st.integers(0, 2), st.sampled_from([0, 0, 4])
)
_SMALL_ACCESSES = st.builds(Access, _KEYS, st.integers(0, 100), st.integers(0, 3))
_PLACES = st.builds(lambda sequence, index: (sequence << 16) + index, st.integers(1, 20),
                    st.integers(0, 2))  # fmt: skip
_TAKES = st.just(0) | _PLACES
"""As records name them now, and as those did that did not name any."""
SMALL_OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(MapPut, _NAMES, _KEYS, *_SMALL_ENTRIES, st.sampled_from([0, 0, 5, 20])),
    st.builds(MapPutBounded, _NAMES, _KEYS, *_SMALL_ENTRIES, st.sampled_from([0, 0, 20]),
              st.sampled_from([0, 8, 12]), st.none() | _SMALL_EVICTIONS),
    st.builds(MapPutBounded, _NAMES, _KEYS, *_SMALL_ENTRIES, st.just(0),
              st.sampled_from([0, 8, 12]), _SMALL_EVICTIONS),
    st.builds(MapTouch, _NAMES, st.lists(_SMALL_ACCESSES, max_size=3).map(tuple)),
    st.builds(MapRemove, _NAMES, _KEYS),
    st.builds(MapExpire, _NAMES, _KEYS),
    st.builds(MapExpireIdle, _NAMES, _KEYS, st.integers(0, 60)),
    st.builds(MapClear, _NAMES),
    st.builds(QueueOffer, _NAMES, st.binary(max_size=2), st.none(), st.integers(1, 4)),
    st.builds(QueueOffer, _NAMES, st.binary(max_size=2), st.none(), st.integers(1, 4)),
    st.builds(QueueTake, _NAMES),
    st.builds(QueueTake, _NAMES),
    st.builds(QueueConfirm, _NAMES, _PLACES, _TAKES),
    st.builds(QueueReturn, _NAMES, _PLACES, _TAKES),
    st.builds(ClusterStateChange, st.sampled_from([ClusterState.ACTIVE, ClusterState.ACTIVE,
                                                   ClusterState.PASSIVE])),
    st.builds(TransientStateChange, st.sampled_from([ClusterState.ACTIVE, ClusterState.PASSIVE])),
    st.builds(SystemPut, _KEYS, st.binary(max_size=2), st.sampled_from([0, 5, 20])),
    st.builds(SystemRemove, _KEYS),
    st.builds(SystemExpire),
    st.builds(MemberGone, st.sampled_from([b"A" * 16, b"B" * 16]), st.integers(1, 3)),
    *SMALL_WAN_OPERATIONS,
)  # fmt: skip
SMALL_RECORDS = st.builds(
    Record,
    st.sampled_from([b"A" * 16, b"B" * 16]),
    st.sampled_from([1, 1, 1, 1, 2, 3]),
    st.integers(1, 80),
    st.lists(SMALL_OPERATIONS, max_size=3).map(tuple),
)
"""Records of two members with some counters seen again and some incarnations that are over."""


def newer_record(known: Iterable[Operation] = ()) -> bytes:
    """Return a record that ends with an operation that only a later version knows."""
    record = Record(b"m" * codec.MEMBER_BYTES, 1, 1, (*known, SystemExpire()))
    body = codec.encode_record(record)[:-5] + b"\xee"
    return body + zlib.crc32(body).to_bytes(4, "big")
