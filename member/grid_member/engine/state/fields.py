"""The fields that records and snapshot parts are made of.

Integers are big-endian, texts and bytes stand behind a 32-bit length. Reading checks everything.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from grid_member.engine.api import ClusterState, EvictionPolicy
from grid_member.engine.state.stored import shared

T = TypeVar("T")
EntryFields: TypeAlias = tuple[str, str, bytes, str | None, int]
"""What maps are made of: name, key, value, content type and a time."""
ENTRY_FIELDS: Final = 5
MakeEntry: TypeAlias = Callable[[str, str, bytes, str | None, int], T]

U8: Final = struct.Struct(">B")
U32: Final = struct.Struct(">I")
U64: Final = struct.Struct(">Q")
_ENTRY: Final = struct.Struct(">IIIIQ")
"""Lengths of name, key, value and content type, then a time; then these four."""
_UTF_8: Final = "utf-8"
_ANY_STR: Final = "surrogatepass"
"""Whatever str a caller passes as a key must come back."""
_CODED_ENTRY: Final = struct.Struct(">BIIIIQ")
"""The same behind its code."""
_NONE: Final = 0xFFFFFFFF
"""The length that stands for an absent text."""
_POLICIES: Final = {
    1: EvictionPolicy.LRU,
    2: EvictionPolicy.LFU,
    3: EvictionPolicy.RANDOM,
}
_POLICY_CODES: Final = {policy: U8.pack(code) for code, policy in _POLICIES.items()}


class CodecError(Exception):
    """The bytes are not what this version writes: damaged, torn, foreign or newer."""


class NewerError(CodecError):
    """The bytes are whole, and what they say has a code that a later version gave a meaning."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not known to this version of grid-member: start the version that wrote it, "
            "or a later one"
        )


class Reader:
    """Reads fields from front to back; every read is checked against the end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def header(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read the fields of a layout."""
        try:
            fields = layout.unpack_from(self._data, self._at)
        except struct.error:
            raise CodecError("the bytes end inside a field") from None
        self._at += layout.size
        return fields

    def u8(self) -> int:
        """Read a byte."""
        at = self._at
        if at >= len(self._data):
            raise CodecError("the bytes end inside a field")
        self._at = at + 1
        return self._data[at]

    def u32(self) -> int:
        """Read 32 bits."""
        return self._number(U32, 4)

    def u64(self) -> int:
        """Read 64 bits."""
        return self._number(U64, 8)

    def _number(self, layout: struct.Struct, size: int) -> int:
        at = self._at
        self._at = at + size
        if self._at > len(self._data):
            raise CodecError("the bytes end inside a field")
        number: int = layout.unpack_from(self._data, at)[0]
        return number

    def raw(self, length: int) -> bytes:
        """Read so many bytes."""
        start, self._at = self._at, self._at + length
        if self._at > len(self._data):
            raise CodecError("the bytes end inside a field")
        return self._data[start : self._at]

    def blob(self) -> bytes:
        """Read bytes behind their length."""
        return self.raw(self.u32())

    def text(self) -> str:
        """Read a text behind its length."""
        return _decoded(self.blob())

    def content_type(self) -> str | None:
        """Read a content type or its absence; the same one is the same object wherever it is."""
        length = self.u32()
        return None if length == _NONE else shared(_decoded(self.raw(length)))

    def cluster_state(self) -> ClusterState:
        """Read a cluster state by its name."""
        try:
            return ClusterState(self.text())
        except ValueError:
            raise NewerError("a cluster state") from None

    def policy(self) -> EvictionPolicy | None:
        """Read an eviction policy or its absence."""
        code = self.u8()
        if code and code not in _POLICIES:
            raise NewerError(f"eviction policy {code}")
        return _POLICIES.get(code)

    def entry(self) -> EntryFields:
        """Read the fields of an entry in one step: it is most of every log."""
        name, key, value, content_type, number = self.header(_ENTRY)
        data = self._data
        name_end = self._at + name
        key_end = name_end + key
        value_end = key_end + value
        start, self._at = self._at, value_end + (0 if content_type == _NONE else content_type)
        if self._at > len(data):
            raise CodecError("the bytes end inside a field")
        kind = None
        if content_type != _NONE:
            kind = shared(_decoded(data[value_end : self._at]))
        texts = _decoded(data[start:name_end]), _decoded(data[name_end:key_end])
        return *texts, data[key_end:value_end], kind, number

    def entries(self, tag: int, most: int, make: MakeEntry[T]) -> list[T]:
        """Read up to `most` entries, each behind the tag, and make something of each.

        The tag of the first was read. One loop with few calls: reading entries one by one is most
        of the time of a start.
        """
        made: list[T] = []
        self._at -= U8.size
        try:
            self._add_entries(tag, most, make, made)
        except UnicodeDecodeError:
            raise CodecError("a text is not UTF-8") from None
        if not made:
            raise CodecError("the bytes end inside a field")
        return made

    def _add_entries(self, tag: int, most: int, make: MakeEntry[T], made: list[T]) -> None:
        data, at, unpack = self._data, self._at, _CODED_ENTRY.unpack_from
        last = len(data) - _CODED_ENTRY.size
        # What was met before is neither decoded nor kept twice.
        texts: dict[bytes, str] = {}
        while most and at <= last and data[at] == tag:
            most -= 1
            _, name, key, value, content_type, number = unpack(data, at)
            at += _CODED_ENTRY.size
            name_end = at + name
            key_end = name_end + key
            value_end = key_end + value
            end = value_end if content_type == _NONE else value_end + content_type
            if end > len(data):
                raise CodecError("the bytes end inside a field")
            known = texts.get(data[at:name_end])
            if known is None:
                known = texts[data[at:name_end]] = data[at:name_end].decode(_UTF_8, _ANY_STR)
            kind = None
            if content_type != _NONE and (kind := texts.get(data[value_end:end])) is None:
                kind = shared(data[value_end:end].decode(_UTF_8, _ANY_STR))
                texts[data[value_end:end]] = kind
            key_text = data[name_end:key_end].decode(_UTF_8, _ANY_STR)
            made.append(make(known, key_text, data[key_end:value_end], kind, number))
            at = end
        self._at = at

    def end(self) -> None:
        """Check that everything was read."""
        if self._at != len(self._data):
            raise CodecError("bytes are left over")


