"""The bytes of a batch of changes on the way from one cluster to another.

    GWAN │ version │ flags │ bytes of the body │ body, perhaps deflated │ CRC-32 of all before
    body: source, target │ replication, publisher │ counts │
          maps with policies │ content types │ lists of passed clusters │
          heads │ ends │ keys │ values

Heads have one size, so that one call reads them all; names, content types and lists of passed
clusters stand once and heads point to them. Integers are big-endian.

Reading checks everything: bytes that are not exactly a batch raise `ProtocolError`, and never more
is inflated than the reader allows.

    answer to a message: what it says │ CRC-32 of that, begun with the CRC-32 of the message

So an answer that a line without TLS spoiled, or that belongs to another message, is none.
"""

from __future__ import annotations

import struct
import zlib
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from grid_member.engine.state.operations import made
from grid_member.engine.wan.agreement import MergePolicy, PublisherName
from grid_member.engine.wan.changes import CLUSTER_ID_BYTES, MAX_PASSED, Change, ChangeKind
from grid_member.engine.wan.stamps import STAMP_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")
CONTENT_TYPE: Final = "application/x-grid-wan"
PROTOCOL: Final = 1
MAX_CHANGES: Final = 10_000
"""Of one batch; `batch-size` may not be greater."""
COMPRESSED_FROM_BYTES: Final = 4096
MAX_TEXT_BYTES: Final = (1 << 16) - 1
"""Of a key, a content type or a name, whose lengths have two bytes."""

CHANGES: Final = b"GWAN"
"""Begins a batch; other messages between clusters begin otherwise and have the same frame."""
_DEFLATED: Final = 1
_LEVEL: Final = 1
_RAW: Final = -15
"""DEFLATE without a header of its own, in windows of 32 KiB."""
_SAVED: Final = 5
"""A body travels deflated when that saves one of so many parts."""
_FRAME: Final = struct.Struct(">4sBBI")
_CRC: Final = struct.Struct(">I")
_ABOUT: Final = struct.Struct(">16s16s")
_LENGTH: Final = struct.Struct(">H")
_COUNTS: Final = struct.Struct(">HHHH")
_CHANGE: Final = struct.Struct(">BHHHHIQ")
"""Kind, map, content type and passed clusters (0 is none), bytes of key and value, stamp."""
CHANGE_BYTES: Final = _CHANGE.size
"""Of a change, beside key and value."""
_ENDS: Final = struct.Struct(">QQ")
_HAS_ENDS: Final = 0x80
_PLAIN_PUT: Final = int(ChangeKind.PUT)
_MAX_TIME_MS: Final = 2**63 - 1
_UTF_8: Final = "utf-8"
_ANY_STR: Final = "surrogatepass"
"""The state machine keeps whatever str a key is."""
_POLICIES: Final = {
    1: MergePolicy.LATEST_UPDATE,
    2: MergePolicy.PASS_THROUGH,
    3: MergePolicy.PUT_IF_ABSENT,
}
_POLICY_CODES: Final = {policy: code for code, policy in _POLICIES.items()}
_KINDS: Final = {int(kind): kind for kind in ChangeKind}


class ProtocolError(Exception):
    """The bytes are no message of this protocol; the text never quotes them."""


class BatchHeader(NamedTuple):
    """Where a batch comes from and where it goes."""

    source: bytes
    """The id of the sending cluster."""
    target: bytes
    """The id of the receiving cluster, as its hello said: a name may lead to another one today."""
    publisher: PublisherName
    """As the source calls it."""


class Batch(NamedTuple):
    """What a receiver reads from the bytes."""

    header: BatchHeader
    maps: tuple[tuple[str, MergePolicy], ...]
    """Each once; the answer has a byte for each, in this order."""
    changes: list[Change]


