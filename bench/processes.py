"""Servers as processes of their own: start, CPU time, memory, end."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
HOST: Final = "127.0.0.1"
START_PATIENCE_S: Final = 60.0
STOP_PATIENCE_S: Final = 60.0
MAX_OPEN_FILES: Final = 65536
_LOOK_AGAIN_S: Final = 0.002
_LAST_WORDS_BYTES: Final = 2000


class BenchError(Exception):
    """Something could not be measured; the message says what to do or what was seen."""


@dataclass(frozen=True, slots=True)
class Server:
    """Processes that answer on one port of the loopback interface."""

    pids: tuple[int, ...]
    port: int


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU time that processes have used since their start, in seconds."""

    user_s: float
    system_s: float


def cpu_time(pids: Sequence[int]) -> CpuTime:
    """Return the CPU time of these processes with all their threads."""
    texts = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") for pid in pids]
    times = [parse_stat(text, os.sysconf("SC_CLK_TCK")) for text in texts]
    return CpuTime(sum(t.user_s for t in times), sum(t.system_s for t in times))


def parse_stat(text: str, ticks_per_s: int) -> CpuTime:
    """Read utime and stime of /proc/PID/stat (proc_pid_stat(5)); the name may hold anything."""
    fields = text.rpartition(")")[2].split()
    return CpuTime(int(fields[11]) / ticks_per_s, int(fields[12]) / ticks_per_s)


def rss_bytes(pids: Sequence[int]) -> int:
    """Return how much memory of these processes is resident."""
    page = os.sysconf("SC_PAGE_SIZE")
    texts = [Path(f"/proc/{pid}/statm").read_text(encoding="utf-8") for pid in pids]
    return sum(int(text.split()[1]) for text in texts) * page


def children(parent: int) -> list[int]:
    """Return the processes that this one started and that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if parse_parent(path.read_text(encoding="utf-8")) == parent:
                found.append(int(path.parent.name))
    return found


def parse_parent(text: str) -> int:
    """Read the parent of /proc/PID/stat."""
    return int(text.rpartition(")")[2].split()[1])


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def raise_open_files() -> int:
    """Let this process and its children open as many files as they may; return how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


@dataclass(frozen=True, slots=True)
class Running:
    """A process of ours and what it writes."""

    process: subprocess.Popen[bytes]
    log_fd: int

    def alive(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        """Return the end of its output."""
        start = max(0, os.fstat(self.log_fd).st_size - _LAST_WORDS_BYTES)
        return os.pread(self.log_fd, _LAST_WORDS_BYTES, start).decode(errors="replace")

    def count(self, words: str) -> int:
        """Return how often it wrote something."""
        return os.pread(self.log_fd, os.fstat(self.log_fd).st_size, 0).count(words.encode())

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Look until it is ready.

        Raises:
            BenchError: the process ended, or it was not ready in time.
        """
        until = time.monotonic() + START_PATIENCE_S
        while time.monotonic() < until and self.alive():
            if ready():
                return
            time.sleep(_LOOK_AGAIN_S)
        raise BenchError(f"a server did not start: {self.last_words()}")


@contextlib.contextmanager
def running(
    command: Sequence[str], given: bytes = b"", environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a server from the top of the project with something to read, and end it.

    The environment adds to this one's.

    Raises:
        BenchError: it ended by itself.
    """
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as stdin:
        stdin.write(given)
        stdin.seek(0)
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=stdin,
            stdout=log,
            stderr=log,
            env={**os.environ, **(environment or {})},
        )
        server = Running(process, log.fileno())
        try:
            yield server
            if not server.alive():
                raise BenchError(f"a server ended by itself: {server.last_words()}")
        finally:
            process.terminate()
            try:
                process.wait(STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(port: int, request: bytes) -> bool:
    """Say whether a server answers this with success by now."""
    with contextlib.suppress(OSError, BenchError):
        return ask(port, request).startswith(b"HTTP/1.1 2")
    return False


def ask(port: int, request: bytes, patience_s: float = 5.0) -> bytes:
    """Send one request on a connection of its own; return the whole answer, head and body."""
    with socket.create_connection((HOST, port), patience_s) as connection:
        connection.sendall(request)
        answer = bytearray()
        while not answer_is_whole(answer):
            chunk = connection.recv(1 << 20)
            if not chunk:
                raise BenchError("a connection was closed before its answer was whole")
            answer += chunk
        return bytes(answer)


def answer_is_whole(answer: bytearray) -> bool:
    """Say whether this is a head and as much body as it announces."""
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    lines = head.lower().split(b"\r\n")
    sizes = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
    return len(body) >= (sizes[0] if sizes else 0)
