"""What two clusters compare of a map: digests of buckets of keys, and rows of single keys.

    bucket = the first bits of the CRC-32 of the key      digest of a bucket = count and sum of the
                                                          digests of its entries, modulo 2**64

The digest of an entry covers all that travels of it but the idle time, which is a cluster's own.
It is keyed with the id of the job, so entries cannot be prepared to have one digest.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BITS: Final = 16
"""Of the number of a bucket."""
KEYS_PER_BUCKET: Final = 16
"""As many as a bucket has, about: few differences cost no list of many keys."""
HASH_BITS: Final = 32
_DIGEST_BYTES: Final = 8
RANK_BYTES: Final = 24
"""Of an entry: of its end 8, of the begin of its value 16."""
_END: Final = struct.Struct(">Q")
_FIELDS: Final = struct.Struct(">QQII")
"""Stamp, deadline, bytes of key and content type; the latter is NO_TYPE without one."""
_NO_TYPE: Final = 0xFFFF_FFFF
_SUM_MASK: Final = (1 << 64) - 1
_LATEST: Final = (1 << 64) - 1


class Held(NamedTuple):
    """What a cluster has of a key: an entry, or the removal of one."""

    stamp: int
    value: bytes | None
    """None is a removal."""
    content_type: str | None
    deadline_ms: int


class Row(NamedTuple):
    """What a cluster tells of a key."""

    key: str
    stamp: int
    digest: int
    """0 of a removal."""
    removed: bool
    rank: bytes
    """As of `rank_of`: the greater of two entries of one stamp counts."""


class Digests:
    """Counts and sums of all buckets."""

    __slots__ = ("bits", "counts", "removed", "sums")

    def __init__(self, bits: int) -> None:
        """Begin with empty buckets, 2**bits of them."""
        self.bits = bits
        self.removed = 0
        """Tombstones of the map: no digest has them, but a list of keys does."""
        self.counts = array("L", [0]) * (1 << bits)
        self.sums = array("Q", [0]) * (1 << bits)

    def add(self, bucket: int, digest: int) -> None:
        """Count an entry."""
        self.counts[bucket] += 1
        self.sums[bucket] = (self.sums[bucket] + digest) & _SUM_MASK

    def differing(self, other: Digests) -> Iterator[int]:
        """Yield the buckets that are not the same in both."""
        mine = zip(self.counts, self.sums, strict=True)
        theirs = zip(other.counts, other.sums, strict=True)
        for bucket, (own, found) in enumerate(zip(mine, theirs, strict=True)):
            if own != found:
                yield bucket


def key_bytes_of(key: str) -> bytes:
    """Return the bytes of a key, which may have characters that UTF-8 has not."""
    return key.encode() if key.isascii() else key.encode("utf-8", "surrogatepass")


def bucket_of(key_bytes: bytes, bits: int) -> int:
    """Return the bucket of a key."""
    return zlib.crc32(key_bytes) >> HASH_BITS - bits


def bits_for(keys: int) -> int:
    """Return how many bits give so many entries and tombstones buckets of the right size."""
    return min(MAX_BITS, max(0, keys // KEYS_PER_BUCKET).bit_length())


def rank_of(held: Held) -> bytes:
    """Return what orders entries of one stamp as merging does, as far as so many bytes tell.

    The entry that ends first counts, then the greater value; equal ranks say nothing.
    """
    if held.value is None:
        return bytes(RANK_BYTES)
    sooner = _LATEST - held.deadline_ms if held.deadline_ms else 0
    return (_END.pack(sooner) + held.value[: RANK_BYTES - _END.size]).ljust(RANK_BYTES, b"\0")


def digest_of(secret: bytes, key_bytes: bytes, held: Held) -> int:
    """Return the digest of an entry, a number of 64 bits; that of a removal is 0."""
    stamp, value, content_type, deadline_ms = held
    if value is None:
        return 0
    type_bytes = b"" if content_type is None else content_type.encode("utf-8", "surrogatepass")
    type_size = _NO_TYPE if content_type is None else len(type_bytes)
    head = _FIELDS.pack(stamp, deadline_ms, len(key_bytes), type_size)
    hashed = hashlib.blake2b(head, digest_size=_DIGEST_BYTES, key=secret)
    hashed.update(key_bytes + type_bytes)
    hashed.update(value)
    return int.from_bytes(hashed.digest(), "big")
