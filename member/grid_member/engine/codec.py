"""Records and image parts as bytes, versioned and checked.

A record is a header, its operations and a CRC-32 of all before it. An operation is a code and
fields in a fixed order: integers big-endian, texts and bytes behind a 32-bit length. Whatever
the bytes, decoding either returns what was encoded or raises `CodecError`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from grid_member.engine.api import ClusterState, Entry
from grid_member.engine.image import EntryPart, ItemPart, MemberMark, MemberPart, Part, SystemPart
from grid_member.engine.operations import (
    ClusterStateChange,
    MapClear,
    MapExpire,
    MapPut,
    MapRemove,
    Operation,
    QueueClear,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
    QueueTake,
    Record,
)

RECORD_VERSION: Final = 1
PARTS_VERSION: Final = 1
MEMBER_BYTES: Final = 16
"""Length of a member's UUID."""

_RECORD_HEADER: Final = struct.Struct(">B16sQQI")
_PARTS_HEADER: Final = struct.Struct(">BI")
_U8: Final = struct.Struct(">B")
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")
_ENTRY: Final = struct.Struct(">IIIIQ")
"""Lengths of name, key, value and content type, then a time; then these four."""
_NONE: Final = 0xFFFFFFFF
"""The length that stands for an absent text."""


class CodecError(Exception):
    """The bytes are not what this version writes: damaged, torn, foreign or newer."""


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
    reader = _Reader(_unsealed(data))
    version, member, incarnation, counter, count = reader.header(_RECORD_HEADER)
    if version != RECORD_VERSION:
        raise CodecError(f"record version {version} is not {RECORD_VERSION}")
    operations: list[Operation] = []
    for _ in range(count):
        decode = _OPERATION_DECODERS.get(reader.u8())
        if decode is None:
            raise CodecError("unknown operation code")
        operations.append(decode(reader))
    reader.end()
    return Record(member, incarnation, counter, tuple(operations))


def encode_parts(parts: Iterable[Part]) -> bytes:
    """Return image parts as bytes."""
    encoded = [encode_part(part) for part in parts]
    return _sealed([_PARTS_HEADER.pack(PARTS_VERSION, len(encoded)), *encoded])


def decode_parts(data: bytes) -> list[Part]:
    """Return the parts that `encode_parts` made data from.

    Raises:
        CodecError: data is anything else.
    """
    reader = _Reader(_unsealed(data))
    version, count = reader.header(_PARTS_HEADER)
    if version != PARTS_VERSION:
        raise CodecError(f"image version {version} is not {PARTS_VERSION}")
    parts: list[Part] = []
    for _ in range(count):
        decode = _PART_DECODERS.get(reader.u8())
        if decode is None:
            raise CodecError("unknown image part code")
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
    return body + _U32.pack(zlib.crc32(body))


def _unsealed(data: bytes) -> bytes:
    body = data[: -_U32.size]
    if len(data) < _U32.size or _U32.pack(zlib.crc32(body)) != data[-_U32.size :]:
        raise CodecError("checksum mismatch: the bytes are damaged or incomplete")
    return body


