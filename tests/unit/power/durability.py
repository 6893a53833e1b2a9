"""Files as a machine has them, and what of them is left when its power fails.

It goes by ext4 with its journal in order, and takes away every kindness that ext4 has beyond it:

    what names and lengths do   one log; a sync of any file or directory commits all of it so far
    what is written             is in pages that are dirty until the file is synced

At a power loss what is not committed never happened, and dirty pages hold what was synced last. A
file that was made, committed and never synced is there and empty. With a chance given, any first
part of the log may be committed and any dirty page written, as kernels do by themselves; some of
these pages are torn: only some of their sectors are written.
"""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512
TORN: Final = 0.1
"""The share of pages that are torn, of those that are written by chance."""
ROOT: Final = 1


@dataclass(eq=False, slots=True)
class Node:
    """A file, or a directory."""

    number: int
    is_directory: bool
    mode: int
    owner: tuple[int, int]
    changed_ns: int
    named: bool = True
    lookups: int = 0
    """How often the kernel was told of it and has not forgotten it."""
    content: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)
    """Pages of the content that are not synced."""
    entries: dict[bytes, Node] = field(default_factory=dict)
    committed: dict[bytes, Node] = field(default_factory=dict)


class Change(NamedTuple):
    """Names given and taken, or a length set: all of it or nothing."""

    names: tuple[tuple[Node, bytes, Node | None], ...] = ()
    resized: tuple[Node, int] | None = None

    def commit(self) -> None:
        """Have it on disk."""
        for directory, name, node in self.names:
            if node is None:
                del directory.committed[name]
            else:
                directory.committed[name] = node
        if self.resized is not None:
            _resize(self.resized[0].synced, self.resized[1])


class Lost(NamedTuple):
    """What a power loss took."""

    changes: int
    """Of names and lengths."""
    pages: int
    syncs: int
    """How many there were before it."""


