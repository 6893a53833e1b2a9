"""A shard: one log, the state it feeds, and the operations on their way between them.

Operations proposed in one event loop tick travel as one record, or several when they are very
many. Nothing is made for an operation but its tuple and its place in two lists. Those on the
cluster itself travel behind them in one record of their own, so that they are applied together
and neither a large value nor a crowd comes between them.
"""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from grid_member.engine.api import Reason, Refused
from grid_member.engine.log.log import graced_until_ms
from grid_member.engine.shard.batching import BatchingPolicy, record_bounds
from grid_member.engine.shard.tracked_reads import MapReads
from grid_member.engine.state.machine import State
from grid_member.engine.state.operation_table import OPERATIONS
from grid_member.engine.state.operations import (
    MAX_OPERATIONS_PER_RECORD,
    Committed,
    Operation,
    Record,
    made,
)

if TYPE_CHECKING:
    from grid_member.engine.io.ground import Ground
    from grid_member.engine.log.log import Clock, Log, Steps

MAX_WAITING_OPERATIONS: Final = 65_536
"""Operations proposed and not yet answered; more are refused as OVERLOADED."""
MAX_WAITING_BYTES: Final = 256 * 1024 * 1024
"""Bytes of keys and values of those operations."""
SYSTEM_SHARE: Final = 2
"""How many times as much may wait before a system value is refused: data does not keep it out."""
MAX_FULL_NOTES_BYTES: Final = 1024 * 1024
"""Notes that a full log gets: its reserve is for removals, too."""
OPENING_RETRY_S: Final = 0.5
"""Seconds until an incarnation's first record that the log did not take is sent again."""

Answer: TypeAlias = Callable[[Any], None]
"""Takes an operation's outcome or a `Refused`; its type is the operation's business."""

_GROWING: Final = OPERATIONS.growing
_OVERLOADED: Final = Refused(Reason.OVERLOADED, "too many operations wait for the log")


