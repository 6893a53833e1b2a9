"""promtool as a tool of tests: the machine's own, or the one of Debian's package."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e.provider.base import CommandError, MissingPartError
from tests.e2e.provider.binaries import cache_root
from tests.e2e.provider.commands import run

PROGRAM: Final = "promtool"
PACKAGE: Final = "prometheus"
OLDEST: Final = (2, 42)
"""The version of Debian 12, with which the tests are known to pass."""
TIMEOUT_S: Final = 600.0


def promtool_program(cache: Path | None = None) -> Path:
    """Return promtool; what Debian has is unpacked into the cache, not installed.

    Installed, the package would start a Prometheus on this machine.

    Raises:
        MissingPartError: There is none here, and no Debian to have it from.
        CommandError: Debian's package cannot be downloaded.
    """
    found = shutil.which(PROGRAM)
    if found is not None and _version(Path(found)) >= OLDEST:
        return Path(found)
    place = (cache or cache_root()) / PACKAGE
    place.mkdir(parents=True, exist_ok=True)
    program = place / PROGRAM
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists() or _version(program) < OLDEST:
            _unpack_into(program)
    return program


def _version(program: Path) -> tuple[int, int]:
    told = re.search(r"version (\d+)\.(\d+)\.", run(program, "--version"))
    return (int(told[1]), int(told[2])) if told else (0, 0)


def _unpack_into(program: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        needed = ".".join(map(str, OLDEST))
        raise MissingPartError(f"{PROGRAM} {needed} or newer is missing: install {PACKAGE}")
    with tempfile.TemporaryDirectory(dir=program.parent, prefix="unpack-") as scratch:
        _download(Path(scratch))
        (package,) = Path(scratch).glob("*.deb")
        run("dpkg-deb", "--extract", package, f"{scratch}/root", timeout_s=TIMEOUT_S)
        unpacked = Path(scratch, "root/usr/bin", PROGRAM)
        if not unpacked.is_file() or _version(unpacked) < OLDEST:
            raise MissingPartError(f"{package.name} has no {PROGRAM} that is new enough")
        # Moved when it is complete: an unpacking that was stopped leaves no half.
        unpacked.rename(program)


def _download(directory: Path) -> None:
    # apt compares the package with the signed lists. It would do so as a user of its own, who may
    # not write here.
    download = ("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", PACKAGE)
    try:
        run(*download, cwd=directory, timeout_s=TIMEOUT_S)
    except CommandError:
        if os.geteuid() != 0:
            raise
        # A new machine has no lists yet.
        run("apt-get", "update", "-qq", timeout_s=TIMEOUT_S)
        run(*download, cwd=directory, timeout_s=TIMEOUT_S)
