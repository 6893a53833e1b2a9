"""The bytes of questions and answers about a map that two clusters compare.

    digests?  GWDQ: head                        ─▶  GWDA: answer │ cleared │ removed │ counts │ sums
    keys?     GWKQ: head │ after │ buckets      ─▶  GWKA: answer │ more │ rows │ keys

    head: source, target, job, bits │ replication, publisher, map │ patterns of the key filter

They have the frame of a batch (see `protocol`). Keys come in the order of their buckets, those of a
bucket in the order of their code points: `after` names the last key of the page before.
"""

from __future__ import annotations

import itertools
import struct
from typing import Final, NamedTuple

from grid_member.engine.wan.agreement import PublisherName
from grid_member.engine.wan.digests import MAX_BITS, RANK_BYTES, Digests, Row, key_bytes_of
from grid_member.engine.wan.stamps import STAMP_BITS
from grid_member.wan.answers import MapAnswer
from grid_member.wan.protocol import (
    BodyReader,
    check,
    opened,
    seal,
    text_field,
    text_of,
)

MAX_QUESTION_BYTES: Final = 1 << 20
MAX_ANSWER_BYTES: Final = 4 << 20
PAGE_BYTES: Final = 1 << 20
"""Of rows and keys, after which a page takes no further one."""
MAX_PATTERNS: Final = 1024
DIGESTS_QUESTION: Final = b"GWDQ"
DIGESTS_ANSWER: Final = b"GWDA"
KEYS_QUESTION: Final = b"GWKQ"
KEYS_ANSWER: Final = b"GWKA"
_ABOUT: Final = struct.Struct(">16s16s16sB")
_PATTERNS: Final = struct.Struct(">HH")
_AFTER: Final = struct.Struct(">B")
_COUNT: Final = struct.Struct(">I")
_DIGESTS: Final = struct.Struct(">BQIB")
"""Answer, stamp of the last clear, number of tombstones, bits."""
_KEYS: Final = struct.Struct(">BBI")
"""Answer, whether there are more, rows."""
_ROW: Final = struct.Struct(f">BHQQ{RANK_BYTES}s")
"""Whether it is a removal, bytes of the key, stamp, digest, rank."""


class MapQuestion(NamedTuple):
    """Which map is asked about, and by whom."""

    source: bytes
    """The id of the asking cluster."""
    target: bytes
    """The id of the answering cluster, as its hello said."""
    publisher: PublisherName
    job: bytes
    """The UUID of the job, 16 bytes; digests are keyed with it."""
    map_name: str
    include: tuple[str, ...]
    """Patterns of the keys that the source replicates; empty includes every key."""
    exclude: tuple[str, ...]
    bits: int
    """Of the number of a bucket."""


class KeysQuestion(NamedTuple):
    """Asks for what some buckets hold."""

    about: MapQuestion
    buckets: tuple[int, ...]
    """In ascending order."""
    after: str | None
    """The last key of the page before; None for the first page."""


class DigestsAnswer(NamedTuple):
    """What the target has of a map."""

    code: MapAnswer
    """Why it tells nothing, unless it is TAKEN."""
    cleared: int
    """The stamp of its last clear."""
    digests: Digests


class KeysAnswer(NamedTuple):
    """A page of what the target has in some buckets."""

    code: MapAnswer
    more: bool
    rows: list[Row]


def write_digests_question(question: MapQuestion) -> bytes:
    """Return the message that asks for digests."""
    return seal(_head(question), DIGESTS_QUESTION)


def read_digests_question(data: bytes) -> MapQuestion:
    """Return the question that the bytes are.

    Raises:
        ProtocolError: they are none.
    """
    reader = _Reader(opened(data, MAX_QUESTION_BYTES, DIGESTS_QUESTION))
    question = reader.question()
    reader.end()
    return question


def write_keys_question(question: KeysQuestion) -> bytes:
    """Return the message that asks for keys."""
    about, buckets, after = question
    pieces = [_head(about), _AFTER.pack(after is not None)]
    if after is not None:
        pieces.append(text_field(after))
    pieces.append(_COUNT.pack(len(buckets)))
    pieces.append(struct.pack(f">{len(buckets)}H", *buckets))
    return seal(b"".join(pieces), KEYS_QUESTION)


def read_keys_question(data: bytes) -> KeysQuestion:
    """Return the question that the bytes are.

    Raises:
        ProtocolError: they are none.
    """
    reader = _Reader(opened(data, MAX_QUESTION_BYTES, KEYS_QUESTION))
    about = reader.question()
    (with_after,) = reader.fields(_AFTER)
    check(with_after <= 1, "a field has a value that means nothing")
    after = reader.text() if with_after else None
    (count,) = reader.fields(_COUNT)
    check(0 < count <= 1 << about.bits, "there are not so many buckets")
    buckets = reader.numbers("H", count)
    reader.end()
    ascending = all(a < b for a, b in itertools.pairwise(buckets))
    check(ascending and buckets[-1] < 1 << about.bits, "the buckets are not in order")
    return KeysQuestion(about, buckets, after)


