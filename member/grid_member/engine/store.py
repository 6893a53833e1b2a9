"""The directory of a durable member: its lock, its identity and the places of its logs.

    DIRECTORY/lock              held by the process that has the store open
    DIRECTORY/store/store.json  format, member UUID, number of shards
    DIRECTORY/store/shard-N/    the log of shard N

The store is made in DIRECTORY/creating, synced and renamed, so that there is a whole one or none.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lmdb

from grid_member.engine.api import EngineError
from grid_member.engine.lmdb_tables import create_log
from grid_member.engine.store_errors import damaged, newer, unusable

if TYPE_CHECKING:
    from pathlib import Path

STORE_FORMAT: Final = 1
"""Counts changes of the layout that an older program must not touch."""
DIRECTORY_MODE: Final = 0o700
_KIND: Final = "grid-member"


@dataclass(frozen=True, slots=True)
class Store:
    """An open store; `close` lets another process have it."""

    member: uuid.UUID
    shards: list[Path]
    lock_fd: int

    def close(self) -> None:
        """Release the directory."""
        os.close(self.lock_fd)


def open_store(directory: Path, shards: int) -> Store:
    """Lock the directory and return the store in it, made now if there is none.

    Raises:
        EngineError: the directory is locked, foreign, of a newer format or damaged.
    """
    try:
        _make_directories(directory)
        place = directory / "store"
        creating = directory / "creating"
        if place.exists():
            _check_store(place)
        elif creating.exists():
            _check_unfinished(creating)
        lock_fd = _lock(directory)
        try:
            if not place.exists():
                _create(directory, place, shards)
            member = _read_identity(place / "store.json", shards)
            return Store(member, [_shard(place, shard) for shard in range(shards)], lock_fd)
        except BaseException:
            os.close(lock_fd)
            raise
    except (OSError, lmdb.Error) as error:
        raise unusable("the directory", directory, error) from error


def _shard(place: Path, shard: int) -> Path:
    return place / f"shard-{shard}"


def _check_store(place: Path) -> None:
    """Refuse what cannot be a store before anything is written beside it."""
    if not place.is_dir():
        raise EngineError(f"{place} is not a directory: choose another base directory")
    if not (place / "store.json").exists():
        raise damaged(str(place), "it holds no store.json")


def _check_unfinished(creating: Path) -> None:
    """Refuse what is not left of the making of a store that was interrupted."""
    ours = {"store.json", "data.mdb"}
    for path in creating.rglob("*"):
        known = path.name.startswith("shard-") if path.is_dir() else path.name in ours
        if not known:
            raise EngineError(f"{path} was not written by a grid-member: choose another directory")


def _make_directories(directory: Path) -> None:
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        _sync(path.parent)


def _lock(directory: Path) -> int:
    lock_fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock_fd)
        raise EngineError(
            f"the directory {directory} is in use by another member: "
            "stop it, or give each member a directory of its own"
        ) from None
    return lock_fd


def _create(directory: Path, place: Path, shards: int) -> None:
    creating = directory / "creating"
    if creating.exists():
        _check_unfinished(creating)
        shutil.rmtree(creating)
    creating.mkdir(mode=DIRECTORY_MODE)
    for shard in range(shards):
        path = _shard(creating, shard)
        path.mkdir(mode=DIRECTORY_MODE)
        create_log(path, shard)
        _sync(path)
    identity = {
        "kind": _KIND,
        "format": STORE_FORMAT,
        "member": str(uuid.uuid4()),
        "shards": shards,
    }
    with (creating / "store.json").open("x", encoding="utf-8") as file:
        json.dump(identity, file)
        file.flush()
        os.fsync(file.fileno())
    _sync(creating)
    creating.rename(place)
    _sync(directory)


def _read_identity(path: Path, shards: int) -> uuid.UUID:
    try:
        identity = json.loads(path.read_bytes())
        if identity["kind"] != _KIND:
            raise EngineError(f"{path} was not written by a grid-member: choose another directory")
        if identity["format"] != STORE_FORMAT:
            raise newer(str(path), identity["format"], STORE_FORMAT)
        member = uuid.UUID(identity["member"])
        kept_shards = identity["shards"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged(str(path), "it is not what a grid-member writes") from None
    if kept_shards != shards:
        raise EngineError(
            f"{path} has {kept_shards} shards, this version expects {shards}: "
            "use the version that wrote it"
        )
    return member


def _sync(directory: Path) -> None:
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory_fd)
    finally:
        os.close(directory_fd)
