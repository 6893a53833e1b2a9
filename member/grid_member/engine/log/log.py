"""The log: what makes operations durable, and gives them an order and a time.

A log keeps records, and from time to time a snapshot of the state that replaces the records up to
its sequence. It tells its consumer of each record exactly once: committed, in order, or rejected.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from grid_member.engine.state.operation_table import OPERATIONS
from grid_member.engine.state.operations import Committed, Record, made

if TYPE_CHECKING:
    from collections.abc import Generator

    from grid_member.engine.api import Refused
    from grid_member.engine.io.ground import Ground
    from grid_member.engine.state.snapshot import Part, Snapshot

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch."""
Steps: TypeAlias = "Generator[Committed | Sequence[Part], None, None]"
"""What a log holds, in order."""


def wall_clock_ms() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


FOR_EVER_MS: Final = 1 << 60
"""Later than any time of a log."""


def split_notes(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return the records that store something, and the others."""
    growing = [record for record in records if OPERATIONS.grows(record)]
    return growing, [record for record in records if not OPERATIONS.grows(record)]


def committed_at(records: Iterable[Record], first: int, timestamp_ms: int) -> list[Committed]:
    """Return records as they are committed, in sequences from the first one on."""
    return [Committed(place, timestamp_ms, one) for place, one in enumerate(records, first)]


class RecordConsumer(Protocol):
    """Hears what became of records, on the event loop's thread."""

    def take_committed(self, batch: Sequence[Committed]) -> None:
        """Take records that are as safe as the log makes them, in the order of the log."""

    def take_rejected(self, records: Sequence[Record], refused: Refused) -> None:
        """Take records that the log does not hold and never will."""


class Log(Protocol):
    """The log of one shard. All methods but `replay` belong to the event loop's thread."""

    @property
    def shard(self) -> int:
        """The shard whose log this is."""

    @property
    def wants_batches(self) -> bool:
        """Whether a record costs much whatever it carries, so that it should carry much."""

    @property
    def has_other_readers(self) -> bool:
        """Whether other members answer reads, too, of which this one hears late or never."""

    @property
    def refusal(self) -> Refused | None:
        """Why nothing can be stored now; None when it can, as far as is known.

        Records that only remove something may be taken all the same.
        """

    @property
    def ground(self) -> Ground | None:
        """What the log stands on; None when that is not looked at here."""

    def replay(self) -> Steps:
        """Yield the latest snapshot's parts, then the records after it. May block; before start.

        Who stops reading before the end closes it, as it may hold what others wait for.

        Raises:
            EngineError: what is stored is damaged.
        """

    def start(self, consumer: RecordConsumer) -> None:
        """Take records from now on and tell the consumer about them."""

    def append(self, record: Record) -> None:
        """Take a record; the consumer hears of it, perhaps before this returns."""

    def wants_snapshot(self, live_bytes: int) -> bool:
        """Tell whether so much of the log is garbage that a snapshot should replace it."""

    def store_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot of the state at the last record that the consumer was told of.

        The records up to it are purged once the snapshot is safe; until then both are kept.
        """

    def lose_patience(self, within_s: float) -> None:
        """Wait only for so long for a disk that does not tell what became of a commit."""

    async def close(self) -> None:
        """Finish the records that were taken, then release what the log holds."""


def graced_until_ms(log: Log, replayed_ms: int) -> int:
    """Return until when this member may not know of all reads of its maps, as the log has times.

    It knows what it knows from the log's replay, at whose end the log's time was `replayed_ms`.
    """
    return FOR_EVER_MS if log.has_other_readers else replayed_ms


class MemoryLog:
    """A log that keeps nothing: the state is the data."""

    wants_batches = False
    has_other_readers = False
    ground: Ground | None = None

    def __init__(self, clock: Clock, shard: int = 0) -> None:
        self.refusal: Refused | None = None
        """Nothing is refused."""
        self._clock = clock
        self.shard = shard
        self._consumer: RecordConsumer | None = None
        self._sequence = 0
        self._timestamp_ms = 0
        self._waiting: deque[Record] = deque()
        self._consuming = False

    def replay(self) -> Steps:
        """Yield nothing."""
        yield from ()

    def start(self, consumer: RecordConsumer) -> None:
        """Commit records from now on at once."""
        self._consumer = consumer

    def append(self, record: Record) -> None:
        """Commit the record; one that comes from inside the consumer waits its turn."""
        waiting, consumer = self._waiting, self._consumer
        waiting.append(record)
        if self._consuming or consumer is None:
            return
        self._consuming = True
        try:
            while waiting:
                self._sequence += 1
                self._timestamp_ms = max(self._timestamp_ms, self._clock())
                fields = self._sequence, self._timestamp_ms, waiting.popleft()
                consumer.take_committed([made(Committed, fields)])
        finally:
            self._consuming = False

    def wants_snapshot(self, live_bytes: int) -> bool:
        """Never: there is no garbage."""
        return False

    def store_snapshot(self, snapshot: Snapshot) -> None:
        """Keep nothing."""

    def lose_patience(self, within_s: float) -> None:
        """Nothing is waited for."""

    async def close(self) -> None:
        """Release the consumer."""
        self._consumer = None
