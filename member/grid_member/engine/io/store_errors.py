"""What is wrong with a store, said together with what to do about it."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING, Final

import lmdb
from lmdb.verify import VerifyError

from grid_member.engine.api import EngineError
from grid_member.engine.state.codec import CodecError, NewerError

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
    errno.ENOMEM: "give the member memory and address space",
    errno.EMFILE: "raise the limit of open files",
    errno.ENFILE: "raise the limit of open files",
}
_CONTENT: Final = (
    lmdb.InvalidError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
    lmdb.NotFoundError,
    lmdb.IncompatibleError,
    lmdb.CursorFullError,
    struct.error,
    VerifyError,
    CodecError,
)
"""What only the content of a log can be the reason of."""
LOG_ERRORS: Final = (*_CONTENT, lmdb.Error, OSError, MemoryError)
"""What opening or reading a log raises; `failed` tells what it means."""


class DamagedStoreError(EngineError):
    """A store of a member does not hold what was written: a recovery may get what is left."""


def damage_error(what: str, why: object) -> DamagedStoreError:
    """Return the error of a store, or a part of one, that does not hold what was written."""
    return DamagedStoreError(f"{what} is foreign or damaged: {why}: {_RESTORE}")


def open_error(path: Path, error: Exception) -> EngineError:
    """Return the error of a log that cannot be opened or read.

    It is damaged only if its content is the reason. What the system lacks at the moment, memory or
    file descriptors, may be there at the next start; what is newer is there for a newer version.
    """
    if isinstance(error, NewerError):
        return EngineError(f"the log in {path}: {error}")
    if isinstance(error, _CONTENT):
        return damage_error(f"the log in {path}", error)
    return unusable_error("the log", path, error)


def foreign_error(what: str, why: object) -> EngineError:
    """Return the error of something in a store's place that no recovery may touch."""
    return EngineError(f"{what} is foreign or damaged: {why}: {_RESTORE}")


def newer_error(what: str, found: object, known: int) -> EngineError:
    """Return the error of a format that another version made."""
    return EngineError(
        f"{what} has format {found}, this version reads {known}: "
        "use the version that wrote it, or a newer one"
    )


def unusable_error(what: str, path: Path, error: Exception) -> EngineError:
    """Return the error of a directory or file that the system does not let the member use."""
    if isinstance(error, (MemoryError, lmdb.MemoryError)):
        error = OSError(errno.ENOMEM, "", str(path))
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