class BatchWriter:
    """Collects changes and returns the body of their batch."""

    def __init__(self, header: BatchHeader) -> None:
        self._header = header
        self._maps: dict[str, int] = {}
        self._policies: list[MergePolicy] = []
        self._types: dict[str | None, int] = {None: 0}
        self._passed: dict[tuple[bytes, ...], int] = {(): 0}
        self._heads: list[bytes] = []
        self._ends: list[bytes] = []
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self.size_bytes = 0
        """Of the body, but for its fixed head and the ends of entries."""

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def maps(self) -> tuple[str, ...]:
        """The names so far, in the order of the answer's bytes."""
        return tuple(self._maps)

    @property
    def first_entry_bytes(self) -> int:
        """Key and value of the first change; 0 without any."""
        return sum(len(column[0]) for column in (self._keys, self._values) if column)

    def add(self, change: Change, policy: MergePolicy) -> None:
        """Append a change; the first of a map says with which policy it is merged."""
        self.extend((change,), policy)

    def extend(self, changes: Sequence[Change], policy: MergePolicy) -> None:
        """Append changes of one map, of which there is one at least.

        It goes by columns, in calls that take all changes at once: a source at its limit spends
        much of its time here.
        """
        columns = zip(*changes, strict=True)
        names, kinds, keys, stamps, values, types, deadlines, idle_times, passed = columns
        place = self._maps.get(names[0])
        if place is None:
            place = self._maps[names[0]] = len(self._maps)
            self._policies.append(policy)
            self.size_bytes += len(text_field(names[0])) + 1
        codes: Iterable[int] = kinds
        if any(deadlines) or any(idle_times):
            codes = self._with_ends(kinds, deadlines, idle_times)
        if all(map(str.isascii, keys)):
            key_bytes = [*map(str.encode, keys)]
        else:
            key_bytes = [key.encode(_UTF_8, _ANY_STR) for key in keys]
        self._heads += map(
            _CHANGE.pack,
            codes,
            repeat(place),
            self._type_places(types),
            self._passed_places(passed),
            map(len, key_bytes),
            map(len, values),
            stamps,
        )
        self._keys += key_bytes
        self._values += values
        size_bytes = sum(map(len, key_bytes)) + sum(map(len, values))
        self.size_bytes += _CHANGE.size * len(changes) + size_bytes

    def _type_places(self, types: Sequence[str | None]) -> Iterable[int]:
        places, new = _places(types, self._types)
        self.size_bytes += sum(len(text_field(each or "")) for each in new)
        return places

    def _passed_places(self, passed: Sequence[tuple[bytes, ...]]) -> Iterable[int]:
        places, new = _places(passed, self._passed)
        self.size_bytes += sum(len(each) * CLUSTER_ID_BYTES + 1 for each in new)
        return places

    def _with_ends(
        self, kinds: Sequence[int], deadlines: Sequence[int], idle_times: Sequence[int]
    ) -> list[int]:
        """Append the ends that there are; return the kinds as they are written."""
        codes: list[int] = []
        for kind, *ends in zip(kinds, deadlines, idle_times, strict=True):
            if any(ends):
                self._ends.append(_ENDS.pack(*ends))
                codes.append(kind | _HAS_ENDS)
            else:
                codes.append(kind)
        return codes

    def body(self) -> bytes:
        """Return the body of all that was added."""
        source, target, publisher = self._header
        pieces = [_ABOUT.pack(source, target)]
        pieces += map(text_field, publisher)
        types = [text for text in self._types if text is not None]
        passed = [ids for ids in self._passed if ids]
        counts = len(self._maps), len(types), len(passed), len(self._heads)
        pieces.append(_COUNTS.pack(*counts))
        for name, policy in zip(self._maps, self._policies, strict=True):
            pieces += (bytes((_POLICY_CODES[policy],)), text_field(name))
        pieces += map(text_field, types)
        for ids in passed:
            pieces += (bytes((len(ids),)), *ids)
        return b"".join([*pieces, *self._heads, *self._ends, *self._keys, *self._values])


def _places(column: Sequence[T], table: dict[T, int]) -> tuple[Iterable[int], list[T]]:
    """Return the place of each of these in a table, and those that were appended to it."""
    different = dict.fromkeys(column)
    new = [each for each in different if each not in table]
    for each in new:
        table[each] = len(table)
    if len(different) == 1:
        return repeat(table[column[0]]), new
    return map(table.__getitem__, column), new


def text_field(text: str) -> bytes:
    """Return a text as it stands in a body."""
    data = text.encode(_UTF_8, _ANY_STR)
    return _LENGTH.pack(len(data)) + data