def write_digests_answer(answer: DigestsAnswer) -> bytes:
    """Return the message that answers with digests."""
    code, cleared, digests = answer
    size = len(digests.counts)
    counts = struct.pack(f">{size}I", *digests.counts)
    sums = struct.pack(f">{size}Q", *digests.sums)
    head = _DIGESTS.pack(code, cleared, digests.removed, digests.bits)
    return seal(head + counts + sums, DIGESTS_ANSWER)


def read_digests_answer(data: bytes) -> DigestsAnswer:
    """Return the answer that the bytes are.

    Raises:
        ProtocolError: they are none.
    """
    reader = _Reader(opened(data, MAX_ANSWER_BYTES, DIGESTS_ANSWER))
    code, cleared, removed, bits = reader.fields(_DIGESTS)
    check(bits <= MAX_BITS, "a bucket has too many bits")
    check(cleared.bit_length() <= STAMP_BITS, "a stamp is out of range")
    digests = Digests(bits)
    digests.removed = removed
    digests.counts[:] = type(digests.counts)("L", reader.numbers("I", 1 << bits))
    digests.sums[:] = type(digests.sums)("Q", reader.numbers("Q", 1 << bits))
    reader.end()
    return DigestsAnswer(_answer_code(code), cleared, digests)


def write_keys_answer(answer: KeysAnswer) -> bytes:
    """Return the message that answers with a page of keys."""
    heads, keys = [_KEYS.pack(answer.code, answer.more, len(answer.rows))], []
    for key, stamp, digest, removed, rank in answer.rows:
        key_bytes = key_bytes_of(key)
        heads.append(_ROW.pack(removed, len(key_bytes), stamp, digest, rank))
        keys.append(key_bytes)
    return seal(b"".join([*heads, *keys]), KEYS_ANSWER)


def row_bytes(key_bytes: bytes) -> int:
    """Return what a row takes in an answer."""
    return _ROW.size + len(key_bytes)


def read_keys_answer(data: bytes) -> KeysAnswer:
    """Return the answer that the bytes are.

    Raises:
        ProtocolError: they are none.
    """
    reader = _Reader(opened(data, MAX_ANSWER_BYTES, KEYS_ANSWER))
    code, more, count = reader.fields(_KEYS)
    check(more <= 1, "a field has a value that means nothing")
    heads = list(_ROW.iter_unpack(reader.raw(count * _ROW.size)))
    keys = reader.columns(head[1] for head in heads)
    reader.end()
    rows = [
        Row(text_of(key), stamp, digest, bool(removed), rank)
        for (removed, _, stamp, digest, rank), key in zip(heads, keys, strict=True)
    ]
    check(all(head[0] <= 1 for head in heads), "a field has a value that means nothing")
    check(all(0 < row.stamp.bit_length() <= STAMP_BITS for row in rows), "a stamp is out of range")
    check(not more or bool(rows), "a page without rows says that there are more")
    return KeysAnswer(_answer_code(code), bool(more), rows)


def _head(question: MapQuestion) -> bytes:
    source, target, publisher, job, name, include, exclude, bits = question
    pieces = [_ABOUT.pack(source, target, job, bits)]
    pieces += map(text_field, (*publisher, name))
    pieces.append(_PATTERNS.pack(len(include), len(exclude)))
    pieces += map(text_field, (*include, *exclude))
    return b"".join(pieces)


def _answer_code(code: int) -> MapAnswer:
    try:
        return MapAnswer(code)
    except ValueError:
        # A later version may have more reasons; that nothing is told is what matters.
        return MapAnswer.NOT_CONFIGURED


class _Reader(BodyReader):
    """Reads questions and numbers."""

    def question(self) -> MapQuestion:
        source, target, job, bits = self.fields(_ABOUT)
        check(bits <= MAX_BITS, "a bucket has too many bits")
        publisher, name = PublisherName(self.text(), self.text()), self.text()
        check(bool(name), "a map has no name")
        includes, excludes = self.fields(_PATTERNS)
        check(includes + excludes <= MAX_PATTERNS, "there are too many patterns")
        include = tuple(self.text() for _ in range(includes))
        exclude = tuple(self.text() for _ in range(excludes))
        return MapQuestion(source, target, publisher, job, name, include, exclude, bits)

    def numbers(self, kind: str, count: int) -> tuple[int, ...]:
        return self.fields(struct.Struct(f">{count}{kind}"))
