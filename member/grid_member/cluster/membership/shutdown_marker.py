"""The marker of a shutdown: a member shut down over REST stays down when something starts it again.

Kubernetes restarts the container of a member that was told to stop. With `shutdown.parked-file` the
call writes that file before it answers, and a member that finds it does not open its data and does
not join. The file is to be in a place that goes with the pod, so that a new pod runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.io.files import sync_directory
from grid_member.engine.io.store_errors import unusable_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grid_member.engine.log.log import Clock

MAX_FILE_BYTES: Final = 4096
"""What is longer was not written by a member; it parks all the same."""
FILE_MODE: Final = 0o600
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_CREATING: Final = ".creating"
_WHAT: Final = "shutdown.parked-file"
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_CALL: Final = re.compile(r"[A-Za-z]{1,32}")
_WHEN: Final = re.compile(r"[0-9TZ:-]{1,32}")


class ShutdownMarker:
    """The file that parks a member. All methods block and raise `EngineError`."""

    def __init__(self, path: Path | None, clock_ms: Clock) -> None:
        """Take the file's path, None when members are not parked."""
        self._path = path
        self._clock_ms = clock_ms

    def find(self) -> str | None:
        """Return why the member is parked and what to do about it, None when it is not.

        Whatever is at the path parks; what cannot be told whether it is there ends the start.
        """
        if self._path is None:
            return None
        try:
            is_file = stat.S_ISREG(os.lstat(self._path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unusable_error(_WHAT, self._path, error) from None
        why = (_read_reason(self._path) if is_file else None) or "its file is there"
        return f"parked: {why}: delete the pod, or remove {self._path} and restart the member"

    def write(self, call: str) -> None:
        """Write the file, synced: the call stops the member."""
        if self._path is None:
            return
        when = time.strftime(_TIME, time.gmtime(self._clock_ms() // 1000))
        content = json.dumps({"reason": call, "time": when}) + "\n"
        with _write_errors(self._path):
            _create_temporary(self._path, content).replace(self._path)
            sync_directory(self._path.parent)

    def check_writable(self) -> None:
        """Find out whether the file could be written; nothing is parked by that."""
        if self._path is not None:
            with _write_errors(self._path):
                _create_temporary(self._path, "\n").unlink()


def _create_temporary(path: Path, content: str) -> Path:
    """Write what becomes the file; return where it is until then."""
    creating = path.with_name(path.name + _CREATING)
    descriptor = os.open(creating, _FLAGS, FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return creating


@contextlib.contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EngineError(f"{unusable_error(_WHAT, path, error)}: nothing is stopped") from None


def _read_reason(path: Path) -> str | None:
    """Return what the file says, None when a member did not write it."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MAX_FILE_BYTES))
        call, when = found["reason"], found["time"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not (isinstance(call, str) and _CALL.fullmatch(call)):
        return None
    if not (isinstance(when, str) and _WHEN.fullmatch(when)):
        return None
    return f"{call} stopped the member at {when}"
