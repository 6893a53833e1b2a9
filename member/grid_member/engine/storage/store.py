"""The directory of a durable member: its lock, its identity and the places of its logs.

    DIRECTORY/lock              held by the process that has the store open
    DIRECTORY/store/store.json  format, member UUID, number of shards
    DIRECTORY/store/shard-N/    the log of shard N
    DIRECTORY/store/opening     there while the store is opened

The store is made in DIRECTORY/creating, synced and renamed, so that there is a whole one or none.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lmdb

from grid_member.engine.api import DataOrigin, EngineError
from grid_member.engine.io.directory_lock import lock_data, lock_directory
from grid_member.engine.io.files import DIRECTORY_MODE, close_files, sync_directory
from grid_member.engine.io.store_errors import damage_error, foreign_error, unusable_error
from grid_member.engine.lmdb.pages import check_pages
from grid_member.engine.lmdb.tables import DATA_FILE, create_log
from grid_member.engine.storage.exchange import (
    OPENING,
    STORE,
    check_unfinished,
    finish_exchange,
)
from grid_member.engine.storage.identity import (
    FORGOTTEN,
    IDENTITY_FILE,
    StoreIdentity,
    read_identity,
    write_identity,
)
from grid_member.engine.storage.manifest import MANIFEST_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CREATING: Final = "creating"
CLUSTER: Final = "cluster"
"""In the directory of one of several members."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_log = logging.getLogger("grid_member.engine.opening")


@dataclass(frozen=True, slots=True)
class Store:
    """An open store; `close` lets another process have it."""

    member: uuid.UUID
    shards: list[Path]
    lock_fds: list[int]
    origin: DataOrigin
    """Where the data came from, as far as the store knows that."""

    def close(self) -> None:
        """Release the directory."""
        close_files(self.lock_fds)


def open_store(directory: Path, shards: int) -> Store:
    """Lock the directory and return the store in it, made now if there is none.

    Raises:
        EngineError: the directory is locked, foreign, of a newer format or damaged.
    """
    try:
        make_directories(directory)
        place = directory / STORE
        check_directory(directory)
        lock_fds = [lock_directory(directory)]
        try:
            check_directory(directory)  # once more: another process may have ended just now
            finish_exchange(directory)
            if not place.exists():
                _create(directory, place, shards)
            identity = read_identity(place / IDENTITY_FILE)
            check_shards(place, identity, shards)
            paths = [shard_path(place, shard) for shard in range(shards)]
            lock_fds += [lock_data(path / DATA_FILE, directory) for path in paths]
            own = identity.restored in {None, FORGOTTEN}
            origin = DataOrigin.OWN if own else DataOrigin.BACKUP
            return Store(identity.member, paths, lock_fds, origin)
        except BaseException:
            close_files(lock_fds)
            raise
    except (OSError, lmdb.Error) as error:
        raise unusable_error("the directory", directory, error) from error


def shard_path(place: Path, shard: int) -> Path:
    """Return where the log of a shard is in a store."""
    return place / f"shard-{shard}"


def check_directory(directory: Path) -> None:
    """Refuse what cannot be a member's directory before anything is written to it.

    Raises:
        EngineError: something else is there; `DamagedStoreError`: a store that is damaged.
    """
    place, creating = directory / STORE, directory / CREATING
    if (directory / MANIFEST_FILE).exists():
        raise EngineError(
            f"{directory} is a backup: start on another base directory and name this one in "
            "persistence.restore-from"
        )
    if (directory / CLUSTER).exists():
        raise EngineError(
            f"{directory} holds the data of one of several members: list them in "
            "network.join.tcp-ip.member-list. To go on alone with their data let them make a "
            "backup, and make that the data of another base directory with grid-member restore"
        )
    if place.exists():
        _check_store(place)
    elif creating.exists():
        check_unfinished(creating)


def _check_store(place: Path) -> None:
    if not place.is_dir():
        raise EngineError(f"{place} is not a directory: choose another base directory")
    if not (place / IDENTITY_FILE).exists():
        ours = any(place.glob("shard-*/data.mdb"))
        raise (damage_error if ours else foreign_error)(str(place), f"it holds no {IDENTITY_FILE}")


def make_directories(directory: Path) -> list[Path]:
    """Make the directory and those above it that are missing, synced; return them, it first."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        sync_directory(path.parent)
    return missing


def _create(directory: Path, place: Path, shards: int) -> None:
    creating = clear_unfinished(directory)
    make_empty(creating, StoreIdentity(uuid.uuid4(), shards))
    creating.rename(place)
    sync_directory(directory)


def clear_unfinished(directory: Path) -> Path:
    """Remove what is left of the making of a store; return where the next one is made.

    Raises:
        EngineError: something else is there.
    """
    creating = directory / CREATING
    if creating.exists():
        check_unfinished(creating)
        shutil.rmtree(creating)
    return creating


def make_empty(place: Path, identity: StoreIdentity) -> None:
    """Make a store without data, synced but for its own name."""
    place.mkdir(mode=DIRECTORY_MODE)
    for shard in range(identity.shards):
        path = shard_path(place, shard)
        path.mkdir(mode=DIRECTORY_MODE)
        create_log(path, shard)
        sync_directory(path)
    write_identity(place / IDENTITY_FILE, identity)
    sync_directory(place)


def check_shards(place: Path, identity: StoreIdentity, shards: int) -> None:
    """Refuse a store whose logs are not as many as this version makes.

    Raises:
        EngineError: they are more or fewer.
    """
    if identity.shards != shards:
        raise EngineError(
            f"{place / IDENTITY_FILE} has {identity.shards} shards, this version expects "
            f"{shards}: use the version that wrote it"
        )


class CrashMarker:
    """Whether the last start died while it opened the store: the file `opening` tells.

    A damaged page can end the process as LMDB comes to it. The next start would die in the same
    way, and nobody would hear why; so it looks at all pages before it lets LMDB do so. This process
    has locked the store.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._mark = store / OPENING

    def begin(self, logs: Iterable[Path]) -> None:
        """Leave the mark; check the logs first when there is one of a start that died.

        Raises:
            DamagedStoreError: a log is damaged. The mark stays, for the next start to look again.
            EngineError: the directory or a log cannot be used.
        """
        try:
            if not self._mark.exists():
                self._leave_mark()
                return
        except OSError as error:
            raise unusable_error("the directory", self._store, error) from error
        _log.warning("the last start died while it opened the store: every page is checked first")
        for path in logs:
            check_pages(path)

    def end(self) -> None:
        """Remove the mark: the store is open, or this start failed and said why."""
        # Not synced, and not insisted on: a mark that is there after all costs a check.
        with contextlib.suppress(OSError):
            self._mark.unlink(missing_ok=True)

    def _leave_mark(self) -> None:
        try:
            os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            sync_directory(self._store)
        except OSError as error:
            # A member has to start on a full disk, too: that is how room is made on it.
            if error.errno not in _FULL:
                raise
