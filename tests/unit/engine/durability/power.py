"""Works out from a trace of `powershim.c` what a power loss at any point would leave on disk.

What was synced is there. Of the rest, any part may be: each write that was not synced is there,
is not there, or is torn at sector boundaries; of the names that were made, moved or removed and
whose directory was not synced, any first part may be there, as a journalling file system does it.
"""

from __future__ import annotations

import contextlib
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

SECTOR_BYTES = 512
_HEADER = struct.Struct("<BBQQIIQ")


class Event(NamedTuple):
    kind: str
    synchronous: bool
    inode: int
    offset: int
    path: str
    path2: str
    data: bytes


def read_trace(trace: bytes) -> Iterator[Event]:
    """Yield the events of a trace whose end may be cut."""
    at = 0
    while at + _HEADER.size <= len(trace):
        kind, sync, inode, offset, path, path2, data = _HEADER.unpack_from(trace, at)
        at += _HEADER.size
        pieces = []
        for length in (path, path2, data):
            pieces.append(trace[at : at + length])
            at += length
        if at > len(trace):
            return
        yield Event(
            chr(kind), bool(sync), inode, offset, pieces[0].decode(), pieces[1].decode(), pieces[2]
        )


@dataclass
class Content:
    """A file's bytes on disk, and the changes that only the page cache has."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, data) of a write, (length, None) of a truncation."""

    def change(self, offset: int, data: bytes | None) -> None:
        _change(self.durable, offset, data)

    def sync(self) -> None:
        for offset, data in self.pending:
            self.change(offset, data)
        self.pending.clear()

    def after_power_loss(self, chance: random.Random, kept: float) -> bytes:
        left = bytearray(self.durable)
        for offset, data in self.pending:
            if data is None:
                if chance.random() < kept:
                    _change(left, offset, None)
                continue
            whole = chance.random()
            for start in range(0, len(data), SECTOR_BYTES):
                # A third is torn sector by sector, the others are there or not as a whole.
                roll = chance.random() if whole < 1 / 3 else (whole - 1 / 3) * 1.5
                if roll < kept:
                    _change(left, offset + start, data[start : start + SECTOR_BYTES])
        return bytes(left)


def _change(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


Names = dict[str, int | None]
"""Path to inode; None is a directory."""


@dataclass
class Disk:
    """A file tree of which a power loss forgets what was not synced."""

    root: str
    contents: dict[int, Content] = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    """What is there for sure."""
    pending: list[tuple[str, str, str, int]] = field(default_factory=list)
    """Changes of names that are not synced: kind, path, second path, inode."""
    journal: bytearray = field(default_factory=bytearray)

    def apply(self, event: Event) -> None:
        if event.path.endswith("/journal"):
            self.journal += event.data
            return
        match event.kind:
            case "W":
                self._write(event)
            case "T":
                self.contents[event.inode].pending.append((event.offset, None))
            case "S":
                self._sync(event)
            case _:
                if event.kind == "O":
                    self.contents[event.inode] = Content()
                self.pending.append((event.kind, event.path, event.path2, event.inode))

    def _write(self, event: Event) -> None:
        content = self.contents[event.inode]
        if event.synchronous:
            content.change(event.offset, event.data)
            # An older write to the same place can not come after this one any more.
            end = event.offset + len(event.data)
            content.pending = [
                (offset, data)
                for offset, data in content.pending
                if data is None or offset < event.offset or offset + len(data) > end
            ]
        else:
            content.pending.append((event.offset, event.data))

    def _sync(self, event: Event) -> None:
        if event.inode in self.contents:
            self.contents[event.inode].sync()
            return
        directory = event.path
        last = max(
            (
                number
                for number, (_, path, path2, _) in enumerate(self.pending)
                if directory in {_parent(path), _parent(path2)}
            ),
            default=-1,
        )
        # The journal of a file system is written from front to back.
        for change in self.pending[: last + 1]:
            _rename(self.names, change)
        del self.pending[: last + 1]

    @contextlib.contextmanager
    def under_way(self, event: Event) -> Iterator[None]:
        """Let the write of an event be there as a whole, in part, or not at all."""
        if event.kind != "W" or event.path.endswith("/journal"):
            yield
            return
        content = self.contents[event.inode]
        content.pending.append((event.offset, event.data))
        yield
        content.pending.pop()

    def cached_names(self) -> Names:
        """Return what is there as long as there is power."""
        names = dict(self.names)
        for change in self.pending:
            _rename(names, change)
        return names

    def lose_power(self, target: Path, chance: random.Random, kept: float) -> None:
        """Write what is left to target; kept is how much of what was not synced survives."""
        names = dict(self.names)
        for change in self.pending[: round(len(self.pending) * kept * chance.random())]:
            _rename(names, change)
        for path in sorted(names):
            place = target / path.removeprefix(self.root).lstrip("/")
            inode = names[path]
            place.parent.mkdir(parents=True, exist_ok=True)
            if inode is None:
                place.mkdir(exist_ok=True)
            else:
                place.write_bytes(self.contents[inode].after_power_loss(chance, kept))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _rename(names: Names, change: tuple[str, str, str, int]) -> None:
    kind, path, path2, inode = change
    match kind:
        case "O":
            names[path] = inode
        case "M":
            names[path] = None
        case "U":
            names.pop(path, None)
        case _:
            for name in [n for n in names if n == path or n.startswith(path + "/")]:
                names[path2 + name.removeprefix(path)] = names.pop(name)
