"""Writes the lines of the log in a thread: what reads them may stop, and the member goes on.

    put() ─▶ queue of at most MAX_WAITING_BYTES ─▶ thread ─▶ descriptor
       └──▶ full: dropped, counted, and reported by a line of its own once there is room

A pipe whose reader hangs, a terminal on which someone pressed Ctrl-S, a full disk and a reader that
has gone delay or lose lines; they delay no request and no stop.
"""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""How much may wait to be written: the lines of some seconds at the level debug under load."""
LINE_OVERHEAD_BYTES: Final = 100
"""What a line takes in the queue besides its bytes."""
FLUSH_S: Final = 1.0
"""How long a flush waits: a process that ends does not wait longer for a reader that hangs."""
TICK_S: Final = 1.0
"""Between two looks for lines that are due."""
_BATCH_BYTES: Final = 64 * 1024
"""Written in one call: under load the thread gets few turns."""


_Item: TypeAlias = "bytes | int | threading.Event"
"""A line, how many lines are missing there, or what is set when all before is written."""


class LogWriter:
    """A thread that writes lines to a descriptor.

    Args:
        descriptor: Where to; it may block, fail and be full.
        gap: Returns the line that reports how many lines are missing.
        due: Returns lines that are due at a time of `time.monotonic`; called by the thread.
        pending: Tells whether any will be due later.
    """

    def __init__(
        self,
        descriptor: int,
        gap: Callable[[int], bytes],
        due: Callable[[float], Iterable[bytes]] = lambda _: (),
        pending: Callable[[], bool] = lambda: False,
    ) -> None:
        self._descriptor = descriptor
        self._gap = gap
        self._due = due
        self._pending = pending
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        # Garbage that is collected in the middle of a `put` may report something itself.
        self._lock = threading.RLock()
        self._waiting_bytes = 0
        self.dropped_count = 0
        """How many lines were dropped since the start."""
        self._unreported_count = 0
        self._line_torn = False
        """Whether the last line was written in part, so that the next one begins behind a break."""
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Take a line, which ends with a line break; drop it when too much waits. Never blocks."""
        size = len(line) + LINE_OVERHEAD_BYTES
        with self._lock:
            if self._waiting_bytes + size > MAX_WAITING_BYTES:
                self._lose(1)
                return
            self._waiting_bytes += size
            lost, self._unreported_count = self._unreported_count, 0
            if lost:
                self._queue.put(lost)
            self._queue.put(line)

    def flush(self) -> bool:
        """Return when all that waits is written, or after FLUSH_S; tell which of both."""
        if not self._thread.is_alive():
            return False
        reached = threading.Event()
        self._queue.put(reached)
        return reached.wait(FLUSH_S)

    def _run(self) -> None:
        looked_s = time.monotonic()
        while True:
            item = self._next()
            if item is not None:
                self._take(item)
            if time.monotonic() - looked_s >= TICK_S:
                looked_s = time.monotonic()
                self._write(list(self._due(looked_s)))
            if self._queue.empty():
                self._report()

    def _next(self) -> _Item | None:
        try:
            return self._queue.get(timeout=TICK_S if self._pending() else None)
        except queue.Empty:
            return None

    def _take(self, item: _Item) -> None:
        lines: list[bytes] = []
        size = 0
        while isinstance(item, bytes):
            lines.append(item)
            size += len(item)
            if size >= _BATCH_BYTES or self._queue.empty():
                break
            item = self._queue.get()
        self._write(lines)
        with self._lock:
            self._waiting_bytes -= size + LINE_OVERHEAD_BYTES * len(lines)
        if isinstance(item, int):
            self._report(item)
        elif isinstance(item, threading.Event):
            self._write(list(self._due(float("inf"))))
            self._report()
            item.set()

    def _report(self, lines: int = 0) -> None:
        """Write that lines are missing: so many, and those that no line has reported yet."""
        with self._lock:
            lines += self._unreported_count
            self._unreported_count = 0
        if lines and self._write_some(self._gap(lines)) == 0:
            with self._lock:
                self._unreported_count += lines

    def _write(self, lines: list[bytes]) -> None:
        data = b"".join(lines)
        if not data:
            return
        done = self._write_some(data)
        if done < len(data):
            with self._lock:
                self._lose(sum(end > done for end in accumulate(map(len, lines))))

    def _write_some(self, data: bytes) -> int:
        """Write the data as far as the descriptor takes it; return how many bytes that was."""
        head = b"\n" if self._line_torn else b""
        rest = memoryview(head + data)
        try:
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    self._wait_for_room()
        except OSError:
            pass
        done = len(data) - len(rest)
        if done >= 0:  # else not even the break before it
            self._line_torn = done > 0 and not data[:done].endswith(b"\n")
        return max(done, 0)

    def _wait_for_room(self) -> None:
        # Another process has made the descriptor, which is its own as well, not to block.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll()

    def _lose(self, lines: int) -> None:
        self.dropped_count += lines
        self._unreported_count += lines
