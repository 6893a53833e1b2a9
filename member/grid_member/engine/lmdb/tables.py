"""How a log is laid out in LMDB: its tables, their keys and values, and the check of their format.

Beside its codec's bytes a log stores place and time of a record, the place of the snapshot, and the
salt of the WAL. Each has a checksum, too: a bit that flips on the disk must not pass for another
time, or for a shorter snapshot.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import lmdb

from grid_member.engine.api import EngineError
from grid_member.engine.io.files import DIRECTORY_MODE, PRIVATE_MODE, sync_directory
from grid_member.engine.io.store_errors import (
    LOG_ERRORS,
    damage_error,
    foreign_error,
    newer_error,
    open_error,
)
from grid_member.engine.lmdb.pages import check_length, check_size, explained_error
from grid_member.engine.state import codec

if TYPE_CHECKING:
    from grid_member.engine.state.operations import Record

LOG_FORMAT: Final = 1
"""Of a log without a WAL. Formats count changes of what is stored that an older program must not
touch."""
WAL_FORMAT: Final = 2
"""Of a log with a WAL, which older programs do not know."""
MAP_SIZE_BYTES: Final = 1 << 40
"""Address space that the store may grow into; the file is only as large as what it holds."""
Environments: TypeAlias = Callable[[Path, int, bool], lmdb.Environment]
"""Opens LMDB: directory, map size in bytes, whether to create it."""

DATA_FILE: Final = "data.mdb"
"""What LMDB keeps its pages in."""
KIND: Final = b"grid-log"
FORMAT: Final = struct.Struct(">8sII")  # kind, format, shard
SEQUENCE: Final = struct.Struct(">Q")
CHUNK: Final = struct.Struct(">QI")  # sequence of the snapshot, number of the chunk
_PLACE: Final = struct.Struct(">QQ")  # sequence, timestamp
_RECORD_HEAD: Final = struct.Struct(">QI")  # timestamp, CRC-32 of sequence and timestamp
_SALT_CHECK: Final = struct.Struct(">I")  # CRC-32 of the salt
_BASE: Final = struct.Struct(">QQI")  # sequence, number of chunks, CRC-32 of both
NO_SNAPSHOT: Final = (0, 0)
META_PAGES: Final = 2
"""Root pages of an LMDB file."""


def open_environment(
    path: Path, map_size_bytes: int, create: bool, *, sync: bool = True
) -> lmdb.Environment:
    """Open LMDB with every commit synced.

    Without LMDB's own locks: the store's directory lock keeps other processes out, and within
    this one nothing reads once the writer thread runs.
    """
    return lmdb.Environment(
        str(path), map_size=map_size_bytes, create=create, mode=PRIVATE_MODE, max_dbs=3,
        lock=False, readahead=False, sync=sync, metasync=sync,
    )  # fmt: skip


def create_log(path: Path, shard: int) -> None:
    """Make an empty log in the directory path, which exists."""
    environment = open_environment(path, MAP_SIZE_BYTES, True)
    try:
        meta = environment.open_db(b"meta")
        environment.open_db(b"log")
        environment.open_db(b"image")
        with environment.begin(write=True) as transaction:
            transaction.put(b"format", FORMAT.pack(KIND, LOG_FORMAT, shard), db=meta)
            transaction.put(b"base", pack_base(*NO_SNAPSHOT), db=meta)
    finally:
        environment.close()


class Tables:
    """An open environment with its tables."""

    __slots__ = ("_report", "environment", "log", "meta", "snapshot")

    def __init__(
        self, environment: lmdb.Environment, report: Callable[[float], None] = lambda _: None
    ) -> None:
        self.environment = environment
        self._report = report
        self.meta = environment.open_db(b"meta", create=False)
        self.log = environment.open_db(b"log", create=False)
        self.snapshot = environment.open_db(b"image", create=False)

    @contextlib.contextmanager
    def write(self) -> Iterator[lmdb.Transaction]:
        """Commit what is written in the context; report how long a commit took that succeeded."""
        # With buffers: `purge` asks for the length of values that it would copy otherwise.
        with self.environment.begin(write=True, buffers=True) as transaction:
            yield transaction
            began_s = time.perf_counter()
        self._report(time.perf_counter() - began_s)

    def base(self) -> tuple[int, int]:
        """Return the snapshot's sequence and its number of chunks.

        Raises:
            CodecError: they are damaged.
        """
        with self.environment.begin(self.meta) as transaction:
            return unpack_base(transaction.get(b"base", b""))

    def salt(self) -> bytes:
        """Return the salt of the log's WAL, nothing when it has none.

        Raises:
            CodecError: it is damaged.
        """
        with self.environment.begin(self.meta) as transaction:
            version = FORMAT.unpack(transaction.get(b"format", b""))[1]
            noted = transaction.get(b"tail", b"")
        return unpack_salt(noted) if noted or version == WAL_FORMAT else b""

    def last(self) -> int:
        """Return the sequence of the last record, 0 without one."""
        with self.environment.begin(self.log) as transaction, transaction.cursor() as cursor:
            return int(SEQUENCE.unpack(cursor.key())[0]) if cursor.last() else 0

    def record(self, sequence: int) -> bytes | None:
        """Return what is stored as this record, None when there is no such record."""
        with self.environment.begin(self.log) as transaction:
            found: bytes | None = transaction.get(SEQUENCE.pack(sequence))
        return found

    def free_bytes(self) -> tuple[int, int]:
        """Return the bytes of free pages, and by how many bytes the file may grow."""
        environment = self.environment
        information, main = environment.info(), environment.stat()
        with environment.begin() as transaction:
            tables = [transaction.stat(table) for table in (self.meta, self.log, self.snapshot)]
        used = META_PAGES + sum(
            table["branch_pages"] + table["leaf_pages"] + table["overflow_pages"]
            for table in (main, *tables)
        )
        pages = information["last_pgno"] + 1
        return (
            max(0, pages - used) * main["psize"],
            max(0, information["map_size"] - pages * main["psize"]),
        )

    def append(self, sequence: int, values: Sequence[bytes], salt: bytes | None = None) -> None:
        """Commit the values of the records behind a sequence, which is that of the last one there.

        `salt` is what to note of the log's WAL from now on, empty for none; None as it is.

        Raises:
            lmdb.Error: they may be there, or not.
        """
        with self.write() as transaction:
            for number, value in enumerate(values, sequence + 1):
                if not transaction.put(SEQUENCE.pack(number), value, append=True, db=self.log):
                    # LMDB reports a taken key by its result only.
                    raise lmdb.KeyExistsError(f"record {number} is there already")
            if salt is not None:
                self._note(transaction, salt)

    def _note(self, transaction: lmdb.Transaction, salt: bytes) -> None:
        kind, _, shard = FORMAT.unpack(transaction.get(b"format", b"", db=self.meta))
        version = WAL_FORMAT if salt else LOG_FORMAT
        transaction.put(b"format", FORMAT.pack(kind, version, shard), db=self.meta)
        if salt:
            transaction.put(b"tail", pack_salt(salt), db=self.meta)
        else:
            transaction.delete(b"tail", db=self.meta)

    def confirm(self, sequence: int) -> None:
        """Commit something small.

        The root page of an earlier commit is then replaced by one whose way to the disk is known.
        """
        with self.write() as transaction:
            transaction.put(b"confirmed", SEQUENCE.pack(sequence), db=self.meta)

    def put_chunks(self, sequence: int, chunks: Iterable[tuple[int, bytes]]) -> None:
        """Commit numbered chunks of a snapshot; `put_base` makes the snapshot count."""
        with self.write() as transaction:
            for number, chunk in chunks:
                transaction.put(CHUNK.pack(sequence, number), chunk, db=self.snapshot)

    def put_base(self, sequence: int, chunks: int) -> None:
        """Make a snapshot count that has so many chunks."""
        with self.write() as transaction:
            transaction.put(b"base", pack_base(sequence, chunks), db=self.meta)


@contextlib.contextmanager
def new_log(path: Path, shard: int) -> Iterator[Tables]:
    """Make the directory path with an empty log, as `changed_log`: nobody opens it before."""
    path.mkdir(mode=DIRECTORY_MODE)
    create_log(path, shard)
    with changed_log(path, shard) as tables:
        yield tables


@contextlib.contextmanager
def changed_log(path: Path, shard: int) -> Iterator[Tables]:
    """Open a log; what is written in the context is synced at its end only.

    Raises:
        EngineError: the log cannot be opened.
    """
    tables = open_tables(path, shard, MAP_SIZE_BYTES, partial(open_environment, sync=False))
    try:
        yield tables
        tables.environment.sync(True)
    finally:
        tables.environment.close()
    sync_directory(path)


def open_tables(
    path: Path,
    shard: int,
    map_size_bytes: int,
    environments: Environments,
    report: Callable[[float], None] = lambda _: None,
) -> Tables:
    """Open the log in the directory path; report takes the seconds of each commit.

    Raises:
        EngineError: the files are foreign, of a newer format or cannot be used now;
            `DamagedStoreError`: they are missing or damaged.
    """
    try:
        with (path / DATA_FILE).open("rb+") as file:
            size_bytes = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise damage_error(str(path), "it holds no log") from None
    except OSError as error:
        raise open_error(path, error) from error
    if size_bytes == 0:
        raise damage_error(f"the log in {path}", "it is empty")  # LMDB would fill it
    try:
        check_size(path, max(map_size_bytes, MAP_SIZE_BYTES))
        environment = environments(path, map_size_bytes, False)
    except LOG_ERRORS as error:
        raise explained_error(path, error) from error
    try:
        check_length(path, environment)
        tables = Tables(environment, report)
        _check_format(tables, path, shard)
    except EngineError:
        environment.close()
        raise
    except LOG_ERRORS as error:
        environment.close()
        raise explained_error(path, error) from error
    return tables


def _check_format(tables: Tables, path: Path, shard: int) -> None:
    with tables.environment.begin(tables.meta) as transaction:
        kind, version, kept_shard = FORMAT.unpack(transaction.get(b"format", b""))
    if kind != KIND:
        raise foreign_error(f"the log in {path}", "it is not a member's")
    if version not in (LOG_FORMAT, WAL_FORMAT):
        raise newer_error(f"the log in {path}", version, WAL_FORMAT)
    if kept_shard != shard:
        raise foreign_error(f"the log in {path}", f"it belongs to shard {kept_shard}")


def pack_record(sequence: int, timestamp_ms: int, record: Record) -> bytes:
    """Return what is stored of a record under its sequence."""
    check = zlib.crc32(_PLACE.pack(sequence, timestamp_ms))
    return _RECORD_HEAD.pack(timestamp_ms, check) + codec.encode_record(record)


def pack_records(records: Iterable[Record], first: int, timestamp_ms: int) -> list[bytes]:
    """Return what is stored of records, under sequences from the first one on."""
    return [pack_record(place, timestamp_ms, one) for place, one in enumerate(records, first)]


def unpack_record(sequence: int, value: bytes) -> tuple[int, Record]:
    """Return timestamp and record of what is stored under the sequence.

    Raises:
        CodecError: it is not what `pack_record` made of this sequence.
    """
    if len(value) < _RECORD_HEAD.size:
        raise codec.CodecError("the record is cut")
    timestamp_ms, check = _RECORD_HEAD.unpack_from(value)
    if zlib.crc32(_PLACE.pack(sequence, timestamp_ms)) != check:
        raise codec.CodecError("checksum mismatch: the record's place or time is damaged")
    return timestamp_ms, codec.decode_record(value[_RECORD_HEAD.size :])


def pack_base(sequence: int, chunks: int) -> bytes:
    """Return what is stored of the snapshot that counts: its sequence and its number of chunks."""
    return _BASE.pack(sequence, chunks, zlib.crc32(_PLACE.pack(sequence, chunks)))


def unpack_base(value: bytes) -> tuple[int, int]:
    """Return sequence and number of chunks of what is stored.

    Raises:
        CodecError: it is not what `pack_base` made.
    """
    if len(value) != _BASE.size:
        raise codec.CodecError("the place of the image is missing or cut")
    sequence, chunks, check = _BASE.unpack(value)
    if zlib.crc32(_PLACE.pack(sequence, chunks)) != check:
        raise codec.CodecError("checksum mismatch: the place of the image is damaged")
    return sequence, chunks


def pack_salt(salt: bytes) -> bytes:
    """Return what is stored of the salt of the log's WAL."""
    return salt + _SALT_CHECK.pack(zlib.crc32(salt))


def unpack_salt(value: bytes) -> bytes:
    """Return the salt of what is stored.

    Raises:
        CodecError: it is not what `pack_salt` made.
    """
    salt = value[: -_SALT_CHECK.size]
    if not salt or pack_salt(salt) != value:
        raise codec.CodecError("checksum mismatch: the salt of the tail is damaged")
    return salt
