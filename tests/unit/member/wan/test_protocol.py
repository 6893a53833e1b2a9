"""Promise: a batch is read as it was written, and other bytes are an error, never half a batch."""

from __future__ import annotations

import itertools
import struct
import tracemalloc
import zlib
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.wan.agreement import MergePolicy
from grid_member.engine.wan.changes import Change, ChangeKind
from grid_member.wan.protocol import (
    MAX_CHANGES,
    Batch,
    BatchWriter,
    ProtocolError,
    checked_answer,
    read_batch,
    seal,
    seal_compressed,
    with_checksum,
)
from tests.unit.member.wan.batches import HEADER, LATEST, SOME, body, clear, put, removal

MAX_BYTES: Final = 1 << 20
WRITTEN: Final = (
    "4757414e01000000014e000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f00"
    "0a6c6f6e646f6e2d72657000066c6f6e646f6e00020002000200060100066f726465727301000670656f70"
    "6c65000a746578742f706c61696e00106170706c69636174696f6e2f6a736f6e0100010203040506070809"
    "0a0b0c0d0e0f02000102030405060708090a0b0c0d0e0f202122232425262728292a2b2c2d2e2f01000000"
    "01000000030000000500000100000000008100000001000000050000000500000100000000010100010000"
    "00010003000000000400000000000000020000000000020004000000000000010000000003030001000000"
    "000000000000000000010000000004010001000200000007000000020000000000000001000001a0c4506c"
    "00000000000000ea60616461677261636561646161edb3a94772c3b6c39f6576616c756576616c756500ff"
    "999e1371"
)
"""A batch of version 1, as it was once written."""


def sealed(content: bytes) -> bytes:
    return content + struct.pack(">I", zlib.crc32(content))


def framed(inside: bytes, size: int | None = None, flags: int = 0) -> bytes:
    size = len(inside) if size is None else size
    return sealed(struct.pack(">4sBBI", b"GWAN", 1, flags, size) + inside)


def deflated(data: bytes) -> bytes:
    deflating = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflating.compress(data) + deflating.flush()


def test_a_batch_is_read_as_it_was_written() -> None:
    batch = read_batch(seal(body(*SOME)), MAX_BYTES)
    assert batch == Batch(HEADER, (("orders", LATEST), ("people", LATEST)), list(SOME))


def test_each_map_has_its_policy() -> None:
    writer = BatchWriter(HEADER)
    for name, policy in zip("abc", MergePolicy, strict=True):
        writer.add(put(name, "key", 1), policy)
    assert writer.maps == ("a", "b", "c")
    assert read_batch(seal(writer.body()), MAX_BYTES).maps == tuple(
        zip("abc", MergePolicy, strict=True)
    )


def test_a_batch_without_changes_carries_its_header() -> None:
    assert read_batch(seal(body()), MAX_BYTES) == Batch(HEADER, (), [])


texts = st.text(st.characters(), max_size=20)
ids = st.lists(st.binary(min_size=16, max_size=16), max_size=16).map(tuple)
stamps = st.integers(1, 2**59 - 1)
puts = st.builds(
    Change,
    st.sampled_from(["orders", "people", "ü" * 20]),
    st.just(ChangeKind.PUT),
    texts,
    stamps,
    st.binary(max_size=50),
    st.none() | texts,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    ids,
)
removals = st.builds(removal, st.just("orders"), texts, stamps)
clears = st.builds(clear, st.just("people"), stamps)


@given(st.lists(puts | removals | clears, max_size=12))
def test_whatever_a_state_holds_travels(changes: list[Change]) -> None:
    for message in (seal(body(*changes)), seal_compressed(body(*changes))):
        assert read_batch(message, MAX_BYTES).changes == changes


def test_every_beginning_is_an_error() -> None:
    for message in (seal(body(*SOME)), framed(deflated(body(*SOME)), len(body(*SOME)), 1)):
        assert read_batch(message, MAX_BYTES).changes == list(SOME)
        for end in range(len(message)):
            with pytest.raises(ProtocolError):
                read_batch(message[:end], MAX_BYTES)


def test_every_beginning_of_a_body_is_an_error() -> None:
    whole = body(*SOME)
    for end in range(len(whole)):
        with pytest.raises(ProtocolError):
            read_batch(framed(whole[:end]), MAX_BYTES)
    with pytest.raises(ProtocolError, match="left over"):
        read_batch(framed(whole + b"\x00"), MAX_BYTES)


