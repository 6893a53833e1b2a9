"""Records and snapshot parts as bytes, versioned and checked.

A record is a header, its operations and a CRC-32 of all before it. An operation is its tag and its
fields, as `operation_table` declares them; integers are big-endian, texts and bytes stand behind a
32-bit length. Whatever the bytes, decoding either returns what was encoded or raises `CodecError`.
The check comes first: a tag that is not known then is no damage but of a later version, a
`NewerError`.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final, cast

from grid_member.engine.state.fields import (
    U32,
    CodecError,
    NewerError,
    Reader,
    put_entries,
)
from grid_member.engine.state.layout import (
    BLOB,
    CLUSTER_STATE,
    CONTENT_TYPE,
    ENTRY,
    MARK,
    NUMBER,
    POLICY,
    TAKER,
    TEXT,
    ZERO,
    Field,
    reader_of,
    writer,
)
from grid_member.engine.state.operation_table import MAP_PUT, OPERATIONS, OperationTable
from grid_member.engine.state.operations import MapPut, Operation, Record
from grid_member.engine.state.snapshot import (
    EntryPart,
    ForgottenPart,
    ItemPart,
    MemberPart,
    Part,
    QueuedPart,
    RestartStatePart,
    StampPart,
    SystemPart,
    SystemValuePart,
    TombstonePart,
    TrackedEntryPart,
    WanMapPart,
    WanPart,
)
from grid_member.engine.state.wan_layout import (
    MAYBE_AGREEMENT,
    PASSED,
    PUBLISHER,
    QUEUE_MARKS,
    RECEIVED,
    STATES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CodecError", "NewerError", "decode_parts", "decode_record", "encode_part",
           "encode_parts", "encode_record", "record_name", "seal_parts"]  # fmt: skip

RECORD_VERSION: Final = 1
PARTS_VERSION: Final = 1
MEMBER_BYTES: Final = 16
"""Length of a member's UUID."""

_RECORD_HEADER: Final = struct.Struct(">B16sQQI")
_PARTS_HEADER: Final = struct.Struct(">BI")
_PUTS_ONLY: Final = frozenset({MapPut})


def encode_record(record: Record, table: OperationTable = OPERATIONS) -> bytes:
    """Return the record as bytes."""
    pieces = [
        _RECORD_HEADER.pack(
            RECORD_VERSION,
            record.member,
            record.incarnation,
            record.counter,
            len(record.operations),
        )
    ]
    operations = record.operations
    if operations and type(operations[0]) is MapPut and set(map(type, operations)) == _PUTS_ONLY:
        # As below, in half the time: that is most of every log.
        put_entries(MAP_PUT, cast("tuple[MapPut, ...]", operations), pieces)
        return _sealed(pieces)
    writers = table.writers
    for operation in operations:
        tag, write = writers[type(operation)]
        pieces.append(tag)
        write(operation, pieces)
    return _sealed(pieces)


def decode_record(data: bytes, table: OperationTable = OPERATIONS) -> Record:
    """Return the record that `encode_record` made data from.

    Raises:
        CodecError: data is anything else.
    """
    reader = Reader(_unsealed(data))
    version, member, incarnation, counter, count = reader.header(_RECORD_HEADER)
    if version != RECORD_VERSION:
        raise NewerError(f"record version {version}")
    operations: list[Operation] = []
    readers = table.readers
    while len(operations) < count:
        tag = reader.u8()
        if tag == MAP_PUT:
            operations += reader.entries(tag, count - len(operations), MapPut)
            continue
        read = readers.get(tag)
        if read is None:
            raise NewerError(f"operation {tag:#04x}")
        operations.append(read(reader))
    reader.end()
    return Record(member, incarnation, counter, tuple(operations))


def record_name(data: bytes) -> tuple[bytes, int, int]:
    """Return member, incarnation and counter of an encoded record, without looking at the rest.

    Raises:
        CodecError: data is shorter than any record.
    """
    if len(data) < _RECORD_HEADER.size:
        raise CodecError("too short for a record")
    _, member, incarnation, counter, _ = _RECORD_HEADER.unpack_from(data)
    return member, incarnation, counter


