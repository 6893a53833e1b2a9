"""What is wrong with a store, said together with what to do about it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError

if TYPE_CHECKING:
    from pathlib import Path

_RESTORE: Final = "put a backup in its place, or move the directory away to start empty"
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


def damaged(what: str, why: object) -> EngineError:
    """Return the error of a store, or a part of one, that does not hold what was written."""
    return EngineError(f"{what} is foreign or damaged: {why}: {_RESTORE}")


def newer(what: str, found: object, known: int) -> EngineError:
    """Return the error of a format that another version made."""
    return EngineError(
        f"{what} has format {found}, this version reads {known}: "
        "use the version that wrote it, or a newer one"
    )


def unusable(what: str, path: Path, error: Exception) -> EngineError:
    """Return the error of a directory or file that the system does not let the member use."""
    if isinstance(error, OSError) and error.errno is not None:
        advice = _ADVICE.get(error.errno)
        reason = os.strerror(error.errno)
        place = error.filename or path
        return EngineError(f"cannot use {what} {place}: {reason}" + (f": {advice}" * bool(advice)))
    return EngineError(f"cannot use {what} {path}: {error}: check the disk and its free space")
