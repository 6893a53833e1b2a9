"""Records and image parts as bytes, versioned and checked.

A record is a header, its operations and a CRC-32 of all before it. An operation is a code and
fields in a fixed order: integers big-endian, texts and bytes behind a 32-bit length. Whatever
the bytes, decoding either returns what was encoded or raises `CodecError`. The check comes first:
a code that is not known then is no damage but of a later version, a `NewerError`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from grid_member.engine.api import Eviction
from grid_member.engine.state.fields import (
    ENTRY_FIELDS,
    U32,
    U64,
    CodecError,
    NewerError,
    Reader,
    put_blob,
    put_entries,
    put_entry,
    put_optional_text,
    put_policy,
    put_text,
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

__all__ = ["CodecError", "NewerError", "decode_parts", "decode_record", "encode_part",
           "encode_parts", "encode_record", "record_name", "seal_parts"]  # fmt: skip

RECORD_VERSION: Final = 1
PARTS_VERSION: Final = 1
MEMBER_BYTES: Final = 16
"""Length of a member's UUID."""

_RECORD_HEADER: Final = struct.Struct(">B16sQQI")
_PARTS_HEADER: Final = struct.Struct(">BI")
_MAP_PUT: Final = 0x01
_PUTS_ONLY: Final = frozenset({MapPut})
_ENTRY_PART: Final = 0x03


def encode_record(record: Record) -> bytes:
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
    if set(map(type, record.operations)) == _PUTS_ONLY:
        # As below, in half the time: that is most of every log.
        put_entries(_MAP_PUT, cast("tuple[MapPut, ...]", record.operations), pieces)
        return _sealed(pieces)
    for operation in record.operations:
        code, encode = _OPERATION_ENCODERS[type(operation)]
        pieces.append(code)
        encode(operation, pieces)
    return _sealed(pieces)


def decode_record(data: bytes) -> Record:
    """Return the record that `encode_record` made data from.

    Raises:
        CodecError: data is anything else.
    """
    reader = Reader(_unsealed(data))
    version, member, incarnation, counter, count = reader.header(_RECORD_HEADER)
    if version != RECORD_VERSION:
        raise NewerError(f"record version {version}")
    operations: list[Operation] = []
    while len(operations) < count:
        if entries := reader.entries(_MAP_PUT, count - len(operations), MapPut):
            operations += entries
            continue
        code = reader.u8()
        decode = _OPERATION_DECODERS.get(code)
        if decode is None:
            raise NewerError(f"operation {code:#04x}")
        operations.append(decode(reader))
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
    """Return image parts as bytes."""
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
        if entries := reader.entries(_ENTRY_PART, count - len(parts), EntryPart):
            parts += entries
            continue
        code = reader.u8()
        decode = _PART_DECODERS.get(code)
        if decode is None:
            raise NewerError(f"image part {code:#04x}")
        parts.append(decode(reader))
    reader.end()
    return parts


def encode_part(part: Part) -> bytes:
    """Return one image part as bytes, the same for equal parts."""
    code, encode = _PART_ENCODERS[type(part)]
    pieces = [code]
    encode(part, pieces)
    return b"".join(pieces)


def _sealed(pieces: list[bytes]) -> bytes:
    body = b"".join(pieces)
    return body + U32.pack(zlib.crc32(body))


def _unsealed(data: bytes) -> bytes:
    body = data[: -U32.size]
    if len(data) < U32.size or U32.pack(zlib.crc32(body)) != data[-U32.size :]:
        raise CodecError("checksum mismatch: the bytes are damaged or incomplete")
    return body


# Operations. The codes are for ever: a new meaning gets a new code.


def _put_map_put(operation: MapPut, pieces: list[bytes]) -> None:
    put_entry(b"", *operation, pieces)


def _put_map_put_bounded(operation: MapPutBounded, pieces: list[bytes]) -> None:
    put_entry(b"", *operation[:ENTRY_FIELDS], pieces)
    idle_ms, eviction = operation[ENTRY_FIELDS:]
    pieces.append(U64.pack(idle_ms))
    put_policy(None if eviction is None else eviction.policy, pieces)
    if eviction is not None:
        pieces += (U64.pack(eviction.max_entries), U64.pack(eviction.max_bytes))