class _Reader:
    """Reads fields from front to back; every read is checked against the end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def header(self, layout: struct.Struct) -> tuple[Any, ...]:
        try:
            fields = layout.unpack_from(self._data, self._at)
        except struct.error:
            raise CodecError("the bytes end inside a field") from None
        self._at += layout.size
        return fields

    def u8(self) -> int:
        return int(self.header(_U8)[0])

    def u32(self) -> int:
        return int(self.header(_U32)[0])

    def u64(self) -> int:
        return int(self.header(_U64)[0])

    def raw(self, length: int) -> bytes:
        start, self._at = self._at, self._at + length
        if self._at > len(self._data):
            raise CodecError("the bytes end inside a field")
        return self._data[start : self._at]

    def blob(self) -> bytes:
        return self.raw(self.u32())

    def text(self) -> str:
        return _decoded(self.blob())

    def optional_text(self) -> str | None:
        length = self.u32()
        return None if length == _NONE else _decoded(self.raw(length))

    def cluster_state(self) -> ClusterState:
        try:
            return ClusterState(self.text())
        except ValueError:
            raise CodecError("unknown cluster state") from None

    def entry(self) -> tuple[str, str, Entry, int]:
        """Read name, key, entry and time, in one step: it is most of every log."""
        name, key, value, content_type, number = self.header(_ENTRY)
        data = self._data
        name_end = self._at + name
        key_end = name_end + key
        value_end = key_end + value
        start, self._at = self._at, value_end + (0 if content_type == _NONE else content_type)
        if self._at > len(data):
            raise CodecError("the bytes end inside a field")
        kind = None if content_type == _NONE else _decoded(data[value_end : self._at])
        entry = Entry(data[key_end:value_end], kind)
        return _decoded(data[start:name_end]), _decoded(data[name_end:key_end]), entry, number

    def end(self) -> None:
        if self._at != len(self._data):
            raise CodecError("bytes are left over")


def _decoded(data: bytes) -> str:
    try:
        # surrogatepass: whatever str a caller passes as a key must come back.
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise CodecError("a text is not UTF-8") from None


def _text(text: str, pieces: list[bytes]) -> None:
    _blob(text.encode("utf-8", "surrogatepass"), pieces)


def _blob(data: bytes, pieces: list[bytes]) -> None:
    pieces.append(_U32.pack(len(data)))
    pieces.append(data)


def _optional_text(text: str | None, pieces: list[bytes]) -> None:
    if text is None:
        pieces.append(_U32.pack(_NONE))
    else:
        _text(text, pieces)


# Operations. The codes are for ever: a new meaning gets a new code.


def _put_map_put(operation: MapPut, pieces: list[bytes]) -> None:
    _put_entry(*operation, pieces)


def _put_entry(name: str, key: str, entry: Entry, number: int, pieces: list[bytes]) -> None:
    """Append what maps are made of, in one step: it is most of every log."""
    name_bytes = name.encode("utf-8", "surrogatepass")
    key_bytes = key.encode("utf-8", "surrogatepass")
    value, content_type = entry.value, entry.content_type
    if content_type is None:
        type_bytes, type_length = b"", _NONE
    else:
        type_bytes = content_type.encode("utf-8", "surrogatepass")
        type_length = len(type_bytes)
    lengths = (len(name_bytes), len(key_bytes), len(value), type_length)
    pieces += (_ENTRY.pack(*lengths, number), name_bytes, key_bytes, value, type_bytes)


def _put_name(operation: MapClear | QueueTake | QueueClear, pieces: list[bytes]) -> None:
    _text(operation.name, pieces)


def _put_name_key(operation: MapRemove | MapExpire, pieces: list[bytes]) -> None:
    _text(operation.name, pieces)
    _text(operation.key, pieces)


def _put_offer(operation: QueueOffer, pieces: list[bytes]) -> None:
    _text(operation.name, pieces)
    _blob(operation.value, pieces)
    _optional_text(operation.content_type, pieces)
    pieces.append(_U64.pack(operation.max_size))


def _put_item_id(operation: QueueConfirm | QueueReturn, pieces: list[bytes]) -> None:
    _text(operation.name, pieces)
    pieces.append(_U64.pack(operation.item_id))


def _put_cluster_state(operation: ClusterStateChange, pieces: list[bytes]) -> None:
    _text(operation.state.value, pieces)


_Encoder = tuple[bytes, Callable[[Any, list[bytes]], None]]

_OPERATION_ENCODERS: Final[dict[type[Operation], _Encoder]] = {
    MapPut: (b"\x01", _put_map_put),
    MapRemove: (b"\x02", _put_name_key),
    MapClear: (b"\x03", _put_name),
    MapExpire: (b"\x04", _put_name_key),
    QueueOffer: (b"\x10", _put_offer),
    QueueTake: (b"\x11", _put_name),
    QueueConfirm: (b"\x12", _put_item_id),
    QueueReturn: (b"\x13", _put_item_id),
    QueueClear: (b"\x14", _put_name),
    ClusterStateChange: (b"\x20", _put_cluster_state),
}
_OPERATION_DECODERS: Final[dict[int, Callable[[_Reader], Operation]]] = {
    0x01: lambda r: MapPut(*r.entry()),
    0x02: lambda r: MapRemove(r.text(), r.text()),
    0x03: lambda r: MapClear(r.text()),
    0x04: lambda r: MapExpire(r.text(), r.text()),
    0x10: lambda r: QueueOffer(r.text(), r.blob(), r.optional_text(), r.u64()),
    0x11: lambda r: QueueTake(r.text()),
    0x12: lambda r: QueueConfirm(r.text(), r.u64()),
    0x13: lambda r: QueueReturn(r.text(), r.u64()),
    0x14: lambda r: QueueClear(r.text()),
    0x20: lambda r: ClusterStateChange(r.cluster_state()),
}


# Image parts


def _put_system(part: SystemPart, pieces: list[bytes]) -> None:
    pieces.append(_U64.pack(part.sequence))
    pieces.append(_U64.pack(part.timestamp_ms))
    _text(part.cluster_state.value, pieces)


def _put_member(part: MemberPart, pieces: list[bytes]) -> None:
    _blob(part.member, pieces)
    pieces.extend(_U64.pack(number) for number in part.mark)


def _put_entry_part(part: EntryPart, pieces: list[bytes]) -> None:
    _put_entry(*part, pieces)


def _put_item(part: ItemPart, pieces: list[bytes]) -> None:
    _text(part.name, pieces)
    pieces.append(_U64.pack(part.item_id))
    _blob(part.value, pieces)
    _optional_text(part.content_type, pieces)
    _blob(part.taker or b"", pieces)


_PART_ENCODERS: Final[dict[type[Part], _Encoder]] = {
    SystemPart: (b"\x01", _put_system),
    MemberPart: (b"\x02", _put_member),
    EntryPart: (b"\x03", _put_entry_part),
    ItemPart: (b"\x04", _put_item),
}
_PART_DECODERS: Final[dict[int, Callable[[_Reader], Part]]] = {
    0x01: lambda r: SystemPart(r.u64(), r.u64(), r.cluster_state()),
    0x02: lambda r: MemberPart(r.blob(), MemberMark(r.u64(), r.u64(), r.u64())),
    0x03: lambda r: EntryPart(*r.entry()),
    0x04: lambda r: ItemPart(r.text(), r.u64(), r.blob(), r.optional_text(), r.blob() or None),
}
