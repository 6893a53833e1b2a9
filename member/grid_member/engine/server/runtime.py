"""Directories of running members: what a member killed at once leaves behind, the next one removes.

A directory is locked for as long as its member lives, before it has the name by which it is found.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grid_member.engine.api import EngineError
from grid_member.engine.io.directory_lock import lock_made

PREFIX: Final = "grid-nats."
_UNNAMED: Final = ".grid-nats."


@dataclass(frozen=True, slots=True)
class Runtime:
    """A directory that is this process's own."""

    path: Path
    _lock_fd: int

    def remove(self) -> None:
        """Remove the directory with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock_fd)


def make_runtime() -> Runtime:
    """Return a new directory, and remove those of this user's processes that are gone.

    Raises:
        OSError: there can be none.
    """
    unnamed = Path(tempfile.mkdtemp(prefix=_UNNAMED))
    lock_fd = lock_made(unnamed)
    path = unnamed.with_name(PREFIX + unnamed.name.removeprefix(_UNNAMED))
    try:
        unnamed.rename(path)
    except BaseException:
        Runtime(unnamed, lock_fd).remove()
        raise
    with contextlib.suppress(OSError):  # what is left takes a little room, no more
        _sweep(path.parent)
    return Runtime(path, lock_fd)


def directory_error(error: OSError) -> EngineError:
    """Return the error of a member that has no place for the files of its nats-server."""
    return EngineError(
        f"one of several members needs a temporary directory for its nats-server ({error}): set "
        "TMPDIR to a directory that the member's user may write"
    )


def _sweep(place: Path) -> None:
    for path in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.geteuid():
                Runtime(path, lock_made(path)).remove()