def _decoded(data: bytes) -> str:
    try:
        return data.decode(_UTF_8, _ANY_STR)
    except UnicodeDecodeError:
        raise CodecError("a text is not UTF-8") from None


def put_text(text: str, pieces: list[bytes]) -> None:
    """Append a text behind its length."""
    data = text.encode(_UTF_8, _ANY_STR)
    pieces.append(U32.pack(len(data)))
    pieces.append(data)


def put_blob(data: bytes, pieces: list[bytes]) -> None:
    """Append bytes behind their length."""
    pieces.append(U32.pack(len(data)))
    pieces.append(data)


def put_optional_text(text: str | None, pieces: list[bytes]) -> None:
    """Append a text or its absence."""
    if text is None:
        pieces.append(U32.pack(_NONE))
    else:
        put_text(text, pieces)


def put_policy(policy: EvictionPolicy | None, pieces: list[bytes]) -> None:
    """Append an eviction policy or its absence."""
    pieces.append(b"\x00" if policy is None else _POLICY_CODES[policy])


def put_entry(entry: EntryFields, pieces: list[bytes]) -> None:
    """Append what maps are made of, in one step."""
    name, key, value, content_type, number = entry
    name_bytes = name.encode(_UTF_8, _ANY_STR)
    key_bytes = key.encode(_UTF_8, _ANY_STR)
    if content_type is None:
        lengths = _ENTRY.pack(len(name_bytes), len(key_bytes), len(value), _NONE, number)
        pieces += (lengths, name_bytes, key_bytes, value)
    else:
        type_bytes = content_type.encode(_UTF_8, _ANY_STR)
        type_length = len(type_bytes)
        lengths = _ENTRY.pack(len(name_bytes), len(key_bytes), len(value), type_length, number)
        pieces += (lengths, name_bytes, key_bytes, value, type_bytes)


def put_entries(code: int, entries: Iterable[EntryFields], pieces: list[bytes]) -> None:
    """Append what `put_entry` does for each of many, which mostly share name and type."""
    pack = _CODED_ENTRY.pack
    last_name, name_bytes, name_length = "", b"", 0
    last_type: str | None = None
    type_bytes, type_length = b"", _NONE
    for name, key, value, content_type, number in entries:
        if name is not last_name:
            last_name, name_bytes = name, name.encode(_UTF_8, _ANY_STR)
            name_length = len(name_bytes)
        if content_type is not last_type:
            last_type = content_type
            type_bytes = b"" if content_type is None else content_type.encode(_UTF_8, _ANY_STR)
            type_length = _NONE if content_type is None else len(type_bytes)
        key_bytes = key.encode() if key.isascii() else key.encode(_UTF_8, _ANY_STR)
        lengths = pack(code, name_length, len(key_bytes), len(value), type_length, number)
        pieces += (lengths, name_bytes, key_bytes, value, type_bytes)
