"""What the log of a member that is alone stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine.io.directory_lock import LOCK
from grid_member.engine.io.ground import Ground
from grid_member.engine.lmdb.tables import DATA_FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def log_ground(path: Path, unlinked: Callable[[], bool]) -> Ground:
    """Return what a log in a directory stands on: its data, and the lock of the member's directory.

    Args:
        path: where the log is: in the store of a member's directory, or anywhere.
        unlinked: tells whether another file that it has open has no name any more.
    """
    base = path.parent.parent
    lock = base / LOCK
    if lock.exists():
        return Ground(base, [lock, path / DATA_FILE], unlinked)
    return Ground(path, [path / DATA_FILE], unlinked)
