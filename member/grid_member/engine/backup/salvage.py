"""What is left of a damaged store, made a store again; or the store of a member, wiped.

From each log is taken the newest snapshot that is whole and all records behind it up to the first
that is missing or damaged. So every log comes back as it really was at one moment, if an earlier
one than the last: nothing is invented, and nothing is applied across a hole. The logs of several
shards may come back as of different moments.

The damaged store stays beside the new one, as `store.damaged-N`.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from dataclasses import dataclass
from functools import partial
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Final

import lmdb

from grid_member.engine.api import EngineError
from grid_member.engine.backup.restore import return_items_in_flight
from grid_member.engine.io.directory_lock import lock_directory
from grid_member.engine.io.files import DIRECTORY_MODE, close_files, sync_directory
from grid_member.engine.io.store_errors import (
    DamagedStoreError,
    foreign_error,
    newer_error,
    unusable_error,
)
from grid_member.engine.lmdb.pages import Pages, check_pages, open_file
from grid_member.engine.lmdb.replay import Replay
from grid_member.engine.lmdb.tables import (
    CHUNK,
    FORMAT,
    KIND,
    MAP_SIZE_BYTES,
    NO_SNAPSHOT,
    SEQUENCE,
    WAL_FORMAT,
    new_log,
    open_environment,
    open_tables,
    unpack_base,
    unpack_record,
    unpack_salt,
)
from grid_member.engine.lmdb.wal import read_wal
from grid_member.engine.state import codec
from grid_member.engine.storage.exchange import (
    BUILDING,
    EMPTIED,
    SALVAGED,
    STORE,
    check_unfinished,
    exchange,
    finish_exchange,
)
from grid_member.engine.storage.identity import (
    FORGOTTEN,
    IDENTITY_FILE,
    StoreIdentity,
    read_identity,
    write_identity,
)
from grid_member.engine.storage.store import (
    check_directory,
    check_shards,
    make_empty,
    shard_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from grid_member.engine.lmdb.pages import Root

    _ReadWal = Callable[[int], list[tuple[int, bytes]]]

GROUP_BYTES: Final = 4 * 1024 * 1024
"""Bytes that are written in one transaction, about."""


@dataclass(frozen=True, slots=True)
class Salvage:
    """What was got out of a damaged store."""

    member: uuid.UUID
    sequences: tuple[int | None, ...]
    """The last record of each shard; None when nothing of it can be read."""


@dataclass(frozen=True, slots=True)
class _SalvagedState:
    """A state of a log that its file still has all of."""

    log: Root
    snapshot: Root
    base: int
    """Sequence of the snapshot."""
    chunks: int
    last: int
    """Sequence of the last record."""
    wal: list[tuple[int, bytes]]
    """Those of the records that only the WAL has."""


def refuse_healthy(directory: Path, shards: int) -> None:
    """Open and replay the store of a member that is not running; nothing is changed.

    What kept it from being opened before may be over. Then no recovery is needed, and there is
    nothing that could be gained by one.

    Raises:
        EngineError: the store is not damaged.
    """
    with _locked_store(directory) as place:
        try:
            check_shards(place, read_identity(place / IDENTITY_FILE), shards)
            for shard in range(shards):
                _read_all(shard_path(place, shard), shard)
        except DamagedStoreError:
            return
        except FileNotFoundError:
            return  # there is a store, and a part of it is gone
    raise EngineError(f"the store in {directory} is healthy: start the member again to use it")


def _read_all(path: Path, shard: int) -> None:
    check_pages(path)  # what is damaged may end the process that opens it
    tables = open_tables(path, shard, MAP_SIZE_BYTES, open_environment)
    try:
        for _ in Replay(tables, path).steps():
            pass
    finally:
        tables.environment.close()


def salvage_store(directory: Path, shards: int) -> Salvage:
    """Make a store of what is left of the damaged one in the directory.

    Raises:
        EngineError: the store is foreign, of a newer format or locked, nothing of it can be read,
            or the disk has no room for another one. It is as it was then.
    """
    with _locked_store(directory) as place:
        identity = _identity_left(place)
        count = shards if identity is None else identity.shards
        building = directory / BUILDING
        building.mkdir(mode=DIRECTORY_MODE)
        sequences = tuple(
            _salvage_log(shard_path(place, shard), shard, shard_path(building, shard))
            for shard in range(count)
        )
        if all(sequence is None for sequence in sequences):
            raise EngineError(
                f"nothing of the store in {directory} can be read: restore a backup, or force a "
                "start to begin empty"
            )
        if identity is None:
            # Whoever has items in flight under a UUID that is not known any more stays away.
            for shard in range(count):
                return_items_in_flight(shard_path(building, shard), shard)
            identity = StoreIdentity(uuid.uuid4(), count, FORGOTTEN)
        write_identity(building / IDENTITY_FILE, identity)
        sync_directory(building)
        exchange(directory, SALVAGED)
        return Salvage(identity.member, sequences)


def wipe_store(directory: Path, shards: int) -> uuid.UUID:
    """Delete the store in the directory for an empty one; return the new member's UUID.

    Raises:
        EngineError: the store is foreign, of a newer format or locked. It is as it was then.
    """
    with _locked_store(directory) as place:
        check_unfinished(place)  # what is not a member's is not deleted either
        former = _identity_left(place)
        # Else a backup that is named in the configuration would be restored at the next start.
        restored = FORGOTTEN if former is None else former.restored
        identity = StoreIdentity(uuid.uuid4(), shards, restored)
        make_empty(directory / BUILDING, identity)
        exchange(directory, EMPTIED)
        return identity.member


@contextlib.contextmanager
def _locked_store(directory: Path) -> Iterator[Path]:
    """Lock the directory of a member that is not running; give the place of its store."""
    lock_fd = -1
    try:
        _check_ours(directory)
        lock_fd = lock_directory(directory)
        _check_ours(directory)  # once more: another process may have ended just now
        finish_exchange(directory)
        try:
            yield directory / STORE
        except (OSError, lmdb.Error) as error:
            # Before what was written goes: it may have filled the disk.
            raise unusable_error("the directory", directory, error) from error
        finally:
            shutil.rmtree(directory / BUILDING, ignore_errors=True)
    except (OSError, lmdb.Error) as error:
        raise unusable_error("the directory", directory, error) from error
    finally:
        close_files([lock_fd])


def _check_ours(directory: Path) -> None:
    place = directory / STORE
    if place.is_symlink():
        raise EngineError(
            f"{place} is a symbolic link, which a recovery cannot exchange: move the directory it "
            "points to into its place"
        )
    try:
        check_directory(directory)
    except DamagedStoreError:
        return
    if not place.exists():
        raise EngineError(f"{directory} holds no store")


def _identity_left(place: Path) -> StoreIdentity | None:
    try:
        return read_identity(place / IDENTITY_FILE)
    except (DamagedStoreError, FileNotFoundError):
        return None


def _salvage_log(path: Path, shard: int, target: Path) -> int | None:
    """Copy what is left of a log into a new one; return its last sequence."""
    try:
        file = open_file(path)
    except FileNotFoundError:
        file = None
    with new_log(target, shard) as tables:
        if file is None:
            return None
        with file:
            pages = Pages(file)
            left = max(_all_left(pages, path, shard), key=lambda left: left.last, default=None)
            if left is None:
                return None
            for chunks in _groups(_whole_chunks(pages, left.snapshot, left.base)):
                tables.put_chunks(left.base, chunks)
            tables.put_base(left.base, left.chunks)
            records = chain(_whole_records(pages, left.log, left.base), left.wal)
            for group in _groups(records):
                tables.append(group[0][0] - 1, [value for _, value in group])
    return left.last


def _all_left(pages: Pages, path: Path, shard: int) -> Iterator[_SalvagedState]:
    for root in pages.roots:
        tables = [pages.tree(root, name) for name in (b"meta", b"log", b"image")]
        meta, log, snapshot = tables
        if log is None or snapshot is None:
            continue
        found = {} if meta is None else dict(pages.items(meta))
        _check_format(found, path, shard)
        wal = partial(_whole_wal, path, found.get(b"tail", b""))
        try:
            sequence, chunks = unpack_base(found.get(b"base", b""))
        except codec.CodecError:
            sequence, chunks = _only_snapshot(pages, log, snapshot)
        else:
            if (sequence, chunks) == NO_SNAPSHOT and not log.entries:
                # nothing was ever written
                yield _SalvagedState(log, snapshot, sequence, chunks, 0, [])
        if chunks and chunks == len({n for n, _ in _whole_chunks(pages, snapshot, sequence)}):
            yield _salvaged_state(pages, log, snapshot, sequence, chunks, wal)
        # Before a snapshot replaced anything, the records tell everything.
        from_the_first = _salvaged_state(pages, log, snapshot, *NO_SNAPSHOT, wal)
        if from_the_first.last:
            yield from_the_first


def _only_snapshot(pages: Pages, log: Root, snapshot: Root) -> tuple[int, int]:
    """Return sequence and chunks of the snapshot that must count, when that is not known.

    Records are only removed when there is a snapshot for them. When all chunks that there are
    belong to one, it is that.
    """
    keys = [CHUNK.unpack(key) for key, _ in pages.items(snapshot) if len(key) == CHUNK.size]
    sequences = {sequence for sequence, _ in keys}
    first, _ = next(pages.items(log), (SEQUENCE.pack(1), b""))
    if len(sequences) == 1 and len(keys) == snapshot.entries and first > SEQUENCE.pack(1):
        return sequences.pop(), len(keys)
    return NO_SNAPSHOT


def _salvaged_state(
    pages: Pages, log: Root, snapshot: Root, base: int, chunks: int, wal: _ReadWal
) -> _SalvagedState:
    last = max((sequence for sequence, _ in _whole_records(pages, log, base)), default=base)
    behind = wal(last)
    return _SalvagedState(log, snapshot, base, chunks, last + len(behind), behind)


def _whole_wal(path: Path, note: bytes, after: int) -> list[tuple[int, bytes]]:
    """Return the records that the WAL has behind a record, up to the first that is damaged."""
    try:
        found = read_wal(path, unpack_salt(note), after)
    except codec.CodecError:
        return []
    records = [] if found is None else enumerate(found.values, after + 1)
    return list(
        takewhile(lambda record: _is_whole(partial(unpack_record, record[0]), record[1]), records)
    )


def _check_format(found: dict[bytes, bytes], path: Path, shard: int) -> None:
    content = found.get(b"format", b"")
    if len(content) != FORMAT.size:
        return
    kind, version, kept_shard = FORMAT.unpack(content)
    if kind != KIND or kept_shard != shard:
        raise foreign_error(f"the log in {path}", "it is another one's")
    if version > WAL_FORMAT:
        raise newer_error(f"the log in {path}", version, WAL_FORMAT)


def _whole_chunks(pages: Pages, snapshot: Root, base: int) -> Iterator[tuple[int, bytes]]:
    for key, data in pages.items(snapshot):
        if len(key) != CHUNK.size:
            continue
        sequence, number = CHUNK.unpack(key)
        if sequence == base and _is_whole(codec.decode_parts, data):
            yield number, data


def _whole_records(pages: Pages, log: Root, base: int) -> Iterator[tuple[int, bytes]]:
    wanted = base + 1
    for key, value in pages.items(log):
        if len(key) != SEQUENCE.size or (sequence := SEQUENCE.unpack(key)[0]) < wanted:
            continue
        if sequence > wanted or not _is_whole(partial(unpack_record, sequence), value):
            return
        yield sequence, value
        wanted += 1


def _is_whole(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except codec.NewerError as error:
        raise EngineError(str(error)) from error  # it is whole: nothing of it may be dropped
    except codec.CodecError:
        return False
    return True


def _groups(items: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    group: list[tuple[int, bytes]] = []
    size_bytes = 0
    for item in items:
        group.append(item)
        size_bytes += len(item[1])
        if size_bytes >= GROUP_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group
