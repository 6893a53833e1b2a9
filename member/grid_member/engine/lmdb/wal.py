"""The newest records of a log, in a file beside LMDB's: one synchronous write makes them safe.

A commit of LMDB syncs twice: its pages, then the page that makes them count. Small groups of
records go here first, one behind the other, each with a single write into blocks that the file has
already. When they fill it LMDB takes all of them over with one commit, and the file is written anew
from its beginning.

A group begins at a block: salt, sequence of its first record, number of values, bytes of its body,
CRC-32 of all that. Its body is the length of each value, then the values. LMDB notes the salt
before the first group is written. Nothing without it passes for one, neither of other WALs nor
what clients have stored; and a group of a former turn has no records that LMDB lacks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import time
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb

from grid_member.engine.io.files import PRIVATE_MODE, sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from grid_member.engine.lmdb.tables import Tables

WAL_FILE: Final = "tail"
WAL_BYTES: Final = 512 * 1024
"""How long the file is. On a full disk LMDB takes over what it has into the reserve, which has to
have room for removals behind that."""
SMALL_BYTES: Final = 32 * 1024
"""How much a group may have in values: with more of them a second sync weighs little."""
BLOCK_BYTES: Final = 4096
"""What disks write as a whole, and what the page cache keeps: no group shares one with another."""

_RANDOM_BYTES: Final = 12
_SIZE: Final = struct.Struct(">I")
SALT_BYTES: Final = _RANDOM_BYTES + _SIZE.size
_HEAD: Final = struct.Struct(f">{SALT_BYTES}sQIII")
_FLAGS: Final = os.O_WRONLY | os.O_DSYNC | os.O_CLOEXEC
_log = logging.getLogger("grid_member.engine.lmdb_tail")


class WalContent(NamedTuple):
    """What a WAL has behind a record of LMDB."""

    values: list[bytes]
    """Of the records that follow that one."""
    gap: bool
    """Whether there are later groups, behind one that is lost."""


class _RecordGroup(NamedTuple):
    first: int
    """The sequence of its first record."""
    values: list[bytes]
    end: int
    """Where the next one begins."""


class Wal:
    """Writes a WAL. For the thread that writes the log, but for `resume`, which comes before.

    It is used when its file is open, LMDB notes its salt, and LMDB's last commit is known to be
    there.
    """

    def __init__(
        self, path: Path, shard: int, size_bytes: int, report: Callable[[float], None]
    ) -> None:
        """Write nothing yet.

        The file is to be `size_bytes` long, 0 for none; the shard's number is for what is logged.
        `report` takes the seconds of each write that succeeded.
        """
        self._path = path
        self._shard = shard
        self._size_bytes = size_bytes
        self._report = report
        self._file = -1
        self._end_bytes = 0
        self._salt = b""
        self._noted = False
        """Whether LMDB notes the salt."""
        self._doubtful = False
        """Whether a write to the WAL failed, and may yet be on the disk."""
        self._whole = False
        """Whether all of it may be: then it counts until its first block was written over. The page
        cache does not tell any more, when that failed once."""
        self._unsettled = False
        """Whether LMDB has to commit something first, since it may have some of what is pending, or
        something else in its place."""
        self.pending: list[bytes] = []
        """What LMDB lacks: the values of the newest records, in order."""

    # Beginning and end

    def resume(self, salt: bytes, values: list[bytes]) -> None:
        """Go on with the WAL of the incarnation before, once LMDB has taken over its values."""
        self._salt, self._noted, self._unsettled = salt, True, True
        self._size_bytes = _size(salt)
        self.pending = values
        try:
            self._open()
        except OSError as error:
            self._warn(error)

    def make(self) -> None:
        """Make a WAL unless there is one; without room there is none. Never raises."""
        if self._salt or not self._size_bytes:
            return
        try:
            _fill(self._path / WAL_FILE, self._size_bytes)
            sync_directory(self._path)
            self._open()
        except OSError as error:
            self._warn(error)
            self._remove()
        else:
            self._salt = os.urandom(_RANDOM_BYTES) + _SIZE.pack(self._size_bytes)

    def close(self) -> None:
        """Write no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        self._file = os.open(self._path / WAL_FILE, _FLAGS)

    def _remove(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            (self._path / WAL_FILE).unlink(missing_ok=True)

    def _warn(self, error: OSError) -> None:
        _log.warning(
            "the tail of the log of shard %d cannot be written, commits take longer: %s",
            self._shard,
            error,
        )

    @property
    def unlinked(self) -> bool:
        """Whether its file is open and has no name any more."""
        return self._file >= 0 and os.fstat(self._file).st_nlink == 0

    # What LMDB has to do with it

    @property
    def note(self) -> bytes | None:
        """What the next commit of LMDB has to note: the salt, nothing, or None for no change."""
        if self._file < 0:
            return b"" if self._noted else None
        return None if self._noted else self._salt

    def settle(self, tables: Tables, sequence: int, values: Sequence[bytes] = ()) -> None:
        """Have LMDB commit what is pending, and the values of the records behind it.

        `sequence` is that of the last record, whether LMDB or only the WAL has it.

        Raises:
            lmdb.Error: they may be there, or not.
        """
        self._forget_known(tables, sequence)
        self._unsettled = True  # until it is known that LMDB has it
        behind = [*self.pending, *values]
        if behind or self.note is not None:
            tables.append(sequence - len(self.pending), behind, self.note)
        else:
            tables.confirm(sequence)  # LMDB has it: but a commit of nothing would not be one
        self.pending = []
        self._end_bytes = 0
        self._noted = self._file >= 0
        self._doubtful = self._whole = self._unsettled = False
        if self._salt and not self._noted:
            self._salt = b""
            self._remove()

    def end(self, tables: Tables | None, sequence: int) -> None:
        """Leave LMDB all of the log; what it does not take the next start finds in the WAL.

        It cannot be opened without `tables`; `sequence` is that of the last record.
        """
        if tables is not None and self.pending:
            with contextlib.suppress(lmdb.Error):
                self._forget_known(tables, sequence)
                # Two commits: should a page of the last one be damaged, the one before has nearly
                # everything, too.
                if behind := self.pending[:-1]:
                    tables.append(sequence - len(self.pending), behind)
                    del self.pending[:-1]
                self.settle(tables, sequence)
        self.close()

    def _forget_known(self, tables: Tables, sequence: int) -> None:
        """Leave out what LMDB has of a commit that was said to have failed."""
        if self._unsettled:
            known = tables.last() - (sequence - len(self.pending))
            del self.pending[: max(0, known)]

    # Groups

    def append(self, first: int, values: Sequence[bytes], size_bytes: int) -> bool:
        """Write the values of the next records; False when LMDB has to commit them.

        `first` is the sequence of the first one, `size_bytes` the length of all values.
        """
        if self._file < 0 or not self._noted or self._unsettled or size_bytes > SMALL_BYTES:
            return False
        data = _encode_group(self._salt, first, values)
        if self._end_bytes + len(data) > self._size_bytes:
            return False
        began_s = time.perf_counter()
        try:
            if os.pwrite(self._file, data, self._end_bytes) < len(data):
                raise OSError("only a part of it was written")
        except OSError as error:
            self._warn(error)
            self._doubtful = True
            self.close()
            return False
        self._end_bytes += len(data)
        self.pending += values
        self._report(time.perf_counter() - began_s)
        return True

    def disown(self) -> None:
        """See that a group whose write failed is never found: its records are to be refused.

        Raises:
            OSError: it may be found.
        """
        if not self._doubtful:
            return
        with contextlib.suppress(FileNotFoundError):
            if not self._whole:
                # What the page cache does not have as a whole will not come to the disk.
                data = (self._path / WAL_FILE).read_bytes()
                self._whole = _group(data, self._end_bytes, self._salt) is not None
            if self._whole:
                self._blank()
        self._doubtful = self._whole = False

    def _blank(self) -> None:
        file = os.open(self._path / WAL_FILE, _FLAGS)
        try:
            if os.pwrite(file, bytes(BLOCK_BYTES), self._end_bytes) < BLOCK_BYTES:
                raise OSError("only a part of it was written")
        finally:
            os.close(file)


def read_wal(path: Path, salt: bytes, after: int) -> WalContent | None:
    """Return what the WAL in a log's directory has behind a record; None when it is cut or gone.

    A group that is not whole ends it: that is the one whose writing was interrupted.

    Raises:
        OSError: it cannot be read.
    """
    try:
        data = (path / WAL_FILE).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _size(salt):
        return None
    values: list[bytes] = []
    place = end = 0
    while group := _group(data, place, salt):
        place = group.end
        known = after + 1 + len(values) - group.first
        if known < 0:
            break
        if found := group.values[known:]:
            values += found
            end = place
    last = after + len(values)
    rest = (_group(data, place, salt) for place in range(end, len(data), BLOCK_BYTES))
    gap = any(group.first + len(group.values) - 1 > last for group in rest if group)
    return WalContent(values, gap)


def _group(data: bytes, place: int, salt: bytes) -> _RecordGroup | None:
    """Return the group at a place; None when there is no whole one."""
    if not data.startswith(salt, place) or len(data) - place < _HEAD.size:
        return None
    _, first, count, body_bytes, _ = _HEAD.unpack_from(data, place)
    start = place + _HEAD.size
    body = data[start : start + body_bytes]
    if len(body) < body_bytes or not count or 4 * count > body_bytes:
        return None
    if data[place:start] != _head(salt, first, count, body):
        return None
    values, at = [], 4 * count
    for length in struct.unpack_from(f">{count}I", body):
        values.append(body[at : at + length])
        at += length
    return _RecordGroup(
        first, values, start + body_bytes + -(_HEAD.size + body_bytes) % BLOCK_BYTES
    )


def _encode_group(salt: bytes, first: int, values: Sequence[bytes]) -> bytes:
    body = b"".join((struct.pack(f">{len(values)}I", *map(len, values)), *values))
    head = _head(salt, first, len(values), body)
    return b"".join((head, body, bytes(-(len(head) + len(body)) % BLOCK_BYTES)))


def _head(salt: bytes, first: int, count: int, body: bytes) -> bytes:
    check = zlib.crc32(_HEAD.pack(salt, first, count, len(body), 0))
    return _HEAD.pack(salt, first, count, len(body), zlib.crc32(body, check))


def _size(salt: bytes) -> int:
    size_bytes: int = _SIZE.unpack(salt[_RANDOM_BYTES:])[0]
    return size_bytes


def _fill(path: Path, size_bytes: int) -> None:
    """Have a file of zeros, whose blocks are written already: that makes later writes fast."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    file = os.open(path, flags, PRIVATE_MODE)
    try:
        if os.write(file, bytes(size_bytes)) < size_bytes:
            raise OSError("the disk has no room for it")
        os.fsync(file)
    finally:
        os.close(file)
