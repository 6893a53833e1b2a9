"""Target: what another cluster sends: batches, hellos, questions and answers."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from grid_member.wan.comparison import messages
from grid_member.wan.hello import (
    HelloError,
    read_hello,
    read_welcome,
    sealed_welcome,
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
    from collections.abc import Callable, Hashable

    from grid_member.wan.protocol import Batch

MAX_BODY_BYTES: Final = 64 << 10
_CRC: Final = struct.Struct(">I")
_COMPARISON: Final[tuple[tuple[bytes, Callable[[bytes], Any], Callable[[Any], bytes]], ...]] = (
    (
        messages.DIGESTS_QUESTION,
        messages.read_digests_question,
        messages.write_digests_question,
    ),
    (messages.KEYS_QUESTION, messages.read_keys_question, messages.write_keys_question),
    (messages.DIGESTS_ANSWER, messages.read_digests_answer, messages.write_digests_answer),
    (messages.KEYS_ANSWER, messages.read_keys_answer, messages.write_keys_answer),
)
"""Kind, reader and writer."""


class WanTarget:
    """The first byte says what the rest is.

    0: a batch as it came; 1: one whose checksum is set right; 2: a body; 3: a deflated body;
    4: a hello; 5: a welcome; 6 and 7: the body of a question for digests, for keys; 8 and 9: those
    of the answers.
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
        kind, rest = (data[0] % 10 if data else 0), data[1:]
        if kind > 5:
            return _comparison(*_COMPARISON[kind - 6], rest)
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


def _comparison(
    kind: bytes, read: Callable[[bytes], Any], write: Callable[[Any], bytes], data: bytes
) -> Hashable:
    try:
        found = read(seal(data, kind))
    except ProtocolError as error:
        return kind, str(error)
    # Digests have no equality of their own; a code that is not known yet becomes a known one.
    written = write(found)
    if write(read(written)) != written:
        raise FindingError("what was read is not what is read of it again")
    return kind, min(len(written), 256)


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
        welcome = read_welcome(sealed_welcome(data))
    except HelloError as error:
        return str(error)
    if read_welcome(write_welcome(welcome)) != welcome:
        raise FindingError("a welcome changes when it is written")
    return len(welcome.published_back)
