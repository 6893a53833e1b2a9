"""Checking and reading an LMDB file page by page, whatever is wrong with it.

LMDB trusts its file. A wrong number in a page can make it read where nothing is, and then the
system ends the process before anything can be said about that. So where there is reason for doubt
every page is walked first, without LMDB; that takes its time, which a normal start is spared.

Reading goes on behind damage: each page is looked at before it is believed, and one that cannot be
is left out. What is found in the rest may lack entries, so whoever reads has to tell a hole by the
keys, and damage by checksums of its own.

The layout is that of LMDB 0.9 on 64-bit machines, in the byte order of this one.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import lmdb
from lmdb.verify import verify

from grid_member.engine.api import EngineError
from grid_member.engine.io.store_errors import (
    LOG_ERRORS,
    DamagedStoreError,
    damage_error,
    open_error,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_DEPTH: Final = 32
"""Levels of a tree, as LMDB limits them."""

_PAGE_NUMBER: Final = re.compile(r"page (\d+)")
_LOST: Final = re.compile(r"\d+ page\(s\) are neither reachable nor in the freeDB .*", re.ASCII)
_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_NO_PAGE: Final = 2**64 - 1
_META_PAGES: Final = 2
_BRANCH, _LEAF, _OVERFLOW = 0x01, 0x02, 0x04
_BIG, _TREE = 0x01, 0x02
_PAGE: Final = struct.Struct("=QHHHH")  # number, padding, flags, lower, upper
_OVERFLOW_PAGE: Final = struct.Struct("=QHHI")  # number, padding, flags, pages
_NODE: Final = struct.Struct("=HHHH")  # low, high, flags, key length
_META: Final = struct.Struct("=IIQQ I44x 32xQQ QQ")
_TREE_RECORD: Final = struct.Struct("=32xQQ")  # entries, root
_POINTER: Final = struct.Struct("=H")
_NUMBER: Final = struct.Struct("=Q")
_PAGE_SIZES: Final = tuple(1 << bits for bits in range(9, 17))


@dataclass(frozen=True, slots=True)
class Root:
    """A tree in a commit that the file still has: the newest one, or the one before."""

    commit: int
    page: int
    entries: int
    """How many there are, so that a hole can be told."""


class Pages:
    """An open data file. Only `OSError` is raised."""

    def __init__(self, file: BinaryIO) -> None:
        """Read no page yet; the file stays the caller's."""
        self._file = file
        self._size_bytes = os.fstat(file.fileno()).st_size
        self._page_bytes = 0
        self._last_pages: dict[int, int] = {}
        self.roots = self._roots()
        """The newest first."""

    @property
    def claimed_bytes(self) -> int:
        """How long the file is in the words of its newest root page; 0 without one."""
        if not self.roots:
            return 0
        return (self._last_pages[self.roots[0].commit] + 1) * self._page_bytes

    def tree(self, root: Root, name: bytes) -> Root | None:
        """Return the tree of a named table in a commit; None when it is not found."""
        for key, value, is_tree in self._walk(root.page):
            if key == name and is_tree and len(value) == _TREE_RECORD.size:
                entries, page = _TREE_RECORD.unpack(value)
                return Root(root.commit, page, entries)
        return None

    def items(self, tree: Root) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in order, as far as they can be read."""
        for key, value, is_tree in self._walk(tree.page):
            if not is_tree:
                yield key, value

    def _roots(self) -> list[Root]:
        found: dict[int, Root] = {}
        # The size of a page is in each root page, the place of the second one depends on it.
        for place in (0, *_PAGE_SIZES):
            data = self._read(place + _PAGE.size, _META.size)
            if data is None:
                continue
            magic, version, _, _, page_bytes, entries, page, last, commit = _META.unpack(data)
            whole = magic == _MAGIC and version == _VERSION and page_bytes in _PAGE_SIZES
            if whole and place in (0, page_bytes) and self._page_bytes in (0, page_bytes):
                self._page_bytes = page_bytes
                found[place] = Root(commit, page, entries)
                self._last_pages[commit] = last
        return sorted(found.values(), key=lambda root: root.commit, reverse=True)

    def _walk(self, root: int) -> Iterator[tuple[bytes, bytes, bool]]:
        seen: set[int] = set()
        waiting = [(root, 1)]
        while waiting:
            number, depth = waiting.pop()
            # A page that is met twice is in a wrong place at least once.
            if number in seen or depth > MAX_DEPTH:
                continue
            seen.add(number)
            page = self._page(number)
            if page is None:
                continue
            flags = _PAGE.unpack_from(page)[2]
            if flags == _BRANCH:
                children = [low | flags << 32 for _, _, low, flags in self._nodes(page)]
                waiting += [(child, depth + 1) for child in reversed(children)]
            elif flags == _LEAF:
                yield from self._entries(page)

    def _nodes(self, page: bytes) -> Iterator[tuple[int, int, int, int]]:
        """Yield what the nodes of a page say: offset of the key, its length, number, flags."""
        _, _, _, lower, upper = _PAGE.unpack_from(page)
        if not _PAGE.size <= lower <= upper <= len(page):
            return
        for place in range(_PAGE.size, lower - 1, _POINTER.size):
            offset = _POINTER.unpack_from(page, place)[0]
            if offset < upper or offset + _NODE.size > len(page):
                continue
            low, high, flags, key_length = _NODE.unpack_from(page, offset)
            offset += _NODE.size
            if offset + key_length <= len(page):
                yield offset, key_length, low | high << 16, flags

    def _entries(self, page: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
        for offset, key_length, length, flags in self._nodes(page):
            start = offset + key_length
            key = page[offset:start]
            if flags & _BIG:
                value = self._big(page[start : start + _NUMBER.size], length)
            else:
                value = page[start : start + length]
            if value is not None and len(value) == length:
                yield key, value, bool(flags & _TREE)

    def _big(self, where: bytes, length: int) -> bytes | None:
        if len(where) != _NUMBER.size:
            return None
        number = _NUMBER.unpack(where)[0]
        first = self._read(number * self._page_bytes, _OVERFLOW_PAGE.size)
        if first is None or number < _META_PAGES:
            return None
        pages = (_PAGE.size - 1 + length) // self._page_bytes + 1
        if _OVERFLOW_PAGE.unpack(first) != (number, 0, _OVERFLOW, pages):
            return None
        return self._read(number * self._page_bytes + _PAGE.size, length)

    def _page(self, number: int) -> bytes | None:
        if not _META_PAGES <= number < _NO_PAGE:
            return None
        page = self._read(number * self._page_bytes, self._page_bytes)
        if page is None or _PAGE.unpack_from(page)[0] != number:
            return None
        return page

    def _read(self, offset: int, length: int) -> bytes | None:
        if offset + length > self._size_bytes:
            return None
        data = os.pread(self._file.fileno(), length, offset)
        return data if len(data) == length else None


def open_file(path: Path) -> BinaryIO:
    """Open the data file of the log in the directory path for reading."""
    return (path / "data.mdb").open("rb")


def check_pages(path: Path, *, may_lose: bool = True) -> None:
    """Walk all pages that the log in the directory path has.

    There may be pages that are neither used nor free if it `may_lose` some: LMDB never comes to
    them, and has left some behind by itself.

    Raises:
        DamagedStoreError: they are not as LMDB writes them.
        EngineError: they cannot be read now.
    """
    try:
        problems = verify(str(path))  # type: ignore[no-untyped-call]
    except FileNotFoundError:
        raise damage_error(str(path), "it holds no log") from None
    except LOG_ERRORS as error:
        raise open_error(path, error) from error
    if may_lose:
        problems = [problem for problem in problems if not _LOST.fullmatch(problem)]
    if problems:
        # Not in the words of the check: they may have bytes of a page in them, which may be data.
        found = _PAGE_NUMBER.search(" ".join(problems))
        place = f"page {found[1]}" if found else "its root page"
        raise damage_error(
            f"the log in {path}", f"its pages contradict each other, first at {place}"
        )


def explained_error(path: Path, error: Exception) -> EngineError:
    """Return the error of a log that cannot be opened or read.

    What LMDB says does not always tell whether the content is the reason; the pages do.
    """
    problem = open_error(path, error)
    if not isinstance(error, lmdb.Error) or isinstance(problem, DamagedStoreError):
        return problem
    try:
        check_pages(path)
    except DamagedStoreError as found:
        return found
    except EngineError:
        return problem  # nor can it be read for the check
    return problem


def check_size(path: Path, limit_bytes: int) -> None:
    """Refuse a log whose root page counts more pages than there can be.

    LMDB would ask for so much address space, which fails like a lack of memory.

    Raises:
        DamagedStoreError: it does.
        OSError: the file cannot be read.
    """
    with open_file(path) as file:
        claimed_bytes = Pages(file).claimed_bytes
    if claimed_bytes > limit_bytes:
        counted = f"its root page counts {claimed_bytes} bytes of pages"
        raise damage_error(f"the log in {path}", counted)


def check_length(path: Path, environment: lmdb.Environment) -> None:
    """Check a file that is shorter than its pages are many.

    LMDB may leave free pages at the end unwritten. When other pages are missing it kills the
    process as it comes to them, so every page is looked at first: rare, and worth its time.

    Raises:
        DamagedStoreError: pages are missing.
        OSError: the file cannot be made as long as it has to be.
    """
    size_bytes = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    file = path / "data.mdb"
    found_bytes = file.stat().st_size
    if found_bytes >= size_bytes:
        return
    try:
        check_pages(path, may_lose=False)
    except DamagedStoreError as error:
        cut = f"the file is cut, {found_bytes} of {size_bytes} bytes are left"
        raise damage_error(f"the log in {path}", cut) from error
    os.truncate(file, size_bytes)
