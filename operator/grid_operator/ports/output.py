"""A text stream that blocks nobody: a thread writes its lines, and what does not fit is dropped.

The operator goes on while its log is not read, on a full disk and without a reader; so does
`gridctl up` with the output of its members.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
import os
import queue
import select
import sys
import threading
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STDOUT: Final = 1
STDERR: Final = 2
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
LINE_OVERHEAD_BYTES: Final = 100
"""What a line takes in the queue besides its bytes."""
DRAIN_S: Final = 1.0
"""How long a process that ends waits for a reader that hangs."""


def gap_text(lines: int) -> str:
    """Return the line that reports missing ones."""
    return f"{lines} lines were dropped: they were not read in time or could not be written"


def replace_stderr(gap: Callable[[int], str]) -> Output:
    """Let what is written to `sys.stderr` wait for no reader, but for a second at the end."""
    output = Output(STDERR, gap)
    atexit.register(output.drain)
    sys.stderr = output
    return output


@contextlib.contextmanager
def unblocked() -> Iterator[None]:
    """Let what is written or logged to stdout and stderr meanwhile wait for no reader."""
    out, err = sys.stdout, sys.stderr
    out.flush()
    sys.stdout, sys.stderr = lines = Output(STDOUT), Output(STDERR)
    _relog(err, lines[1])
    try:
        yield
    finally:
        # Else nothing reads, and the last words are not waited for either.
        if lines[0].drain() and lines[1].drain():
            _relog(lines[1], err)
            sys.stdout, sys.stderr = out, err


def _relog(former: TextIO | Output, stream: TextIO | Output) -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is former:
            handler.setStream(stream)


class Output(io.TextIOBase):
    """Stands in for `sys.stdout` or `sys.stderr`.

    Args:
        descriptor: Where the lines go; it may block, fail and be full.
        gap: Returns the line that reports how many are missing.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, descriptor: int, gap: Callable[[int], str] = gap_text) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._gap = gap
        self._rest = ""
        self._waiting_bytes = 0
        self._missing = 0
        self._queue: queue.SimpleQueue[bytes | threading.Event] = queue.SimpleQueue()
        # Garbage that is collected in the middle of a write may report something itself.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Take a text; each of its lines is written when it has ended."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._put(f"{line}\n".encode(self.encoding, self.errors))
        return len(text)

    def flush(self) -> None:
        """Wait for nothing: each line is on its way."""

    def drain(self) -> bool:
        """Return when all lines are written, or after DRAIN_S; tell which of both."""
        with self._lock:
            if self._rest:
                self.write("\n")
        reached = threading.Event()
        self._queue.put(reached)
        return reached.wait(DRAIN_S)

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._descriptor)

    def _put(self, line: bytes) -> None:
        size = len(line) + LINE_OVERHEAD_BYTES
        if self._waiting_bytes + size > MAX_WAITING_BYTES:
            self._missing += 1
            return
        self._waiting_bytes += size
        self._queue.put(line)

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            if isinstance(item, bytes):
                written = self._write(item)
                with self._lock:
                    self._waiting_bytes -= len(item) + LINE_OVERHEAD_BYTES
                    self._missing += not written
            if self._queue.empty():
                self._report()
            if isinstance(item, threading.Event):
                item.set()

    def _report(self) -> None:
        with self._lock:
            missing, self._missing = self._missing, 0
        if missing and not self._write(f"{self._gap(missing)}\n".encode()):
            with self._lock:
                self._missing += missing

    def _write(self, line: bytes) -> bool:
        rest = memoryview(line)
        try:
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    poll = select.poll()
                    poll.register(self._descriptor, select.POLLOUT)
                    poll.poll()
        except OSError:
            return False
        return True
