"""What is stored in a log beside its codec's bytes.

Place and time of a record, the place of the snapshot, the salt of the WAL. Each has a checksum,
too: a bit that flips on the disk must not pass for another time, or for a shorter snapshot.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from grid_member.engine.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.state.operations import Record

_PLACE: Final = struct.Struct(">QQ")  # sequence, timestamp
_HEAD: Final = struct.Struct(">QI")  # timestamp, CRC-32 of sequence and timestamp
_SALT_CHECK: Final = struct.Struct(">I")  # CRC-32 of the salt
_BASE: Final = struct.Struct(">QQI")  # sequence, number of chunks, CRC-32 of both


def pack_record(sequence: int, timestamp_ms: int, record: Record) -> bytes:
    """Return what is stored of a record under its sequence."""
    check = zlib.crc32(_PLACE.pack(sequence, timestamp_ms))
    return _HEAD.pack(timestamp_ms, check) + codec.encode_record(record)


def pack_records(records: Iterable[Record], first: int, timestamp_ms: int) -> list[bytes]:
    """Return what is stored of records, under sequences from the first one on."""
    return [pack_record(place, timestamp_ms, one) for place, one in enumerate(records, first)]


def unpack_record(sequence: int, value: bytes) -> tuple[int, Record]:
    """Return timestamp and record of what is stored under the sequence.

    Raises:
        CodecError: it is not what `pack_record` made of this sequence.
    """
    if len(value) < _HEAD.size:
        raise codec.CodecError("the record is cut")
    timestamp_ms, check = _HEAD.unpack_from(value)
    if zlib.crc32(_PLACE.pack(sequence, timestamp_ms)) != check:
        raise codec.CodecError("checksum mismatch: the record's place or time is damaged")
    return timestamp_ms, codec.decode_record(value[_HEAD.size :])


def pack_base(sequence: int, chunks: int) -> bytes:
    """Return what is stored of the snapshot that counts: its sequence and its number of chunks."""
    return _BASE.pack(sequence, chunks, zlib.crc32(_PLACE.pack(sequence, chunks)))


def unpack_base(value: bytes) -> tuple[int, int]:
    """Return sequence and number of chunks of what is stored.

    Raises:
        CodecError: it is not what `pack_base` made.
    """
    if len(value) != _BASE.size:
        raise codec.CodecError("the place of the image is missing or cut")
    sequence, chunks, check = _BASE.unpack(value)
    if zlib.crc32(_PLACE.pack(sequence, chunks)) != check:
        raise codec.CodecError("checksum mismatch: the place of the image is damaged")
    return sequence, chunks


def pack_salt(salt: bytes) -> bytes:
    """Return what is stored of the salt of the log's WAL."""
    return salt + _SALT_CHECK.pack(zlib.crc32(salt))


def unpack_salt(value: bytes) -> bytes:
    """Return the salt of what is stored.

    Raises:
        CodecError: it is not what `pack_salt` made.
    """
    salt = value[: -_SALT_CHECK.size]
    if not salt or pack_salt(salt) != value:
        raise codec.CodecError("checksum mismatch: the salt of the tail is damaged")
    return salt
