"""Putting another store in the place of a member's store, as a whole or not at all.

    salvaged/ ready ──▶ store/ becomes store.damaged-N/ ──▶ salvaged/ becomes store/
    emptied/  ready ──▶ store/ becomes wiping/ ──▶ emptied/ becomes store/ ──▶ wiping/ is removed

The name of the new one is what counts: from its rename on the exchange is finished, now or when the
store is opened next, wherever it was interrupted.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.io.files import sync_directory
from grid_member.engine.storage.identity import IDENTITY_FILE
from grid_member.engine.storage.manifest import MANIFEST_FILE

if TYPE_CHECKING:
    from pathlib import Path

STORE: Final = "store"
SALVAGED: Final = "salvaged"
EMPTIED: Final = "emptied"
DAMAGED: Final = "store.damaged-"
BUILDING: Final = ".exchanging"
"""Where a new store is made; it does not count."""
OPENING: Final = "opening"
"""A file that is in a store while it is being opened."""
_WIPING: Final = "wiping"
_WRITTEN: Final = frozenset(
    {IDENTITY_FILE, MANIFEST_FILE, OPENING, "data.mdb", "lock.mdb", "reserve", "tail"}
)
"""Files of a store or backup; LMDB's own tools leave a lock."""
_SHARD: Final = "shard-"


def exchange(directory: Path, name: str) -> None:
    """Make what was built and synced the store; name is `SALVAGED` or `EMPTIED`."""
    (directory / BUILDING).rename(directory / name)
    sync_directory(directory)
    finish_exchange(directory)


def finish_exchange(directory: Path) -> None:
    """Do the rest of an exchange that was decided, if there is any. Needs the directory's lock.

    Raises:
        EngineError: something else has the name of a part of it. Nothing was changed then.
    """
    for name in (SALVAGED, EMPTIED, _WIPING, BUILDING):
        if os.path.lexists(directory / name):
            check_unfinished(directory / name)
    for name in (SALVAGED, EMPTIED):
        if (directory / name).exists() and not (directory / name / IDENTITY_FILE).exists():
            raise _foreign_error(directory / name)
    place = directory / STORE
    for name in (SALVAGED, EMPTIED):
        ready = directory / name
        if not ready.is_dir():
            continue
        if place.exists():
            place.rename(_aside(directory) if name == SALVAGED else _wiping(directory))
            sync_directory(directory)
        ready.rename(place)
        sync_directory(directory)
    for left in (_WIPING, BUILDING):
        if (directory / left).is_dir():
            shutil.rmtree(directory / left)


def check_unfinished(place: Path) -> None:
    """Refuse what is not left of the making, exchange or removal of a store or backup.

    Raises:
        EngineError: something else is there.
    """
    if place.is_symlink() or not place.is_dir():
        raise _foreign_error(place)
    for path in place.rglob("*"):
        known = path.name.startswith(_SHARD) if path.is_dir() else path.name in _WRITTEN
        if path.is_symlink() or not known:
            raise _foreign_error(path)


def _foreign_error(path: Path) -> EngineError:
    return EngineError(f"{path} was not written by a grid-member: choose another directory")


def _aside(directory: Path) -> Path:
    taken = [number_in(path.name, DAMAGED) for path in directory.iterdir()]
    return directory / f"{DAMAGED}{max(taken, default=0) + 1}"


def _wiping(directory: Path) -> Path:
    wiping = directory / _WIPING
    if wiping.is_dir():
        shutil.rmtree(wiping)
    return wiping


def number_in(name: str, prefix: str) -> int:
    """Return the number behind the prefix, 0 when the name is anything else."""
    digits = name.removeprefix(prefix)
    plain = name.startswith(prefix) and digits.isascii() and digits.isdecimal()
    return int(digits) if plain else 0