def _read_map_put_bounded(reader: Reader) -> MapPutBounded:
    entry = reader.entry()
    idle_ms, policy = reader.u64(), reader.policy()
    eviction = None if policy is None else Eviction(policy, reader.u64(), reader.u64())
    return MapPutBounded(*entry, idle_ms, eviction)


def _put_map_touch(operation: MapTouch, pieces: list[bytes]) -> None:
    put_text(operation.name, pieces)
    pieces.append(U32.pack(len(operation.accesses)))
    for key, accessed_ms, hits in operation.accesses:
        put_text(key, pieces)
        pieces += (U64.pack(accessed_ms), U32.pack(hits))


def _read_map_touch(reader: Reader) -> MapTouch:
    name = reader.text()
    accesses = [Access(reader.text(), reader.u64(), reader.u32()) for _ in range(reader.u32())]
    return MapTouch(name, tuple(accesses))


def _put_map_expire_idle(operation: MapExpireIdle, pieces: list[bytes]) -> None:
    put_text(operation.name, pieces)
    put_text(operation.key, pieces)
    pieces.append(U64.pack(operation.accessed_ms))


def _put_name(operation: MapClear | QueueTake, pieces: list[bytes]) -> None:
    put_text(operation.name, pieces)


def _put_name_key(operation: MapRemove | MapExpire, pieces: list[bytes]) -> None:
    put_text(operation.name, pieces)
    put_text(operation.key, pieces)


def _put_offer(operation: QueueOffer, pieces: list[bytes]) -> None:
    put_text(operation.name, pieces)
    put_blob(operation.value, pieces)
    put_optional_text(operation.content_type, pieces)
    pieces.append(U64.pack(operation.max_size))


def _put_landing(operation: QueueConfirm | QueueReturn, pieces: list[bytes]) -> None:
    put_text(operation.name, pieces)
    pieces += (U64.pack(operation.item_id), U64.pack(operation.take_id))


def _put_cluster_state(
    operation: ClusterStateChange | TransientStateChange, pieces: list[bytes]
) -> None:
    put_text(operation.state.value, pieces)


def _put_system_value(value: SystemPut | SystemValuePart, pieces: list[bytes]) -> None:
    key, content, time_ms = value
    put_text(key, pieces)
    put_blob(content, pieces)
    pieces.append(U64.pack(time_ms))


def _put_system_key(operation: SystemRemove, pieces: list[bytes]) -> None:
    put_text(operation.key, pieces)


def _put_nothing(operation: SystemExpire, pieces: list[bytes]) -> None:
    """Write no field: there is none."""


_Encoder = tuple[bytes, Callable[[Any, list[bytes]], None]]


def _put_gone(operation: MemberGone, pieces: list[bytes]) -> None:
    put_blob(operation.member, pieces)
    pieces.append(U64.pack(operation.incarnation))


_OPERATION_ENCODERS: Final[dict[type[Operation], _Encoder]] = {
    MapPut: (b"\x01", _put_map_put),
    MapRemove: (b"\x02", _put_name_key),
    MapClear: (b"\x03", _put_name),
    MapExpire: (b"\x04", _put_name_key),
    MapPutBounded: (b"\x05", _put_map_put_bounded),
    MapTouch: (b"\x06", _put_map_touch),
    MapExpireIdle: (b"\x07", _put_map_expire_idle),
    QueueOffer: (b"\x10", _put_offer),
    QueueTake: (b"\x11", _put_name),
    QueueConfirm: (b"\x14", _put_landing),
    QueueReturn: (b"\x15", _put_landing),
    ClusterStateChange: (b"\x20", _put_cluster_state),
    TransientStateChange: (b"\x21", _put_cluster_state),
    SystemPut: (b"\x30", _put_system_value),
    SystemRemove: (b"\x31", _put_system_key),
    SystemExpire: (b"\x32", _put_nothing),
    MemberGone: (b"\x40", _put_gone),
}
_OPERATION_DECODERS: Final[dict[int, Callable[[Reader], Operation]]] = {
    _MAP_PUT: lambda r: MapPut(*r.entry()),
    0x02: lambda r: MapRemove(r.text(), r.text()),
    0x03: lambda r: MapClear(r.text()),
    0x04: lambda r: MapExpire(r.text(), r.text()),
    0x05: _read_map_put_bounded,
    0x06: _read_map_touch,
    0x07: lambda r: MapExpireIdle(r.text(), r.text(), r.u64()),
    0x10: lambda r: QueueOffer(r.text(), r.blob(), r.content_type(), r.u64()),
    0x11: lambda r: QueueTake(r.text()),
    0x12: lambda r: QueueConfirm(r.text(), r.u64(), 0),  # not written any more
    0x13: lambda r: QueueReturn(r.text(), r.u64(), 0),  # not written any more
    0x14: lambda r: QueueConfirm(r.text(), r.u64(), r.u64()),
    0x15: lambda r: QueueReturn(r.text(), r.u64(), r.u64()),
    0x20: lambda r: ClusterStateChange(r.cluster_state()),
    0x21: lambda r: TransientStateChange(r.cluster_state()),
    0x30: lambda r: SystemPut(r.text(), r.blob(), r.u64()),
    0x31: lambda r: SystemRemove(r.text()),
    0x32: lambda r: SystemExpire(),
    0x40: lambda r: MemberGone(r.blob(), r.u64()),
}


