"""How a named tuple stands in bytes: a tag, then its fields one after the other.

A `Field` is a kind of field: how one is written, and how it is read. An operation or a snapshot
part names its tag and the kinds of its fields; `writer` and `reader_of` make of that what writes
and reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from grid_member.engine.api import Eviction
from grid_member.engine.state.fields import (
    ENTRY_FIELDS,
    U32,
    U64,
    Reader,
    put_blob,
    put_entry,
    put_optional_text,
    put_policy,
    put_text,
)
from grid_member.engine.state.operations import Access, made
from grid_member.engine.state.snapshot import MemberMark

if TYPE_CHECKING:
    from grid_member.engine.api import ClusterState

T = TypeVar("T")
Write: TypeAlias = Callable[[Any, list[bytes]], None]
"""Appends a field, or all fields of a named tuple, to the pieces of a record or snapshot."""
Read: TypeAlias = Callable[[Reader], Any]
"""Reads a field, or a named tuple whose tag was read."""

_ACCESS: Final = struct.Struct(">QI")
_BOUNDS: Final = struct.Struct(">QQ")
_MARK: Final = struct.Struct(">QQQ")


class Field(Generic[T]):
    """A kind of field."""

    __slots__ = ("read", "write")

    def __init__(
        self, write: Callable[[T, list[bytes]], None], read: Callable[[Reader], T]
    ) -> None:
        self.write = write
        self.read = read


def writer(fields: tuple[Field[Any], ...]) -> Write:
    """Return what writes named tuples that have such fields; `ENTRY` may only be the first."""
    if fields and fields[0] is ENTRY:
        return _entry_writer(fields[1:])
    writes: list[Write] = [*(field.write for field in fields[:4]), *[_put_nothing] * 4]
    first, second, third, fourth = writes[:4]

    def write_one(values: tuple[Any, ...], pieces: list[bytes]) -> None:
        first(values[0], pieces)

    def write_two(values: tuple[Any, ...], pieces: list[bytes]) -> None:
        first(values[0], pieces)
        second(values[1], pieces)

    def write_three(values: tuple[Any, ...], pieces: list[bytes]) -> None:
        first(values[0], pieces)
        second(values[1], pieces)
        third(values[2], pieces)

    def write_four(values: tuple[Any, ...], pieces: list[bytes]) -> None:
        first(values[0], pieces)
        second(values[1], pieces)
        third(values[2], pieces)
        fourth(values[3], pieces)

    def write_more(values: tuple[Any, ...], pieces: list[bytes]) -> None:
        write_four(values, pieces)
        write_others(values[4:], pieces)

    # A loop over the fields takes half as long again.
    few: list[Write] = [_put_nothing, write_one, write_two, write_three, write_four]
    if len(fields) < len(few):
        return few[len(fields)]
    write_others = writer(fields[4:])
    return write_more


def _entry_writer(others: tuple[Field[Any], ...]) -> Write:
    def write(values: tuple[Any, ...], pieces: list[bytes]) -> None:
        put_entry(values[:ENTRY_FIELDS], pieces)
        write_others(values[ENTRY_FIELDS:], pieces)

    write_others = writer(others)
    return write if others else put_entry


def reader_of(make: type[Any], fields: tuple[Field[Any], ...]) -> Read:
    """Return what reads named tuples of the class that have such fields."""
    entry = bool(fields) and fields[0] is ENTRY
    reads = [field.read for field in (fields[1:] if entry else fields)]

    def read_fields(reader: Reader) -> Any:  # as the class says
        return made(make, [read(reader) for read in reads])

    def read_entry(reader: Reader) -> Any:
        return made(make, (*reader.entry(), *[read(reader) for read in reads]))

    return read_entry if entry else read_fields


def _put_nothing(value: object, pieces: list[bytes]) -> None:
    """Write a field, or fields, that take no bytes."""


def _put_number(number: int, pieces: list[bytes]) -> None:
    pieces.append(U64.pack(number))


def _put_cluster_state(state: ClusterState, pieces: list[bytes]) -> None:
    put_text(state.value, pieces)


def _put_eviction(eviction: Eviction | None, pieces: list[bytes]) -> None:
    put_policy(None if eviction is None else eviction.policy, pieces)
    if eviction is not None:
        pieces.append(_BOUNDS.pack(eviction.max_entries, eviction.max_bytes))


def _read_eviction(reader: Reader) -> Eviction | None:
    policy = reader.policy()
    return None if policy is None else Eviction(policy, reader.u64(), reader.u64())


def _put_accesses(accesses: tuple[Access, ...], pieces: list[bytes]) -> None:
    pieces.append(U32.pack(len(accesses)))
    for key, accessed_ms, hits in accesses:
        put_text(key, pieces)
        pieces.append(_ACCESS.pack(accessed_ms, hits))


def _read_accesses(reader: Reader) -> tuple[Access, ...]:
    count = reader.u32()
    return tuple([Access(reader.text(), reader.u64(), reader.u32()) for _ in range(count)])


def _put_mark(mark: MemberMark, pieces: list[bytes]) -> None:
    pieces.append(_MARK.pack(*mark))


def _read_mark(reader: Reader) -> MemberMark:
    return MemberMark(reader.u64(), reader.u64(), reader.u64())


def _put_taker(taker: bytes | None, pieces: list[bytes]) -> None:
    put_blob(taker or b"", pieces)


def _read_taker(reader: Reader) -> bytes | None:
    return reader.blob() or None


def _read_zero(reader: Reader) -> int:
    return 0


TEXT: Final = Field(put_text, Reader.text)
BLOB: Final = Field(put_blob, Reader.blob)
NUMBER: Final = Field(_put_number, Reader.u64)
"""64 bits: milliseconds, a count, an identifier."""
ZERO: Final = Field(_put_nothing, _read_zero)
"""A number that is not in the bytes and is 0: what was not written of old."""
CONTENT_TYPE: Final = Field(put_optional_text, Reader.content_type)
CLUSTER_STATE: Final = Field(_put_cluster_state, Reader.cluster_state)
POLICY: Final = Field(put_policy, Reader.policy)
EVICTION: Final = Field(_put_eviction, _read_eviction)
ACCESSES: Final = Field(_put_accesses, _read_accesses)
MARK: Final = Field(_put_mark, _read_mark)
TAKER: Final = Field(_put_taker, _read_taker)
"""A member's UUID or its absence."""
ENTRY: Final = Field(put_entry, Reader.entry)
"""Five fields in one step: name, key, value, content type and a time, as of maps."""