@contextmanager
def without_collection() -> Iterator[None]:
    """Look for no garbage: a replay makes objects that stay, and would take twice as long."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class InFlightRecord(NamedTuple):
    """What waits for a record: a callback for each operation, and their size."""

    answers: list[Answer]
    size_bytes: int


class Shard:
    """Proposes operations to a log and applies what comes back."""

    def __init__(
        self,
        log: Log,
        member: bytes,
        clock: Clock,
        on_arrival: Callable[[Shard, set[str]], None],
    ) -> None:
        """Make a shard of the member with that UUID, 16 bytes; on_arrival hears of new items."""
        self.state = State()
        self._refuses_all = False
        """Whether nothing is taken while the log refuses, not only what stores something."""
        self.reads = MapReads(self, clock, has_other_writers=log.has_other_readers)
        self._log = log
        self._member = member
        self._on_arrival = on_arrival
        self._incarnation = 1
        self._counter = 0
        self._operations: list[Operation] = []
        self._answers: list[Answer] = []
        self._size_bytes = 0
        self._system: list[tuple[Operation, Answer, int]] = []
        self._in_flight: dict[int, InFlightRecord] = {}
        self._waiting = 0
        self._waiting_bytes = 0
        self._full_notes_bytes = 0
        """Notes since the log is full."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._settlement: asyncio.Future[None] | None = None
        self._opening: asyncio.TimerHandle | None = None
        self._flushes = False
        """Whether `_flush` is called at the end of this tick."""
        self._batching: BatchingPolicy | None = None
        """Where a record costs the log much, whatever it carries."""
        if log.wants_batches:
            self._batching = BatchingPolicy(self.send_waiting, self._carries)

    def replay(self) -> None:
        """Bring the state up to the log. Blocks; may run on another thread, before `start`."""
        with without_collection():
            self._replay()
        self.state.queues.arrivals.clear()
        self.state.maps.begin_grace(graced_until_ms(self._log, self.state.timestamp_ms))
        mark = self.state.members.get(self._member)
        if mark is not None:
            self._incarnation = max(self._incarnation, mark.incarnation + 1)

    def _replay(self) -> None:
        with closing(self._steps()) as steps:
            for step in steps:
                if isinstance(step, Committed):
                    self.state.apply(step.sequence, step.timestamp_ms, step.record)
                else:
                    self.state.load(step)

    def _steps(self) -> Steps:
        return self._log.replay()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a new incarnation, whose first record brings taken items back."""
        self._loop = loop
        self._log.start(self)
        self._begin()

    @property
    def ground(self) -> Ground | None:
        """What the log stands on; None when that is not looked at here."""
        return self._log.ground

    @property
    def busy(self) -> bool:
        """Whether an operation or a record waits for its outcome."""
        return bool(self._operations or self._system or self._in_flight)

    @property
    def answering(self) -> bool:
        """Whether what is proposed waits for its outcome, and is not all refused at once."""
        return True

    def propose(
        self, operation: Operation, answer: Answer, size_bytes: int, *, always: bool = False
    ) -> None:
        """Send the operation with this tick's record.

        Refuse it when too many wait, unless it is to be sent always. What a full log would refuse
        does not go into a record with what it takes.
        """
        refusal = self._log.refusal
        if refusal is not None and (self._refuses_all or type(operation) in _GROWING):
            answer(refusal)
            return
        if (
            self._waiting >= MAX_WAITING_OPERATIONS or self._waiting_bytes > MAX_WAITING_BYTES
        ) and not always:
            answer(_OVERLOADED)
            return
        if not self._flushes and self._loop is not None:
            self._flushes = True
            self._loop.call_soon(self._flush)
        self._operations.append(operation)
        self._answers.append(answer)
        self._size_bytes += size_bytes
        self._waiting += 1
        self._waiting_bytes += size_bytes

    def propose_always(self, operations: Sequence[Operation], answer: Answer) -> None:
        """Send operations that store nothing with this tick's record, however many wait.

        Each outcome is answered.
        """
        refusal = self._log.refusal
        if refusal is not None and self._refuses_all:
            for _ in operations:
                answer(refusal)
            return
        self._flush_soon()
        self._operations += operations
        self._answers += [answer] * len(operations)
        self._waiting += len(operations)

    def propose_system(self, operation: Operation, answer: Answer, size_bytes: int = 0) -> None:
        """Send the operation with the record of this tick's operations on the cluster itself."""
        refusal = self._log.refusal if self._refuses_all else None
        if refusal is None and type(operation) in OPERATIONS.notes:
            refusal = self._value_refusal(operation)
        if refusal is not None:
            answer(refusal)
            return
        self._flush_soon()
        self._system.append((operation, answer, size_bytes))
        self._waiting += 1
        self._waiting_bytes += size_bytes

    def _value_refusal(self, put: Operation) -> Refused | None:
        """Return why the system value is not sent; a full log gets notes, but not many."""
        refusal = self._log.refusal
        if refusal is None:
            self._full_notes_bytes = 0
        else:
            notes_bytes = self._full_notes_bytes + OPERATIONS.taken_bytes(put)
            if not OPERATIONS.is_note(put) or notes_bytes > MAX_FULL_NOTES_BYTES:
                return refusal
            self._full_notes_bytes = notes_bytes
        crowded = (
            self._waiting >= SYSTEM_SHARE * MAX_WAITING_OPERATIONS
            or self._waiting_bytes > SYSTEM_SHARE * MAX_WAITING_BYTES
        )
        return _OVERLOADED if crowded else None

    def bound(self) -> int:
        """Return a mark that is passed when all that was proposed before has its outcome."""
        return self._counter + len(self._operations) // MAX_OPERATIONS_PER_RECORD + 2

    def is_passed(self, bound: int) -> bool:
        """Tell whether a mark is passed; under way later than it may be more."""
        if self._counter < bound and (self._operations or self._system):
            return False
        return next(iter(self._in_flight), bound + 1) > bound

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back in this tick or the next one."""
        if self._loop is not None:
            self._loop.call_soon(callback)

    def lose_patience(self, within_s: float) -> None:
        """Let the log wait only for so long for a disk that does not tell what it did."""
        self._log.lose_patience(within_s)

    async def settle(self) -> None:
        """Wait until every operation and record has its outcome."""
        while self.busy:
            self._settlement = asyncio.get_running_loop().create_future()
            await self._settlement

    async def close(self) -> None:
        """Close the log once it has finished what it took."""
        if self._opening is not None:
            self._opening.cancel()
        if self._batching is not None:
            self._batching.end()
        await self._log.close()

    # Consumer

    def take_committed(self, batch: Sequence[Committed]) -> None:
        """Apply the records and answer those that this member sent in this incarnation."""
        state = self.state
        for sequence, timestamp_ms, record in batch:
            outcomes = state.apply(sequence, timestamp_ms, record)
            member, incarnation, counter, _ = record
            if member == self._member and incarnation == self._incarnation:
                in_flight_record = self._in_flight.pop(counter, None)
                if self._batching is not None:
                    self._batching.note_answers(counter)
                if in_flight_record is not None and outcomes is not None:
                    self._answer(in_flight_record, outcomes)
        if self._batching is not None:
            self.send_waiting()
        queues = state.queues
        if queues.arrivals:
            arrivals, queues.arrivals = queues.arrivals, set()
            self._on_arrival(self, arrivals)
        if self._log.wants_snapshot(state.live_bytes):
            self._log.store_snapshot(state.snapshot())
        self._check_settled()

    def send_waiting(self) -> None:
        """Send what waited for others to come back."""
        if self._operations or self._system:
            self._flush()

    def take_rejected(self, records: Sequence[Record], refused: Refused) -> None:
        """Answer the operations of the records with the refusal.

        Those that store nothing travelled with others by chance: they are sent again by themselves.
        """
        for record in records:
            in_flight_record = self._in_flight.pop(record.counter, None)
            if in_flight_record is None:
                continue
            if OPERATIONS.grows(record):
                in_flight_record = self._send_again(record, in_flight_record)
            elif not record.operations and self._loop is not None:
                self._opening = self._loop.call_later(OPENING_RETRY_S, self._begin)
            self._answer(in_flight_record, [refused] * len(in_flight_record.answers))
        if self._batching is not None:
            self.send_waiting()
        self._check_settled()

    def _carries(self, counter: int) -> bool:
        """Tell whether the record of this incarnation with that counter is on its way."""
        return counter in self._in_flight

    def _begin(self) -> None:
        self._send((), InFlightRecord([], 0))

    def _send_again(self, record: Record, in_flight_record: InFlightRecord) -> InFlightRecord:
        """Send what stores nothing; return what is left."""
        left: list[Answer] = []
        for operation, answer in zip(record.operations, in_flight_record.answers, strict=True):
            if type(operation) not in OPERATIONS.sent_again:
                left.append(answer)
                continue
            self._waiting -= 1
            if type(operation) in OPERATIONS.of_system:
                self.propose_system(operation, answer)
            else:
                self.propose(operation, answer, 0, always=True)
        return InFlightRecord(left, in_flight_record.size_bytes)

    def _flush_soon(self) -> None:
        if not self._flushes and self._loop is not None:
            self._flushes = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send what waits, unless a larger batch is awaited."""
        self._flushes = False
        batching, size = self._batching, len(self._operations)
        if batching is None:
            self._send_waiting()
            return
        # A log that cannot store now may not tell for long what became of the last record.
        if not self._system and self._log.refusal is None and batching.holds(size):
            return
        self._send_waiting()
        batching.note_sent(self._counter, size)

    def _send_waiting(self) -> None:
        operations = self._operations
        in_flight_record = made(InFlightRecord, (self._answers, self._size_bytes))
        self._operations, self._answers, self._size_bytes = [], [], 0
        system, self._system = self._system, []
        if operations:
            self._send_data(operations, in_flight_record)
        if system:
            self._send_system(system)

    def _send_data(self, operations: list[Operation], in_flight_record: InFlightRecord) -> None:
        if len(operations) <= MAX_OPERATIONS_PER_RECORD:
            self._send(tuple(operations), in_flight_record)
        else:
            self._send_split(operations, in_flight_record, math.inf)

    def _send_split(
        self, operations: list[Operation], in_flight_record: InFlightRecord, max_bytes: float
    ) -> None:
        answers, size_bytes = in_flight_record
        for start, end in record_bounds(operations, max_bytes):
            # What waits is counted off with the last of them.
            size = size_bytes if end == len(operations) else 0
            self._send(tuple(operations[start:end]), InFlightRecord(answers[start:end], size))

    def _send_system(self, system: list[tuple[Operation, Answer, int]]) -> None:
        size_bytes = sum(size for _, _, size in system)
        in_flight_record = InFlightRecord([answer for _, answer, _ in system], size_bytes)
        self._send(tuple(operation for operation, _, _ in system), in_flight_record)

    def _send(self, operations: tuple[Operation, ...], in_flight_record: InFlightRecord) -> None:
        self._counter += 1
        self._in_flight[self._counter] = in_flight_record
        record = self._member, self._incarnation, self._counter, operations
        self._log.append(made(Record, record))

    def _answer(self, in_flight_record: InFlightRecord, outcomes: Sequence[object]) -> None:
        answers, size_bytes = in_flight_record
        self._waiting -= len(answers)
        self._waiting_bytes -= size_bytes
        for place, answer in enumerate(answers):
            outcome = outcomes[place]
            try:
                answer(outcome)
            except Exception as error:
                self._report(error)

    def _report(self, error: Exception) -> None:
        if self._loop is not None:
            self._loop.call_exception_handler(
                {"message": "an engine callback raised", "exception": error}
            )

    def _check_settled(self) -> None:
        if self._settlement is not None and not self.busy:
            if not self._settlement.done():
                self._settlement.set_result(None)
            self._settlement = None