# Image parts


def _put_system(part: SystemPart, pieces: list[bytes]) -> None:
    pieces.append(U64.pack(part.sequence))
    pieces.append(U64.pack(part.timestamp_ms))
    put_text(part.cluster_state.value, pieces)


def _put_restart_state(part: RestartStatePart, pieces: list[bytes]) -> None:
    put_text(part.cluster_state.value, pieces)


def _put_member(part: MemberPart, pieces: list[bytes]) -> None:
    put_blob(part.member, pieces)
    pieces.extend(U64.pack(number) for number in part.mark)


def _put_entry_part(part: EntryPart, pieces: list[bytes]) -> None:
    put_entry(b"", *part, pieces)


def _put_tracked_entry(part: TrackedEntryPart, pieces: list[bytes]) -> None:
    put_entry(b"", *part[:ENTRY_FIELDS], pieces)
    idle_ms, accessed_ms, policy, hits = part[ENTRY_FIELDS:]
    pieces += (U64.pack(idle_ms), U64.pack(accessed_ms))
    put_policy(policy, pieces)
    pieces.append(U64.pack(hits))


def _put_item(part: ItemPart, pieces: list[bytes]) -> None:
    flies = part.taker is not None or part.take_id
    pieces.append(b"\x08" if flies else b"\x04")
    put_text(part.name, pieces)
    pieces.append(U64.pack(part.item_id))
    put_blob(part.value, pieces)
    put_optional_text(part.content_type, pieces)
    put_blob(part.taker or b"", pieces)
    if flies:
        pieces.append(U64.pack(part.take_id))


def _read_item(reader: Reader) -> ItemPart:
    name, item_id, value = reader.text(), reader.u64(), reader.blob()
    return ItemPart(name, item_id, value, reader.content_type(), reader.blob() or None, 0)


_PART_ENCODERS: Final[dict[type[Part], _Encoder]] = {
    SystemPart: (b"\x01", _put_system),
    MemberPart: (b"\x02", _put_member),
    EntryPart: (b"\x03", _put_entry_part),
    ItemPart: (b"", _put_item),
    TrackedEntryPart: (b"\x05", _put_tracked_entry),
    RestartStatePart: (b"\x06", _put_restart_state),
    SystemValuePart: (b"\x07", _put_system_value),
}
_PART_DECODERS: Final[dict[int, Callable[[Reader], Part]]] = {
    0x01: lambda r: SystemPart(r.u64(), r.u64(), r.cluster_state()),
    0x02: lambda r: MemberPart(r.blob(), MemberMark(r.u64(), r.u64(), r.u64())),
    _ENTRY_PART: lambda r: EntryPart(*r.entry()),
    0x04: _read_item,  # in images of old those in flight, too
    0x05: lambda r: TrackedEntryPart(*r.entry(), r.u64(), r.u64(), r.policy(), r.u64()),
    0x06: lambda r: RestartStatePart(r.cluster_state()),
    0x07: lambda r: SystemValuePart(r.text(), r.blob(), r.u64()),
    0x08: lambda r: _read_item(r)._replace(take_id=r.u64()),
}