class Disk:
    """One file system; numbers of nodes are the kernel's."""

    def __init__(self, owner: tuple[int, int]) -> None:
        self.nodes: dict[int, Node] = {}
        self.syncs = 0
        self._made = 0
        self._log: list[Change] = []
        self.root = self._new(True, 0o755, owner)

    def made(
        self, parent: Node, name: bytes, mode: int, owner: tuple[int, int], *, directory: bool
    ) -> Node:
        """Make a file or a directory."""
        if name in parent.entries:
            raise OSError(errno.EEXIST, "exists")
        node = self._new(directory, mode, owner)
        parent.entries[name] = node
        self._log.append(Change(((parent, name, node),)))
        return node

    def remove(self, parent: Node, name: bytes, *, directory: bool) -> None:
        """Take a file or an empty directory away."""
        node = self.found(parent, name)
        if node.is_directory != directory:
            raise OSError(errno.ENOTDIR if directory else errno.EISDIR, "of the other kind")
        if node.entries:
            raise OSError(errno.ENOTEMPTY, "not empty")
        del parent.entries[name]
        self._log.append(Change(((parent, name, None),)))
        self._unnamed(node)

    def rename(self, source: tuple[Node, bytes], target: tuple[Node, bytes]) -> None:
        """Give a node another name; a file that had it is gone."""
        node = self.found(*source)
        former = target[0].entries.get(target[1])
        if former is node:
            return
        if former is not None and former.entries:
            raise OSError(errno.ENOTEMPTY, "not empty")
        del source[0].entries[source[1]]
        target[0].entries[target[1]] = node
        self._log.append(Change(((*source, None), (*target, node))))
        if former is not None:
            self._unnamed(former)

    def resize(self, node: Node, length: int) -> None:
        """Cut a file off, or let it grow with zeros."""
        if length < len(node.content):
            kept = -(-length // PAGE_BYTES)
            node.dirty = {page for page in node.dirty if page < kept}
        _resize(node.content, length)
        node.changed_ns = time.time_ns()
        self._log.append(Change(resized=(node, length)))

    def write(self, node: Node, offset: int, data: memoryview, *, synced: bool) -> None:
        """Write into a file; `synced` as for one that was opened with O_SYNC."""
        end = offset + len(data)
        if len(node.content) < offset:
            _resize(node.content, offset)
        node.content[offset:end] = data
        node.dirty.update(range(offset // PAGE_BYTES, -(-end // PAGE_BYTES)))
        node.changed_ns = time.time_ns()
        if synced:
            self.sync(node)

    def sync(self, node: Node) -> None:
        """Have a file's data on disk, and all changes of names and lengths so far."""
        self.syncs += 1
        self._commit(self._log)
        self._log = []
        if not node.is_directory:
            _write_back(node, node.dirty)
            _resize(node.synced, len(node.content))
            node.dirty = set()

    def found(self, parent: Node, name: bytes) -> Node:
        """Return what has a name."""
        if name not in parent.entries:
            raise OSError(errno.ENOENT, "nothing has this name")
        return parent.entries[name]

    def forget(self, number: int, lookups: int) -> None:
        """Hear that the kernel knows less of a node."""
        node = self.nodes.get(number)
        if node is not None:
            node.lookups -= lookups
            self._drop_unknown(node)

    def lose_power(self, chance: random.Random | None = None) -> tuple[Disk, Lost]:
        """Return what is on disk; this one is of no use any more."""
        dirty = [node for node in self.nodes.values() if node.dirty]
        pages, changes = sum(len(node.dirty) for node in dirty), len(self._log)
        if chance is not None:
            kept = chance.randint(0, len(self._log))
            self._commit(self._log[:kept])
            # A page is written where its file's length is known.
            undone = {one.resized[0] for one in self._log[kept:] if one.resized is not None}
            share = chance.choice((0.2, 0.5, 0.9))
            for node in dirty:
                if node not in undone:
                    written = [page for page in sorted(node.dirty) if chance.random() < share]
                    torn = [page for page in written if chance.random() < TORN]
                    _write_back(node, [page for page in written if page not in torn])
                    for page in torn:
                        _tear(node, page, chance)
        left = Disk(self.root.owner)
        left.root.mode = self.root.mode
        left._restore(self.root, left.root)
        return left, Lost(changes, pages, self.syncs)

    def _restore(self, former: Node, directory: Node) -> None:
        """Have in a directory what is left of what it was."""
        for name, old in former.committed.items():
            node = self._new(old.is_directory, old.mode, old.owner)
            node.changed_ns = old.changed_ns
            node.content, node.synced = old.synced, bytearray(old.synced)
            directory.entries[name] = directory.committed[name] = node
            self._restore(old, node)

    def _new(self, directory: bool, mode: int, owner: tuple[int, int]) -> Node:
        self._made += 1
        node = Node(self._made, directory, mode, owner, time.time_ns())
        self.nodes[node.number] = node
        return node

    def _unnamed(self, node: Node) -> None:
        node.named = False
        self._drop_unknown(node)

    def _drop_unknown(self, node: Node) -> None:
        if node.lookups <= 0 and not node.named:
            self.nodes.pop(node.number, None)

    @staticmethod
    def _commit(log: list[Change]) -> None:
        for change in log:
            change.commit()


def _write_back(node: Node, pages: Iterable[int]) -> None:
    """Have pages of the content on disk, with what the file's length has to be for that."""
    for page in pages:
        _write(node, page * PAGE_BYTES, PAGE_BYTES)


def _tear(node: Node, page: int, chance: random.Random) -> None:
    """Have some sectors of a page on disk."""
    for begin in range(page * PAGE_BYTES, (page + 1) * PAGE_BYTES, SECTOR_BYTES):
        if chance.random() < 0.5:
            _write(node, begin, SECTOR_BYTES)


def _write(node: Node, begin: int, length: int) -> None:
    data = node.content[begin : begin + length]
    if data and len(node.synced) < begin:
        _resize(node.synced, begin)
    node.synced[begin : begin + len(data)] = data


def _resize(content: bytearray, length: int) -> None:
    if length < len(content):
        del content[length:]
    else:
        content.extend(bytes(length - len(content)))