def test_every_flipped_bit_is_an_error() -> None:
    message = bytearray(seal(body(*SOME)))
    for place in range(len(message) * 8):
        message[place // 8] ^= 1 << place % 8
        with pytest.raises(ProtocolError):
            read_batch(bytes(message), MAX_BYTES)
        message[place // 8] ^= 1 << place % 8


def test_a_flipped_bit_under_a_right_checksum_is_an_error_or_a_batch() -> None:
    content = bytearray(body(*SOME))
    for place in range(len(content) * 8):
        content[place // 8] ^= 1 << place % 8
        try:
            batch = read_batch(framed(bytes(content)), MAX_BYTES)
        except ProtocolError:
            pass
        else:
            assert len(batch.changes) == len(SOME)
        content[place // 8] ^= 1 << place % 8


def test_a_body_that_shrinks_travels_deflated() -> None:
    changes = [put("orders", f"key-{place}", place + 1) for place in range(500)]
    whole = body(*changes)
    message = seal_compressed(whole)
    assert len(message) < len(whole) // 2
    assert read_batch(message, MAX_BYTES).changes == changes
    assert seal_compressed(body(*SOME)) == seal(body(*SOME)), "too small to be worth it"
    noise = b"".join(zlib.crc32(bytes((n % 256, n >> 8))).to_bytes(4) for n in range(5000))
    whole = body(put("orders", "noise", 1, noise))
    assert seal_compressed(whole) == seal(whole), "it saves less than a fifth"


def test_a_bomb_is_not_inflated() -> None:
    bomb = deflated(bytes(64 << 20))
    tracemalloc.start()
    try:
        for size in (len(bomb), MAX_BYTES, 64 << 20):
            with pytest.raises(ProtocolError):
                read_batch(framed(bomb, size, 1), MAX_BYTES)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_BYTES
    finally:
        tracemalloc.stop()


def test_a_deflated_body_has_the_size_of_its_head() -> None:
    whole = body(*SOME)
    for size in (len(whole) - 1, len(whole) + 1):
        with pytest.raises(ProtocolError, match="another size"):
            read_batch(framed(deflated(whole), size, 1), MAX_BYTES)
    with pytest.raises(ProtocolError, match="another size"):
        read_batch(framed(deflated(whole) + b"\x00", len(whole), 1), MAX_BYTES)
    with pytest.raises(ProtocolError):
        read_batch(framed(b"\xff" * 20, len(whole), 1), MAX_BYTES)


BAD: Final = {
    "stamp of no bits": put("a", "k", 0),
    "stamp of too many bits": put("a", "k", 2**59),
    "no name": put("", "k", 1),
    "removal with a value": removal("a", "k", 1)._replace(value=b"x"),
    "removal with a type": removal("a", "k", 1)._replace(content_type="a/b"),
    "removal with an end": removal("a", "k", 1)._replace(deadline_ms=5),
    "clear of a key": clear("a", 1)._replace(key="k"),
    "end out of range": put("a", "k", 1)._replace(deadline_ms=2**63),
    "too many passed": put("a", "k", 1)._replace(passed=(bytes(16),) * 17),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_a_change_that_means_nothing_is_an_error(change: Change) -> None:
    with pytest.raises(ProtocolError):
        read_batch(seal(body(change)), MAX_BYTES)


def test_what_is_not_this_protocol_is_an_error() -> None:
    whole = body(*SOME)
    for frame in (("GWAX", 1, 0), ("GWAN", 2, 0), ("GWAN", 1, 2), ("GWAN", 0, 0)):
        head = struct.pack(">4sBBI", frame[0].encode(), frame[1], frame[2], len(whole))
        with pytest.raises(ProtocolError):
            read_batch(sealed(head + whole), MAX_BYTES)


def test_a_batch_has_limits() -> None:
    whole = body(*SOME)
    read_batch(seal(whole), len(whole))
    with pytest.raises(ProtocolError, match="too large"):
        read_batch(seal(whole), len(whole) - 1)
    most = [put("a", str(place), 1, b"") for place in range(MAX_CHANGES)]
    assert len(read_batch(seal(body(*most)), MAX_BYTES).changes) == MAX_CHANGES
    with pytest.raises(ProtocolError, match="too many changes"):
        read_batch(seal(body(*most, put("a", "one more", 1))), MAX_BYTES)


def test_tables_are_no_longer_than_the_batch() -> None:
    """A name costs three bytes on the wire and a hundred in memory."""
    about = seal(body())[10:-12]
    with pytest.raises(ProtocolError, match="table"):
        read_batch(framed(about + struct.pack(">HHHH", 0, 1, 0, 0) + b"\x00\x00"), MAX_BYTES)


def test_the_bytes_of_version_1_are_read_for_ever() -> None:
    assert read_batch(bytes.fromhex(WRITTEN), MAX_BYTES).changes == list(SOME)
    assert seal(body(*SOME)).hex() == WRITTEN


def test_changes_that_are_added_at_once_are_written_as_one_by_one() -> None:
    at_once, one_by_one = BatchWriter(HEADER), BatchWriter(HEADER)
    for name in ("orders", "people"):
        changes = [change for change in SOME if change.name == name]
        assert len(changes) == 3
        at_once.extend(changes, LATEST)
        for change in changes:
            one_by_one.add(change, LATEST)
    assert at_once.body() == one_by_one.body()
    assert at_once.size_bytes == one_by_one.size_bytes


def test_an_answer_counts_for_its_message_alone() -> None:
    message, other = seal(body(*SOME)), seal(body(put("orders", "other", 5)))
    answer = with_checksum(b"\0\1", message)
    assert checked_answer(answer, message) == b"\0\1"
    for wrong in (b"", b"\0\1", answer[:-1], answer + b"\0"):
        with pytest.raises(ProtocolError, match="checksum"):
            checked_answer(wrong, message)
    with pytest.raises(ProtocolError, match="checksum"):
        checked_answer(answer, other)
    for place, bit in itertools.product(range(len(answer)), range(8)):
        spoiled = bytearray(answer)
        spoiled[place] ^= 1 << bit
        with pytest.raises(ProtocolError, match="checksum"):
            checked_answer(bytes(spoiled), message)
