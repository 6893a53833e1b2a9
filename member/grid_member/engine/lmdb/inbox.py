"""The thread that writes a log, and what waits for it: records, and how long it may take."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from grid_member.engine.state.operation_table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.state.operations import Record

GROUP_RECORDS: Final = 1024
"""Records of one transaction at most."""
GROUP_BYTES: Final = 32 * 1024 * 1024
"""Bytes after which a transaction takes no further record."""


class Inbox:
    """The event loop's thread puts in, the writer's takes out."""

    def __init__(self) -> None:
        self.closing = False
        """Whether the writer is to end when nothing is left."""
        # Handing over through a condition takes several times as long, of which each commit has
        # its share: its parts are Python, and who is woken first waits for its lock.
        self._arrivals: SimpleQueue[Record | None] = SimpleQueue()
        """None only wakes the writer."""
        self._records: deque[Record] = deque()
        """What the writer has taken out of there already."""
        self._patience_ends_s = math.inf

    # The event loop's side

    def append(self, record: Record) -> None:
        """Let a record be written."""
        self._arrivals.put(record)

    def wake(self) -> None:
        """Let the writer look for something to do."""
        self._arrivals.put(None)

    def lose_patience(self, within_s: float) -> None:
        """Let the writer wait only for so long for a disk that does not tell what it did."""
        self._patience_ends_s = min(self._patience_ends_s, time.monotonic() + within_s)
        self.wake()

    def close(self) -> None:
        """Let the writer end when nothing is left."""
        self.closing = True
        self.lose_patience(0)

    # The writer's side

    @property
    def over(self) -> bool:
        """Whether nothing is left and nothing comes any more."""
        if not self.closing:
            return False
        self._collect()  # what came before the end
        return not self._records

    def wait(self, wakes: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait for a record, the end or what wakes the writer else; False when the time is over."""
        ends_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._collect()
            if self._records or self.closing or wakes():
                return True
            left_s = None if timeout_s is None else ends_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            self._await(left_s)

    def take(self) -> tuple[list[Record], int]:
        """Return the records that go into one transaction, and what they take in a log, about."""
        self._collect()
        taken: list[Record] = []
        size_bytes = 0
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
            left_s = min(ends_s, self._patience_ends_s) - time.monotonic()
            if not self._records and left_s > 0:
                self._await(left_s)
            self._collect()
            records = list(self._records)
            self._records.clear()
            if records:
                refuse(records)
            if time.monotonic() >= min(ends_s, self._patience_ends_s):
                return ends_s < self._patience_ends_s

    def _await(self, timeout_s: float | None) -> None:
        """Wait until anything arrives, or for so long."""
        with contextlib.suppress(Empty):
            self._keep(self._arrivals.get(timeout=timeout_s))

    def _collect(self) -> None:
        """Take out what has arrived."""
        while not self._arrivals.empty():
            self._keep(self._arrivals.get_nowait())

    def _keep(self, arrived: Record | None) -> None:
        if arrived is not None:
            self._records.append(arrived)


def record_bytes(record: Record) -> int:
    """Return what the record takes in a log, about."""
    return sum(map(OPERATIONS.taken_bytes, record.operations))


class Writer:
    """Does the work on a thread that keeps no process alive.

    A disk that answers nothing holds the thread for ever; whoever waits for it on the event loop
    may give up, and the program may end.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        """Begin. For the thread of a running event loop."""
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def await_end(self) -> None:
        """Return when the work is over."""
        await self._over.wait()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            # A closed loop has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._over.set)
