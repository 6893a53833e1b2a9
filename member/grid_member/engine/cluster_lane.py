"""A lane of a cluster: its log is shared with the other members, and reads wait for it.

A read is answered once a record of this member that was proposed after the read arrived has come
back: then everything that was answered anywhere before is applied here. One such record serves
all reads that wait; a tick that writes nothing sends an empty one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from grid_member.engine.api import EngineError, Item, Reason, Refused
from grid_member.engine.cluster_reload import (
    EndedError,
    Life,
    Loaded,
    changed_values,
    is_seen,
    items,
    keep_heard,
    load,
    taken,
)
from grid_member.engine.landing import LANDING_RETRY_S
from grid_member.engine.lane import Lane, _Flight
from grid_member.engine.log import Log, taken_bytes
from grid_member.engine.nats.errors import NatsError
from grid_member.engine.operations import (
    MAX_OPERATIONS_PER_RECORD,
    MapPut,
    MapPutBounded,
    QueueOffer,
    QueueReturn,
)
from grid_member.engine.system_side import ignore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from grid_member.engine.lane import Answer
    from grid_member.engine.operations import Committed, Operation, Record

FEW_OPERATIONS: Final = 64
"""Whatever their names and content types, so many of them are no large record."""
MAX_RECORD_BYTES: Final = 256 * 1024
"""Bytes of operations that travel in one record; a larger operation travels alone."""
RELOAD_S: Final = 0.2
"""Until a log that could not be read is read again."""
PROBE_S: Final = 1.0
"""How often an empty record asks a log that confirms nothing whether it does again."""

Reader: TypeAlias = "Callable[[Refused | None], None]"
"""Is called when the state is current, or with why it cannot be known."""

_GONE: Final = Refused(
    Reason.UNAVAILABLE, "the other members took this one for gone: it begins anew"
)

_UNKNOWN: Final = Refused(
    Reason.UNAVAILABLE, "this member fell behind: what was asked for may or may not be done"
)
_logger: Final = logging.getLogger("grid.engine")


def _described_bytes(operation: Operation) -> int:
    """Return what name and content type take, which may be more than the value."""
    if isinstance(operation, (MapPut, MapPutBounded, QueueOffer)):
        return len(operation.name) + len(operation.content_type or "")
    return 0


class SharedLog(Log, Protocol):
    """A log that other members write, too."""

    @property
    def crowded(self) -> bool:
        """Whether records had better wait."""

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what is sent."""

    def connected(self) -> None:
        """Go on over a new connection."""

    def withdraw(self) -> list[Record]:
        """Forget what is on its way."""

    def forget(self, counters: Iterable[int]) -> None:
        """Send those records no more: they are in the log."""

    def resume(self) -> None:
        """Feed what is behind the last replay."""

    def fail(self, error: EngineError) -> None:
        """Take nothing any more."""


