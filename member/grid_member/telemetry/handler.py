"""Sends what a process reports, its log and what it writes to `sys.stderr`, through one writer."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from typing import Final

from grid_member.telemetry.repeats import FIELDS, Repeats
from grid_member.telemetry.writer import LogWriter

STDERR: Final = 2
_MAX_UNENDED_CHARACTERS: Final = 64 * 1024
"""Of a line that does not end: it is passed on in pieces of that size."""


class LogHandler(logging.Handler):
    """Formats records where they are made, and has them written elsewhere."""

    def __init__(self, formatter: logging.Formatter, descriptor: int = STDERR) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._repeats = Repeats()
        self.writer: Final = LogWriter(
            descriptor, self._gap, self._due, lambda: self._repeats.pending
        )
        self.writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        try:
            if self._repeats.admits(record, time.monotonic()):
                self.writer.put(self._line(record))
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Wait a moment until everything is written: `logging.shutdown` calls this at the end."""
        self.writer.flush()

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode("utf-8", "backslashreplace")

    def _due(self, now_s: float) -> list[bytes]:
        lines = []
        for record in self._repeats.due(now_s):
            try:
                lines.append(self._line(record))
            except Exception:  # which would end the thread that writes
                self.handleError(record)
        return lines

    def _gap(self, lines: int) -> bytes:
        message = f"{lines} lines were dropped: they were not read in time or could not be written"
        record = logging.LogRecord("grid.log", logging.WARNING, "", 0, message, (), None)
        setattr(record, FIELDS, {"dropped": lines})
        return self._line(record)


class StderrLines(io.TextIOBase):
    """Stands in for `sys.stderr`: tracebacks and warnings wait for no reader either."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, writer: LogWriter, descriptor: int = STDERR) -> None:
        super().__init__()
        self._writer = writer
        self._descriptor = descriptor
        self._rest = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Take a text; its lines are passed on as they end."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._pass_on(line)
        if len(self._rest) > _MAX_UNENDED_CHARACTERS:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Pass on a line that has not ended. Waits for nothing."""
        with self._lock:
            rest, self._rest = self._rest, ""
            if rest:
                self._pass_on(rest)

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def fileno(self) -> int:
        """Return the descriptor: what writes to it itself bypasses the writer."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._descriptor)

    def _pass_on(self, line: str) -> None:
        self._writer.put(f"{line}\n".encode(self.encoding, self.errors))


def install(formatter: logging.Formatter, level: str) -> None:
    """Send every log line of the process, and what is written to `sys.stderr`, to stderr."""
    handler = LogHandler(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    sys.stderr = StderrLines(handler.writer)


def dropped_lines() -> int:
    """Return how many lines of this process were dropped."""
    handlers = logging.getLogger().handlers
    return sum(h.writer.dropped_count for h in handlers if isinstance(h, LogHandler))