def seal(body: bytes, kind: bytes = CHANGES) -> bytes:
    """Return the message that travels, as it is."""
    return _sealed(kind, 0, len(body), body)


def seal_compressed(body: bytes, kind: bytes = CHANGES) -> bytes:
    """Return the message that travels, deflated if that saves a fifth; takes a moment."""
    if len(body) < COMPRESSED_FROM_BYTES:
        return seal(body, kind)
    deflating = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
    packed = deflating.compress(body) + deflating.flush()
    if len(packed) > len(body) - len(body) // _SAVED:
        return seal(body, kind)
    return _sealed(kind, _DEFLATED, len(body), packed)


def _sealed(kind: bytes, flags: int, size: int, content: bytes) -> bytes:
    data = _FRAME.pack(kind, PROTOCOL, flags, size) + content
    return data + _CRC.pack(zlib.crc32(data))


def read_batch(data: bytes, max_bytes: int) -> Batch:
    """Return the batch that the bytes are.

    Args:
        data: all of a request's body.
        max_bytes: of the body inside, inflated.

    Raises:
        ProtocolError: they are none, or one that is larger than that.
    """
    return _Batch(opened(data, max_bytes, CHANGES)).batch()


def opened(data: bytes, max_bytes: int, kind: bytes) -> bytes:
    """Return the body of a message that came whole.

    Raises:
        ProtocolError: the bytes are no such message, or one with a body of more bytes than that.
    """
    if len(data) < _FRAME.size + _CRC.size:
        raise ProtocolError("the bytes end inside the frame")
    found, version, flags, size = _FRAME.unpack_from(data)
    if found != kind:
        raise ProtocolError("these bytes are not the message that belongs here")
    if version != PROTOCOL or flags & ~_DEFLATED:
        raise ProtocolError("the version of the message is not known")
    end = len(data) - _CRC.size
    if _CRC.unpack_from(data, end)[0] != zlib.crc32(memoryview(data)[:end]):
        raise ProtocolError("the checksum is wrong")
    if size > max_bytes:
        raise ProtocolError("the message is too large")
    content = memoryview(data)[_FRAME.size : end]
    body = _inflated(content, size) if flags & _DEFLATED else bytes(content)
    if len(body) != size:
        raise ProtocolError("the body has another size than its head says")
    return body


def with_checksum(answer: bytes, message: bytes) -> bytes:
    """Return what travels of an answer to a message that was opened."""
    return answer + _CRC.pack(_answer_checksum(answer, message))


def checked_answer(data: bytes, message: bytes) -> bytes:
    """Return the answer to a message.

    Raises:
        ProtocolError: the bytes are none to this message, or are not what was sent.
    """
    answer = data[: -_CRC.size]
    if len(data) < _CRC.size or data != with_checksum(answer, message):
        raise ProtocolError("the checksum of the answer is wrong")
    return answer


def _answer_checksum(answer: bytes, message: bytes) -> int:
    (begin,) = _CRC.unpack(message[-_CRC.size :])
    return zlib.crc32(answer, begin)


def _inflated(content: memoryview, size: int) -> bytes:
    inflating = zlib.decompressobj(_RAW)
    try:
        # One byte more, or a body of just that size would not be known to be at its end.
        body = inflating.decompress(content, size + 1)
    except zlib.error:
        raise ProtocolError("the body cannot be inflated") from None
    if not inflating.eof or inflating.unused_data:
        raise ProtocolError("the body has another size than its head says")
    return body


class BodyReader:
    """Reads a body from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the fields of a layout."""
        return layout.unpack(self.raw(layout.size))

    def raw(self, length: int) -> bytes:
        """Return so many bytes."""
        start, self._at = self._at, self._at + length
        check(self._at <= len(self._data), "the bytes end inside a field")
        return self._data[start : self._at]

    def text(self) -> str:
        """Return a text."""
        (length,) = self.fields(_LENGTH)
        return text_of(self.raw(length))

    def columns(self, lengths: Iterable[int]) -> list[bytes]:
        """Return pieces of these lengths."""
        data, at = self._data, self._at
        found: list[bytes] = []
        for length in lengths:
            found.append(data[at : at + length])
            at += length
        self._at = at
        check(at <= len(data), "the bytes end inside a field")
        return found

    def end(self) -> None:
        """Look that nothing is left."""
        check(self._at == len(self._data), "bytes are left over")


