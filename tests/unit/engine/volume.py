"""A small real file system for tests that fill it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024 * 1024


@contextlib.contextmanager
def volume(place: Path, size_bytes: int) -> Iterator[Path]:
    """Mount an empty file system of so many bytes at place while the context lasts."""
    place.mkdir()
    options = f"size={size_bytes},uid={os.getuid()},mode=0755"
    run = [*privilege(), "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    subprocess.run(run, check=True, capture_output=True)
    try:
        yield place
    finally:
        # Lazily: a process that a failed test left behind must not keep the mount.
        subprocess.run([*privilege(), "umount", "--lazy", str(place)], check=True)


def fill(ballast: Path, left_bytes: int = 0) -> None:
    """Make a file that takes all of its file system but left_bytes."""
    disk = os.statvfs(ballast.parent)
    with ballast.open("ab") as file:
        size_bytes = disk.f_bavail * disk.f_frsize - left_bytes
        if size_bytes > 0:
            os.posix_fallocate(file.fileno(), file.tell(), size_bytes)


def privilege() -> list[str]:
    """What to put before a command that only root may run."""
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as parent:
        try:
            with volume(Path(parent) / "disk", MIB):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


needs_volumes: Final = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not (shutil.which("mount") and _can_mount()),
    reason="small volumes need the right to mount: root, or `sudo -n`",
)
"""Marks tests with volumes: a CI that has not the right fails them, elsewhere they are left out."""
