"""Removing the control groups of a machine, whichever version of them the host has."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from tests.e2e.provider.commands import wait_until

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
REMOVAL_TIMEOUT_S: Final = 20.0


def cgroup_directories(prefix: str) -> list[Path]:
    """Return the topmost control groups whose names start so, in every hierarchy."""
    places = [CGROUP_ROOT, *(path for path in CGROUP_ROOT.iterdir() if path.is_dir())]
    return sorted({found for place in places for found in place.glob(f"{prefix}*")})


def remove_cgroups(prefix: str) -> None:
    """Remove the control groups whose names start so, as soon as the kernel has emptied them."""

    def all_gone() -> bool:
        for top in cgroup_directories(prefix):
            for directory, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(directory).rmdir()
        return not cgroup_directories(prefix)

    wait_until(all_gone, f"removal of the control groups {prefix}*", REMOVAL_TIMEOUT_S)