def encode_parts(parts: Iterable[Part]) -> bytes:
    """Return snapshot parts as bytes."""
    return seal_parts([encode_part(part) for part in parts])


def seal_parts(encoded: list[bytes]) -> bytes:
    """Return parts that `encode_part` made as `encode_parts` would."""
    return _sealed([_PARTS_HEADER.pack(PARTS_VERSION, len(encoded)), *encoded])


def decode_parts(data: bytes) -> list[Part]:
    """Return the parts that `encode_parts` made data from.

    Raises:
        CodecError: data is anything else.
    """
    reader = Reader(_unsealed(data))
    version, count = reader.header(_PARTS_HEADER)
    if version != PARTS_VERSION:
        raise NewerError(f"image version {version}")
    parts: list[Part] = []
    while len(parts) < count:
        tag = reader.u8()
        if tag == _ENTRY_PART:
            parts += reader.entries(tag, count - len(parts), EntryPart)
            continue
        read = _PART_READERS.get(tag)
        if read is None:
            raise NewerError(f"image part {tag:#04x}")
        parts.append(read(reader))
    reader.end()
    return parts


def encode_part(part: Part) -> bytes:
    """Return one snapshot part as bytes, the same for equal parts."""
    tag, write = _PART_WRITERS[type(part)]
    if type(part) is ItemPart and part.taker is None and not part.take_id:
        tag, write = _WAITING_WRITER
    pieces = [tag]
    write(part, pieces)
    return b"".join(pieces)


def _sealed(pieces: list[bytes]) -> bytes:
    body = b"".join(pieces)
    return body + U32.pack(zlib.crc32(body))


def _unsealed(data: bytes) -> bytes:
    body = data[: -U32.size]
    if len(data) < U32.size or U32.pack(zlib.crc32(body)) != data[-U32.size :]:
        raise CodecError("checksum mismatch: the bytes are damaged or incomplete")
    return body


# Snapshot parts. The tags are for ever: a new meaning gets a new tag.

_ENTRY_PART: Final = 0x03
_ITEM: Final = (TEXT, NUMBER, BLOB, CONTENT_TYPE, TAKER)
_PARTS: Final[tuple[tuple[int, type[Part], tuple[Field[Any], ...]], ...]] = (
    (0x01, SystemPart, (NUMBER, NUMBER, CLUSTER_STATE)),
    (0x02, MemberPart, (BLOB, MARK)),
    (_ENTRY_PART, EntryPart, (ENTRY,)),
    (0x04, ItemPart, (*_ITEM, ZERO)),  # in snapshots of old those in flight, too
    (0x05, TrackedEntryPart, (ENTRY, NUMBER, NUMBER, POLICY, NUMBER)),
    (0x06, RestartStatePart, (CLUSTER_STATE,)),
    (0x07, SystemValuePart, (TEXT, BLOB, NUMBER)),
    (0x08, ItemPart, (*_ITEM, NUMBER)),
    (0x10, WanPart, (NUMBER, MAYBE_AGREEMENT, STATES)),
    (0x11, StampPart, (TEXT, TEXT, NUMBER, PASSED)),
    (0x12, WanMapPart, (TEXT, NUMBER, NUMBER, PASSED, NUMBER, NUMBER, RECEIVED, QUEUE_MARKS)),
    (0x13, TombstonePart, (TEXT, TEXT, NUMBER, PASSED)),
    (0x14, QueuedPart, (TEXT, PUBLISHER, BLOB, TEXT, NUMBER)),
    (0x15, ForgottenPart, (NUMBER,)),
)
_PART_WRITERS: Final = {part: (bytes((tag,)), writer(fields)) for tag, part, fields in _PARTS}
_PART_READERS: Final = {tag: reader_of(part, fields) for tag, part, fields in _PARTS}
_WAITING_WRITER: Final = (b"\x04", writer(_ITEM))