class ClusterLane(Lane):
    """A lane whose log is shared."""

    _log: SharedLog

    def __init__(
        self,
        log: SharedLog,
        member: bytes,
        incarnation: int,
        arrived: Callable[[Lane, set[str]], None],
        system_changed: Callable[[set[str]], None] = ignore,
    ) -> None:
        """Make a lane.

        Args:
            log: where records go.
            member: this member's UUID, 16 bytes.
            incarnation: of this start of the member, higher than that of any before.
            arrived: is told which queues got items, after each batch in which any did.
            system_changed: is told which system values changed, after each batch; some may not.
        """
        # Members' clocks differ; what is over is decided by the time that all of them know.
        super().__init__(log, member, lambda: self.state.timestamp_ms, arrived)
        self._first_incarnation = incarnation
        self._system_changed = system_changed
        self._readers: list[Reader] = []
        """Of this tick, or of several while the log is crowded."""
        self._reading: dict[int, list[Reader]] = {}
        """By the counter of the record that they wait for."""
        self._probing = False
        self._reloading: asyncio.Task[None] | None = None
        self._closing = False
        self.heard_s = 0.0
        """`time.monotonic()` when the last records were applied."""

    def replay(self) -> None:
        """Bring the state up to the log. Blocks; may run on another thread, before `start`."""
        super().replay()
        self._incarnation = max(self._incarnation, self._first_incarnation)
        self.state.system.changes = set()

    @property
    def busy(self) -> bool:
        """Whether an operation, a read or a record waits for its outcome."""
        return bool(super().busy or self._readers or self._reading)

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends."""
        return self._log.in_contact

    def connected(self) -> None:
        """Go on over a new connection to the server."""
        self._log.connected()

    def when_current(self, reader: Reader) -> None:
        """Call reader when everything is applied that was answered before on any member."""
        refusal = self._log.refusal
        if refusal is not None:
            reader(refusal)
            return
        if not self._operations and not self._readers and self._loop is not None:
            self._loop.call_soon(self._flush)
        self._readers.append(reader)

    def propose(
        self, operation: Operation, answer: Answer, size_bytes: int, *, always: bool = False
    ) -> None:
        """Send the operation with the next record; refuse it when nothing is confirmed."""
        refusal = self._log.refusal
        if refusal is not None:
            answer(refusal)
        else:
            super().propose(operation, answer, size_bytes, always=always)

    # Feed

    def committed(self, batch: Sequence[Committed]) -> None:
        """Apply the records; answer what this member sent in this life, and who waited to read."""
        state, member = self.state, self._member
        self.heard_s = time.monotonic()
        for sequence, timestamp_ms, record in batch:
            outcomes = state.apply(sequence, timestamp_ms, record)
            if record.member == member and record.incarnation == self._incarnation:
                self._outcomes(record, outcomes)
                self._tell(self._reading.pop(record.counter, ()), None)
        if state.queues.arrivals:
            arrivals, state.queues.arrivals = state.queues.arrivals, set()
            self._arrived(self, arrivals)
        if state.system.changes:
            changes, state.system.changes = state.system.changes, set()
            self._system_changed(changes)
        mark = state.members.get(member)
        if mark is not None and mark.incarnation > self._incarnation:
            self._begin_anew(mark.incarnation)
        if self._log.wants_image(state.live_bytes):
            self._log.store_image(state.snapshot())
        self._check_settled()

    def room(self) -> None:
        """Send what waited for others to come back."""
        if self._operations or self._system or self._readers:
            self._flush()

    def unknown(self, records: Sequence[Record], refused: Refused) -> None:
        """Answer what was in records that did not come back, and what waited behind them."""
        for record in records:
            flight = self._flights.pop(record.counter, None)
            if flight is not None:
                self._answer(flight, [refused] * len(flight.answers))
            self._tell(self._reading.pop(record.counter, ()), refused)
        self._refuse_waiting(refused)
        if not self._probing and self._loop is not None:
            self._probing = True
            self._loop.call_later(PROBE_S, self._probe)
        self._check_settled()

    def lost(self) -> None:
        """Hear that records which were not seen are purged: read them from the log's image.

        The state is not current meanwhile, and no read gets by that.
        """
        if self._loop is not None and self._reloading is None:
            _logger.warning("the log of lane %d went on without this member", self._log.shard)
            self._reloading = self._loop.create_task(self._reload())

    async def close(self) -> None:
        """Close the log once it has finished what it took."""
        self._closing = True
        if self._reloading is not None:
            self._reloading.cancel()
        await super().close()

    # Inside

    async def _reload(self) -> None:
        life = Life(self._member, self._incarnation)
        least = min(self._flights, default=self._counter + 1)
        try:
            while True:
                try:
                    loaded = await asyncio.to_thread(
                        load, self._log, life, least, lambda: self._closing
                    )
                    break
                except NatsError as error:
                    _logger.debug("lane %d is read again: %s", self._log.shard, error)
                    await asyncio.sleep(RELOAD_S)
        except EngineError as error:
            self._log.fail(error)
        except EndedError:
            return
        else:
            self._reloading = None
            self._go_on_with(loaded, life)

    def _go_on_with(self, loaded: Loaded, life: Life) -> None:
        """Be in the state that was read, and answer what it holds of this member's records."""
        old, state = self.state, loaded.state
        self.state = state
        self.heard_s = time.monotonic()
        keep_heard(old, state)
        mark = state.members.get(self._member)
        ended = mark is not None and mark.incarnation > life.incarnation
        orphans = taken(state, self._member) - taken(old, self._member)
        seen = [one for one in self._flights if is_seen(state, life, one)]
        self._log.forget(seen)
        for counter in sorted(seen):
            flight = self._flights.pop(counter)
            outcomes = None if ended else loaded.outcomes.get(counter)
            if outcomes is None:
                outcomes = [_UNKNOWN] * len(flight.answers)
            orphans.difference_update(items(outcomes))
            self._answer(flight, outcomes)
            self._tell(() if ended else self._reading.pop(counter, ()), None)
        for name, item_id in sorted(orphans):
            # It was taken, and nobody who waited for it will hear of that.
            self._give_back(QueueReturn(name, item_id))
        state.system.changes = changed_values(old, state)
        state.queues.arrivals = set(state.queues.found)
        self.committed(())
        self._log.resume()
        if not self._log.crowded:
            self.room()

    def _outcomes(self, record: Record, outcomes: Sequence[object] | None) -> None:
        flight = self._flights.pop(record.counter, None)
        if outcomes is None:
            # A copy, or the others ended this life before it came: it has no effect.
            if flight is not None:
                self._answer(flight, [_GONE] * len(flight.answers))
            return
        if flight is not None:
            self._answer(flight, outcomes)
            return
        # It was given up. Nobody waits for what it took any more.
        for outcome in outcomes:
            if isinstance(outcome, Item):
                self._give_back(QueueReturn(outcome.queue, outcome.item_id))

    def _give_back(self, returned: QueueReturn) -> None:
        """Return an item, however often the log refuses that."""

        def answer(outcome: object) -> None:
            if isinstance(outcome, Refused) and not self._closing and self._loop is not None:
                self._loop.call_later(LANDING_RETRY_S, self._give_back, returned)

        self.propose(returned, answer, 0, always=True)

    def _tell(self, readers: Iterable[Reader], refused: Refused | None) -> None:
        """Call readers; what one of them raises is not the others' business, nor the state's."""
        for reader in readers:
            try:
                reader(refused)
            except Exception as error:
                self._report(error)

    def _refuse_waiting(self, refused: Refused) -> None:
        """Answer what was never sent."""
        flight = _Flight(self._answers, self._size_bytes)
        self._operations, self._answers, self._size_bytes = [], [], 0
        system, self._system = self._system, []
        readers, self._readers = self._readers, []
        self._answer(flight, [refused] * len(flight.answers))
        waiting = _Flight([answer for _, answer, _ in system], sum(size for _, _, size in system))
        self._answer(waiting, [refused] * len(waiting.answers))
        self._tell(readers, refused)

    def _probe(self) -> None:
        self._probing = False
        if self._log.refusal is not None and not self._log.crowded:
            self._send((), _Flight([], 0))
        if self._log.refusal is not None and self._loop is not None:
            self._probing = True
            self._loop.call_later(PROBE_S, self._probe)

    def _begin_anew(self, incarnation: int) -> None:
        """Go on in another life: nothing that was sent in this one and not seen has any effect."""
        self._incarnation = incarnation
        self._counter = 0
        for record in self._log.withdraw():
            flight = self._flights.pop(record.counter, None)
            if flight is not None:
                self._answer(flight, [_GONE] * len(flight.answers))
        reading, self._reading = self._reading, {}
        self._readers += [reader for readers in reading.values() for reader in readers]
        self._flights.clear()
        self._begin()
        self.room()

    def _flush(self) -> None:
        if self._log.crowded:
            return  # `room` sends it
        if not (self._operations or self._system or self._readers):
            return
        readers, self._readers = self._readers, []
        if self._operations or self._system:
            super()._flush()
        else:
            self._send((), _Flight([], 0))
        if readers:
            self._reading[self._counter] = readers

    def _send_data(
        self, operations: list[Operation], answers: list[Answer], flight: _Flight
    ) -> None:
        if flight.size_bytes <= MAX_RECORD_BYTES and len(operations) <= FEW_OPERATIONS:
            super()._send_data(operations, answers, flight)
            return
        start, size_bytes = 0, 0
        for place, operation in enumerate(operations):
            taken = taken_bytes(operation) + _described_bytes(operation)
            full = size_bytes + taken > MAX_RECORD_BYTES
            if place > start and (full or place - start == MAX_OPERATIONS_PER_RECORD):
                self._send(tuple(operations[start:place]), _Flight(answers[start:place], 0))
                start, size_bytes = place, 0
            size_bytes += taken
        # What waits is counted off with the last of them.
        self._send(tuple(operations[start:]), _Flight(answers[start:], flight.size_bytes))
