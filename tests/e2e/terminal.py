"""A shell that is given the blocks of a page one after the other, as a reader pastes them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CHUNK_BYTES: Final = 65536
SHELL: Final = ("bash", "--noprofile", "--norc")
NOTE_FAILURES: Final = "trap 'failed+=(\"$BASH_COMMAND\")' ERR\n"


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a block."""

    output: str
    """Of both streams, in their order."""
    failed: tuple[str, ...]
    """Commands that ended with another status than 0."""


class Terminal:
    """One shell; variables, functions and background jobs of a block are there for the next."""

    def __init__(self, process: subprocess.Popen[bytes], script: int) -> None:
        self._process = process
        self._script = script

    def run(self, text: str, timeout_s: float) -> Ran:
        """Run a block to its end.

        Raises:
            TimeoutError: It takes longer; the error has its output.
            EOFError: The shell has ended; the error has its output.
        """
        mark = uuid.uuid4().hex
        tail = f"\nprintf '\\n{mark}'; printf '%s\\0' \"${{failed[@]}}\"; echo {mark}\n"
        os.write(self._script, f"failed=()\n{text}{tail}".encode())
        output, failed, _ = self._read(f"{mark}\n", timeout_s).split(mark)
        return Ran(output, tuple(command for command in failed.split("\0") if command))

    def _read(self, end: str, timeout_s: float) -> str:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        until, read = time.monotonic() + timeout_s, b""
        while not read.endswith(end.encode()):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"not done in {timeout_s:.0f} s:\n{read.decode()}")
            chunk = os.read(descriptor, CHUNK_BYTES)
            if not chunk:
                raise EOFError(f"the shell has ended:\n{read.decode()}")
            read += chunk
        return read.decode()


@contextmanager
def open_terminal(directory: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Start a shell in a directory; end it with all that it started."""
    # The script has a descriptor of its own, so that no command reads it as its input.
    reading, script = os.pipe()
    process = subprocess.Popen(
        [*SHELL, f"/dev/fd/{reading}"],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(reading,),
        start_new_session=True,
    )
    os.close(reading)
    with process:
        try:
            os.write(script, NOTE_FAILURES.encode())
            yield Terminal(process, script)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            os.close(script)
