"""Files that nobody else may read, and names that last: what everything on a disk begins with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PRIVATE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


def write_new_file(path: Path, text: str) -> None:
    """Write text into a new file, synced, which nobody but its owner may read.

    Raises:
        OSError: it is there already, or cannot be written.
    """
    _write(path, text, os.O_EXCL)


def replace_file(path: Path, text: str) -> None:
    """Have a file hold this and nothing else, also after a power failure, or what it held. Blocks.

    Nobody but its owner may read it.

    Raises:
        OSError: it cannot be written.
    """
    unfinished = path.with_suffix(".new")
    _write(unfinished, text, os.O_TRUNC)
    unfinished.replace(path)
    sync_directory(path.parent)


def _write(path: Path, text: str, flag: int) -> None:
    file_fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flag, PRIVATE_MODE)
    with open(file_fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file_fd)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory as safe as the disk makes them."""
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory_fd)
    finally:
        os.close(directory_fd)


def file_signature(file: Path) -> tuple[int, ...]:
    """Return what changes whenever a file, or a link on the way to it, does; nothing without it."""
    try:
        found = file.stat()
    except OSError:
        return ()
    # The change time cannot be set: it tells also of contents with their old time and size.
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def taken_on_disk(found: os.stat_result) -> int:
    """Return what a file takes on its disk, holes left out."""
    return found.st_blocks * 512  # the unit of stat(2), whatever the blocks of the disk are


def close_files(descriptors: Iterable[int]) -> None:
    """Close those that are open; one below 0 is none."""
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)
