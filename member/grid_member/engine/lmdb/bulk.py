"""Making a whole log at once, synced at its end only: nobody opens it before."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import lmdb

from grid_member.engine.io.files import sync_directory
from grid_member.engine.lmdb.tables import (
    CHUNK,
    MAP_SIZE_BYTES,
    SEQUENCE,
    Tables,
    create_log,
    open_tables,
)
from grid_member.engine.lmdb.values import pack_base

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_DIRECTORY_MODE = 0o700


@contextlib.contextmanager
def new_log(path: Path, shard: int) -> Iterator[Tables]:
    """Make the directory path with an empty log; what is written in the context is synced."""
    path.mkdir(mode=_DIRECTORY_MODE)
    create_log(path, shard)
    with changed_log(path, shard) as tables:
        yield tables


@contextlib.contextmanager
def changed_log(path: Path, shard: int) -> Iterator[Tables]:
    """Open a log; what is written in the context is synced.

    Raises:
        EngineError: the log cannot be opened.
    """
    tables = open_tables(path, shard, MAP_SIZE_BYTES, _unsynced_environment)
    try:
        yield tables
        tables.environment.sync(True)
    finally:
        tables.environment.close()
    sync_directory(path)


def put_chunks(tables: Tables, sequence: int, chunks: Iterable[tuple[int, bytes]]) -> None:
    """Store chunks of a snapshot as they are; `put_base` makes the snapshot count."""
    with tables.environment.begin(tables.snapshot, write=True) as transaction:
        for number, chunk in chunks:
            transaction.put(CHUNK.pack(sequence, number), chunk)


def put_base(tables: Tables, sequence: int, chunks: int) -> None:
    """Make a snapshot count that has so many chunks."""
    with tables.environment.begin(tables.meta, write=True) as transaction:
        transaction.put(b"base", pack_base(sequence, chunks))


def put_records(tables: Tables, records: Iterable[tuple[int, bytes]]) -> None:
    """Store records as they are: sequence and value, in order."""
    with tables.environment.begin(tables.log, write=True) as transaction:
        for sequence, value in records:
            transaction.put(SEQUENCE.pack(sequence), value, append=True)


def _unsynced_environment(path: Path, map_size_bytes: int, create: bool) -> lmdb.Environment:
    return lmdb.Environment(
        str(path), map_size=map_size_bytes, create=create, mode=0o600, max_dbs=3, lock=False,
        readahead=False, sync=False, metasync=False,
    )  # fmt: skip
