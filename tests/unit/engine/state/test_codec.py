"""Records and snapshots as bytes."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.api import EvictionPolicy
from grid_member.engine.state import codec
from grid_member.engine.state.operations import (
    MapPut,
    MapPutBounded,
    QueueOffer,
    Record,
    SystemExpire,
)
from grid_member.engine.state.snapshot import (
    EntryPart,
    ItemPart,
    MemberMark,
    MemberPart,
    Part,
    RestartStatePart,
    SystemPart,
    SystemValuePart,
    TrackedEntryPart,
)
from tests.unit.engine.strategies import (
    CLUSTER_STATES,
    CONTENT_TYPES,
    ENTRIES,
    MEMBERS,
    NUMBERS,
    OPERATIONS,
    RECORDS,
    TEXTS,
    newer_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.state.operations import Operation

T = TypeVar("T")

PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(SystemPart, NUMBERS, NUMBERS, CLUSTER_STATES),
    st.builds(RestartStatePart, CLUSTER_STATES),
    st.builds(SystemValuePart, TEXTS, st.binary(), NUMBERS),
    st.builds(MemberPart, MEMBERS, st.builds(MemberMark, NUMBERS, NUMBERS, NUMBERS)),
    st.builds(EntryPart, TEXTS, TEXTS, *ENTRIES, NUMBERS),
    st.builds(
        TrackedEntryPart,
        *(TEXTS, TEXTS, *ENTRIES, NUMBERS, NUMBERS, NUMBERS),
        st.none() | st.sampled_from(EvictionPolicy),
        NUMBERS,
    ),
    st.builds(
        ItemPart,
        *(TEXTS, NUMBERS, st.binary(), CONTENT_TYPES),
        st.none() | MEMBERS,
        st.just(0) | NUMBERS,
    ),
)


@given(RECORDS)
def test_records_come_back(record: Record) -> None:
    assert codec.decode_record(codec.encode_record(record)) == record


PUTS = st.lists(
    st.builds(
        MapPut,
        st.sampled_from(["a", "b"]) | TEXTS,
        TEXTS,
        st.binary(),
        st.sampled_from([None, "t", "u"]) | CONTENT_TYPES,
        NUMBERS,
    ),
    min_size=1,
)


@given(PUTS)
def test_puts_alone_are_written_as_those_among_others(puts: list[MapPut]) -> None:
    alone = codec.encode_record(Record(b"m" * 16, 1, 1, tuple(puts)))
    mixed = codec.encode_record(Record(b"m" * 16, 1, 1, (*puts, SystemExpire())))
    head, check = 1 + 16 + 8 + 8 + 4, 4
    assert alone[head:-check] == mixed[head : -check - 1]
    assert codec.decode_record(alone).operations == tuple(puts)


@given(st.lists(PARTS))
def test_image_parts_come_back(parts: list[Part]) -> None:
    assert codec.decode_parts(codec.encode_parts(parts)) == parts


@given(RECORDS, st.data())
def test_torn_records_are_refused(record: Record, data: st.DataObject) -> None:
    encoded = codec.encode_record(record)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(codec.CodecError):
        codec.decode_record(encoded[:cut])


@given(RECORDS, st.data())
def test_flipped_bits_are_refused(record: Record, data: st.DataObject) -> None:
    encoded = bytearray(codec.encode_record(record))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(codec.CodecError):
        codec.decode_record(bytes(encoded))


def sealed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "big")


def is_refused_or_right(
    decode: Callable[[bytes], T], encode: Callable[[T], bytes], data: bytes
) -> bool:
    """Tell whether what the bytes decode to, if they do at all, stays that when it is kept."""
    try:
        found = decode(data)
    except codec.CodecError:
        return True
    return decode(encode(found)) == found


@given(st.binary())
def test_any_bytes_with_a_good_checksum_decode_or_are_refused(body: bytes) -> None:
    for data in (body, sealed(body)):
        assert is_refused_or_right(codec.decode_record, codec.encode_record, data)
        assert is_refused_or_right(codec.decode_parts, codec.encode_parts, data)


@given(RECORDS, st.data())
def test_a_changed_record_with_a_good_checksum_decodes_or_is_refused(
    record: Record, data: st.DataObject
) -> None:
    body = bytearray(codec.encode_record(record)[:-4])
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    changed = sealed(bytes(body[:cut]))
    assert is_refused_or_right(codec.decode_record, codec.encode_record, changed)


@given(RECORDS)
def test_a_newer_version_is_named(record: Record) -> None:
    body = codec.encode_record(record)[1:-4]
    with pytest.raises(codec.NewerError, match="version 9"):
        codec.decode_record(sealed(b"\x09" + body))


@given(st.lists(OPERATIONS, max_size=3))
def test_an_operation_of_a_later_version_is_no_damage(known: list[Operation]) -> None:
    with pytest.raises(codec.NewerError, match="operation 0xee is not known"):
        codec.decode_record(newer_record(known))
    damaged = bytearray(newer_record(known))
    damaged[-5] ^= 1
    with pytest.raises(codec.CodecError) as caught:
        codec.decode_record(bytes(damaged))
    assert not isinstance(caught.value, codec.NewerError)


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        (b"\x01\x00\x00\x00\x01\xee", "image part 0xee"),
        (b"\x02\x00\x00\x00\x00", "image version 2"),
        (b"\x01\x00\x00\x00\x01\x06\x00\x00\x00\x01?", "a cluster state"),
    ],
)
def test_a_part_of_a_later_version_is_no_damage(parts: bytes, what: str) -> None:
    with pytest.raises(codec.NewerError, match=f"^{what} is not known"):
        codec.decode_parts(sealed(parts))


def test_a_content_type_that_comes_back_is_one_object() -> None:
    """Of millions of entries that a restart reads, few have one of their own."""
    kind = "application/x-of-a-test"
    operations = (
        MapPut("m", "k", b"v", kind, 0),
        MapPutBounded("m", "k", b"v", kind, 0, 1, None),
        QueueOffer("q", b"v", kind, 1),
    )
    parts: tuple[EntryPart | TrackedEntryPart | ItemPart, ...] = (
        EntryPart("m", "k", b"v", kind, 0),
        TrackedEntryPart("m", "k", b"v", kind, 0, 1, 1, None, 1),
        ItemPart("q", 1, b"v", kind, None, 0),
    )
    kinds = [
        operation.content_type
        for written in operations
        for operation in codec.decode_record(
            codec.encode_record(Record(b"m" * codec.MEMBER_BYTES, 1, 1, (written,)))
        ).operations
        if isinstance(operation, (MapPut, MapPutBounded, QueueOffer))
    ]
    kinds += [
        part.content_type
        for written in parts
        for part in codec.decode_parts(codec.encode_parts([written]))
        if isinstance(part, (EntryPart, TrackedEntryPart, ItemPart))
    ]
    assert kinds == [kind] * 6
    assert len({id(found) for found in kinds}) == 1
