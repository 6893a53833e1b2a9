"""Long-lived processes that outlive the command that started them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.commands import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEATH_TIMEOUT_S: Final = 20.0
STAT_START_TIME_FIELD: Final = 19  # counted from the state, the first field behind the name


@dataclass(frozen=True, slots=True)
class Process:
    """A process by its number and the clock tick of its start: numbers are used again."""

    pid: int
    started_tick: int


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def identify(pid: int) -> Process | None:
    """Return the running process of a number, or None."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return Process(pid, int(fields[STAT_START_TIME_FIELD]))


def is_running(process: Process) -> bool:
    return identify(process.pid) == process


def spawn(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Process:
    """Start a command in a session of its own, its output going to a log file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawnp(
        command[0],
        list(command),
        dict(os.environ if env is None else env),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return identify(pid) or Process(pid, 0)


def kill(process: Process) -> None:
    """SIGKILL a process, when it is still the same one, and wait until it is gone."""
    if is_running(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not is_running(process), f"end of process {process.pid}", DEATH_TIMEOUT_S)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


class ProcessTable:
    """The processes of a cluster, kept as one file each so that any command can end them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._directory.glob("*.json"))

    def get(self, name: str) -> Process | None:
        try:
            fields = json.loads(self._path(name).read_text())
        except FileNotFoundError:
            return None
        return Process(pid=int(fields["pid"]), started_tick=int(fields["started_tick"]))

    def start(
        self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        process = spawn(command, log, env)
        self._path(name).write_text(json.dumps(asdict(process)))

    def end(self, name: str) -> None:
        process = self.get(name)
        if process is not None:
            kill(process)
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"
