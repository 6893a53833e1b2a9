"""When what waits in a shard goes out as a record, and what travels together in one.

A record costs every member and every server about the same whatever it carries, so it should carry
much. Clients that were answered together mostly ask again together: what they ask is waited for,
for no longer than the last record took, and only as long as fewer came than it answered. Who is
alone never waits for others.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from grid_member.engine.state.operation_table import OPERATIONS
from grid_member.engine.state.operations import MAX_OPERATIONS_PER_RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from grid_member.engine.state.operations import Operation

ALONE: Final = 2
"""Operations and reads that a record carries when there is nobody to wait for."""
LARGE: Final = 8
"""Behind a record of more than so many the next one waits until it came back, and grows."""
NEARLY_ALL: Final = 0.9
"""Of those who were answered with the last record; who is missing may not come."""
PATIENCE_S: Final = 0.01
"""How long is waited at most. Records take 1 to 10 ms."""
FEW_OPERATIONS: Final = 64
"""Whatever their names and content types, so many of them are no large record."""
MAX_RECORD_BYTES: Final = 256 * 1024
"""Bytes of operations that travel in one record; a larger operation travels alone."""
MAX_SYSTEM_BYTES: Final = 1024 * 1024
"""The same of operations on the cluster itself, which travel together when they can."""


class BatchingPolicy:
    """Decides for one shard."""

    def __init__(self, send: Callable[[], None], carries: Callable[[int], bool]) -> None:
        """Begin without a record.

        Args:
            send: is called when enough time was spent on waiting.
            carries: tells whether the record with that counter is on its way.
        """
        self._send = send
        self._carries = carries
        self._counter = 0
        """Of the record that was sent last."""
        self._size = 0
        self._sent_s = 0.0
        self._expected = 0
        self._patience_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._impatient = False

    def note_sent(self, counter: int, size: int) -> None:
        """Hear that what waited was sent; the counter is that of its last record."""
        self._counter, self._size, self._sent_s = counter, size, time.monotonic()
        self._impatient = False
        self._stop_waiting()

    def note_answers(self, counter: int) -> None:
        """Hear that the answers of a record are known."""
        if counter == self._counter:
            self._expected = self._size
            self._patience_s = min(PATIENCE_S, time.monotonic() - self._sent_s)

    def holds(self, waiting: int) -> bool:
        """Tell whether so many operations and reads are to wait further on; send is called then."""
        if not waiting or (self._size > LARGE and self._carries(self._counter)):
            return True  # the shard has room when that came back
        if self._impatient or self._expected <= ALONE or waiting >= self._expected * NEARLY_ALL:
            return False
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._patience_s, self._enough)
        return True

    def end(self) -> None:
        """Wait for nobody any more."""
        self._expected = 0
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enough(self) -> None:
        self._timer = None
        self._impatient = True
        self._send()


def record_bounds(
    operations: Sequence[Operation],
    max_bytes: float = MAX_RECORD_BYTES,
    max_operations: int = MAX_OPERATIONS_PER_RECORD,
) -> Iterator[tuple[int, int]]:
    """Yield begin and end of what travels in one record, one record after the other."""
    start, size_bytes = 0, 0
    for place, operation in enumerate(operations):
        taken = OPERATIONS.taken_bytes(operation)
        full = size_bytes + taken > max_bytes
        if place > start and (full or place - start == max_operations):
            yield start, place
            start, size_bytes = place, 0
        size_bytes += taken
    yield start, len(operations)
