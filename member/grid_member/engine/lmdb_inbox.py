"""What waits for the thread that writes a log: records, and how long it may take over them."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from grid_member.engine.log import taken_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.operations import Record

GROUP_RECORDS: Final = 1024
"""Records of one transaction at most."""
GROUP_BYTES: Final = 32 * 1024 * 1024
"""Bytes after which a transaction takes no further record."""


class Inbox:
    """The event loop's thread puts in, the writer's takes out."""

    def __init__(self) -> None:
        self.closing = False
        """Whether the writer is to end when nothing is left."""
        self._arrived = threading.Condition()
        self._records: deque[Record] = deque()
        self._patience_ends_s = math.inf

    # The event loop's side

    def append(self, record: Record) -> None:
        """Let a record be written."""
        with self._arrived:
            self._records.append(record)
            self._arrived.notify()

    def wake(self) -> None:
        """Let the writer look for something to do."""
        with self._arrived:
            self._arrived.notify()

    def lose_patience(self, within_s: float) -> None:
        """Let the writer wait only for so long for a disk that does not tell what it did."""
        with self._arrived:
            ends_s = time.monotonic() + within_s
            self._patience_ends_s = min(self._patience_ends_s, ends_s)
            self._arrived.notify()

    def close(self) -> None:
        """Let the writer end when nothing is left."""
        self.closing = True
        self.lose_patience(0)

    # The writer's side

    def wait(self, wakes: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait for a record, the end or what wakes the writer else; False when the time is over."""
        with self._arrived:
            return self._arrived.wait_for(
                lambda: bool(self._records) or self.closing or wakes(), timeout_s
            )

    def take(self) -> tuple[list[Record], int]:
        """Return the records that go into one transaction, and what they take in a log, about."""
        taken: list[Record] = []
        size_bytes = 0
        with self._arrived:
            while self._records and len(taken) < GROUP_RECORDS and size_bytes < GROUP_BYTES:
                taken.append(self._records.popleft())
                size_bytes += record_bytes(taken[-1])
        return taken, size_bytes

    def hand_out(self, time_s: float, refuse: Callable[[list[Record]], None]) -> bool:
        """Have refused what arrives for so long; False when nothing is to be waited for any more.

        What arrived before is refused, too.
        """
        ends_s = time.monotonic() + time_s
        while True:
            with self._arrived:
                left_s = min(ends_s, self._patience_ends_s) - time.monotonic()
                if not self._records and left_s > 0:
                    self._arrived.wait(left_s)
                records = list(self._records)
                self._records.clear()
            if records:
                refuse(records)
            if time.monotonic() >= min(ends_s, self._patience_ends_s):
                return ends_s < self._patience_ends_s


def record_bytes(record: Record) -> int:
    """Return what the record takes in a log, about."""
    return sum(map(taken_bytes, record.operations))
