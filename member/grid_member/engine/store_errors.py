"""What is wrong with a store, said together with what to do about it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError

if TYPE_CHECKING:
    from pathlib import Path

_RESTORE: Final = "put a backup in its place, or move the directory away to start empty"
_FULL_BYTES: Final = 64 * 1024
"""Room below which a failed write was one too many."""
_ADVICE: Final = {
    errno.EACCES: "let the member's user read and write it",
    errno.EPERM: "let the member's user read and write it",
    errno.EROFS: "mount it writable",
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "raise the quota or make room",
    errno.EFBIG: "raise the limit of the file size",
    errno.ENOTDIR: "a part of it is a file: choose another directory",
    errno.EEXIST: "it is a file: choose another directory",
    errno.EIO: "check the disk",
}


class DamagedStoreError(EngineError):
    """A store of a member does not hold what was written: a recovery may get what is left."""


def damaged(what: str, why: object) -> DamagedStoreError:
    """Return the error of a store, or a part of one, that does not hold what was written."""
    return DamagedStoreError(f"{what} is foreign or damaged: {why}: {_RESTORE}")


def foreign(what: str, why: object) -> EngineError:
    """Return the error of something in a store's place that no recovery may touch."""
    return EngineError(f"{what} is foreign or damaged: {why}: {_RESTORE}")


def newer(what: str, found: object, known: int) -> EngineError:
    """Return the error of a format that another version made."""
    return EngineError(
        f"{what} has format {found}, this version reads {known}: "
        "use the version that wrote it, or a newer one"
    )


def unusable(what: str, path: Path, error: Exception) -> EngineError:
    """Return the error of a directory or file that the system does not let the member use."""
    if not isinstance(error, OSError) and _is_full(path):
        # LMDB calls a write of which only a part had room an input/output error.
        error = OSError(errno.ENOSPC, "", str(path))
    if isinstance(error, OSError) and error.errno is not None:
        advice = _ADVICE.get(error.errno)
        reason = os.strerror(error.errno)
        place = error.filename or path
        return EngineError(f"cannot use {what} {place}: {reason}" + (f": {advice}" * bool(advice)))
    return EngineError(f"cannot use {what} {path}: {error}: check the disk and its free space")


def _is_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _FULL_BYTES
