"""The lock of a member's directory: one process has it, for as long as it runs."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from pathlib import Path
from typing import Final

from grid_member.engine.api import EngineError

LOCK: Final = "lock"
LOCK_PATIENCE_S: Final = 5.0
"""How long the process that has a directory may take to end: of a member that is started again the
former one may not be through yet."""
_LOOK_S: Final = 0.05
_LOCKS: Final = Path("/proc/locks")
_FIELDS: Final = 6
"""Of a lock there: number, kind, mode, access, process, file."""
_log: Final = logging.getLogger("grid.engine")


def lock_directory(directory: Path) -> int:
    """Take the directory for this process; return what to close to give it back. Blocks.

    Raises:
        EngineError: another process has it and goes on.
        OSError: there is no such directory, or it cannot be written to.
    """
    until_s: float | None = None
    while (lock_fd := _lock(directory)) is None:
        if until_s is None:
            until_s = time.monotonic() + LOCK_PATIENCE_S
            _log.info("%s is in use%s: waiting for that to end", directory, _by(directory / LOCK))
        elif time.monotonic() >= until_s:
            raise EngineError(
                f"the directory {directory} is in use by another process{_by(directory / LOCK)}: "
                "stop it, or give each member a directory of its own"
            )
        time.sleep(_LOOK_S)
    return lock_fd


def lock_data(path: Path, directory: Path) -> int:
    """Take a file or directory with the data, besides its directory's lock, which may be removed.

    Returns:
        What to close to give it back; -1 where nothing is at the path, as in a store that is
        damaged, or where the file system has no such locks.

    Raises:
        EngineError: another process has it.
        OSError: it cannot be opened.
    """
    if not path.exists():
        return -1
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR
    data_fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        fcntl.flock(data_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(data_fd)
        raise EngineError(
            f"the data in {directory} is in use by another process{_by(path)}, whose lock "
            f"{directory / LOCK} was removed: stop it, or give each member a directory of its own"
        ) from None
    except OSError:  # a network file system may lock no directory
        os.close(data_fd)
        return -1
    return data_fd


def lock_made(directory: Path) -> int:
    """Lock a directory itself, which its maker keeps locked; return what to close to give it back.

    Raises:
        BlockingIOError: another process has it.
        OSError: there is no such directory.
    """
    lock_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock_fd)
        raise
    return lock_fd


def _lock(directory: Path) -> int | None:
    """Return the open lock; None when another process has it."""
    path = directory / LOCK
    while True:
        lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock_fd)
            return None
        if _is_at(lock_fd, path):
            return lock_fd
        # A restore that was refused has removed it since it was opened.
        os.close(lock_fd)


def _is_at(file_fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file_fd), path.stat())
    except FileNotFoundError:
        return False


def _by(path: Path) -> str:
    """Return who has locked a file, nothing if that is not known, as with other containers."""
    try:
        found = path.stat()
        locks = _LOCKS.read_text().splitlines()
    except OSError:
        return ""
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in locks:
        # Whoever waits for one has an arrow in the second place.
        fields = line.split()
        if len(fields) >= _FIELDS and fields[1] == "FLOCK" and fields[5] == file:
            process = int(fields[4])
            return f" (process {process})" if process > 0 else ""
    return ""
