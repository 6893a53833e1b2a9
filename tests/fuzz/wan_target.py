"""Target: what another cluster sends, batches and hellos."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from grid_member.wan.hello import (
    HelloError,
    read_hello,
    read_welcome,
    write_hello,
    write_welcome,
)
from grid_member.wan.protocol import (
    BatchWriter,
    ProtocolError,
    read_batch,
    seal,
    seal_compressed,
)
from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from grid_member.wan.protocol import Batch

MAX_BODY_BYTES: Final = 64 << 10
_CRC: Final = struct.Struct(">I")


class WanTarget:
    """The first byte says what the rest is.

    0: a batch as it came; 1: one whose checksum is set right; 2: a body; 3: a deflated body;
    4: a hello; 5: a welcome.
    """

    name = "wan"
    words = (
        *(b"GWAN\x01\x00", b"GWAN\x01\x01", b"\x81", b"\x00\x01", b"\x00\x02", b"\xff\xff"),
        *(b"\xed\xa0\x80", b"\xff", b"\x07\xff\xff\xff", b"\x00\x00\x00\x00\x00\x00\x00\x01"),
        *(b'"clusterId":"', b'"protocols":[1]', b'"began":"EMPTY"', b'"limits":{', b"1e999"),
    )
    max_bytes = 4096

    def run(self, data: bytes) -> Hashable:
        """Read; what is accepted must mean the same when it is written and read again."""
        kind, rest = (data[0] % 6 if data else 0), data[1:]
        if kind == 4:
            return _hello(rest)
        if kind == 5:
            return _welcome(rest)
        try:
            batch = read_batch(_message(kind, rest), MAX_BODY_BYTES)
        except ProtocolError as error:
            return kind, str(error)
        _check(batch)
        kinds = frozenset(change.kind for change in batch.changes)
        return kind, len(batch.maps), min(len(batch.changes), 4), kinds


def _message(kind: int, data: bytes) -> bytes:
    if kind == 0:
        return data
    if kind == 1:
        return data + _CRC.pack(zlib.crc32(data))
    return seal(data) if kind == 2 else seal_compressed(data)


def _check(batch: Batch) -> None:
    policies = dict(batch.maps)
    writer = BatchWriter(batch.header)
    for change in batch.changes:
        writer.add(change, policies[change.name])
    again = read_batch(seal(writer.body()), MAX_BODY_BYTES)
    # Names that no change has are not written.
    if again.changes != batch.changes or again.header != batch.header:
        raise FindingError("what was read is not what is read of it again")


def _hello(data: bytes) -> Hashable:
    try:
        hello = read_hello(data)
    except HelloError as error:
        return str(error)
    if read_hello(write_hello(hello)) != hello:
        raise FindingError("a hello changes when it is written")
    return hello.began, hello.ends, len(hello.protocols)


def _welcome(data: bytes) -> Hashable:
    try:
        welcome = read_welcome(data)
    except HelloError as error:
        return str(error)
    if read_welcome(write_welcome(welcome)) != welcome:
        raise FindingError("a welcome changes when it is written")
    return len(welcome.addresses), len(welcome.published_back)