def text_of(data: bytes) -> str:
    """Return the text that bytes are; keys may have characters that UTF-8 has not."""
    try:
        return data.decode(_UTF_8, _ANY_STR)
    except UnicodeDecodeError:
        raise ProtocolError("a text is not UTF-8") from None


class _Batch(BodyReader):
    """Reads the body of a batch."""

    def batch(self) -> Batch:
        source, target = self.fields(_ABOUT)
        publisher = PublisherName(self.text(), self.text())
        maps, types, passed, count = self.fields(_COUNTS)
        check(count <= MAX_CHANGES, "the batch has too many changes")
        # A table has no more than what uses it: small bytes do not make large objects.
        check(max(maps, types, passed) <= count, "a table is longer than the batch")
        named = tuple(self._named() for _ in range(maps))
        names = [name for name, _ in named]
        check(len(set(names)) == len(names), "a map is named twice")
        shown: list[str | None] = [None, *(self.text() for _ in range(types))]
        lists: list[tuple[bytes, ...]] = [(), *(self._ids() for _ in range(passed))]
        changes = self._changes(count, names, shown, lists)
        header = BatchHeader(source, target, publisher)
        return Batch(header, named, changes)

    def _changes(
        self, count: int, names: list[str], types: list[str | None], lists: list[tuple[bytes, ...]]
    ) -> list[Change]:
        heads = list(_CHANGE.iter_unpack(self.raw(count * _CHANGE.size)))
        with_ends = sum(head[0] >= _HAS_ENDS for head in heads)
        ends = _ENDS.iter_unpack(self.raw(with_ends * _ENDS.size))
        keys = self.columns(head[4] for head in heads)
        values = self.columns(head[5] for head in heads)
        self.end()
        stamps = [head[6] for head in heads]
        in_range = not stamps or (min(stamps) > 0 and max(stamps).bit_length() <= STAMP_BITS)
        check(in_range, "a stamp is out of range")
        changes: list[Change] = []
        try:
            for head, key, value in zip(heads, keys, values, strict=True):
                code, name, kind, passed, _, _, stamp = head
                deadline_ms, idle_ms = next(ends) if code >= _HAS_ENDS else (0, 0)
                found = _KINDS[code & ~_HAS_ENDS]
                text = key.decode(_UTF_8, _ANY_STR)
                fields = names[name], found, text, stamp, value, types[kind]
                change = made(Change, (*fields, deadline_ms, idle_ms, lists[passed]))
                if code != _PLAIN_PUT:
                    _check_unusual(change, code)
                changes.append(change)
        except (LookupError, UnicodeDecodeError):
            raise ProtocolError("a change has a field that means nothing") from None
        return changes

    def _named(self) -> tuple[str, MergePolicy]:
        policy = _POLICIES.get(self.raw(1)[0])
        if policy is None:
            raise ProtocolError("the policy of a map is not known")
        name = self.text()
        check(bool(name), "a map has no name")
        return name, policy

    def _ids(self) -> tuple[bytes, ...]:
        count = self.raw(1)[0]
        check(0 < count <= MAX_PASSED, "a list of passed clusters has a wrong length")
        return tuple(self.raw(CLUSTER_ID_BYTES) for _ in range(count))


def _check_unusual(change: Change, code: int) -> None:
    """Refuse what no source writes of a change that is more, or less, than a plain put."""
    _, kind, key, _, value, content_type, deadline_ms, idle_ms, _ = change
    ended = code >= _HAS_ENDS
    check(max(deadline_ms, idle_ms) <= _MAX_TIME_MS, "a time is out of range")
    check(ended == bool(deadline_ms or idle_ms), "an end is written that is none")
    if kind is not ChangeKind.PUT:
        check(not value and content_type is None and not ended, "a removal has a value")
    check(kind is not ChangeKind.CLEAR or not key, "a clear has a key")


def check(holds: bool, otherwise: str) -> None:
    """Raise a `ProtocolError` unless it holds."""
    if not holds:
        raise ProtocolError(otherwise)
