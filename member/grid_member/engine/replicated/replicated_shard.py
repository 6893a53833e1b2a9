"""A shard of a cluster: its log is shared with the other members, and reads wait for it.

A read is answered once a record of this member that was proposed after the read arrived has come
back: then everything that was answered anywhere before is applied here. One such record serves
all reads that wait; a tick that writes nothing sends an empty one.

A record that was sent comes back, or nobody can tell what becomes of it. Whatever it is, what waits
for it is taken off first and answered then: once each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.api import Refused
from grid_member.engine.jetstream.publisher import GIVE_UP_S
from grid_member.engine.leasehold import Leasehold
from grid_member.engine.local.deliveries import DELIVERY_RETRY_S
from grid_member.engine.local.system import accept_log, always, ignore, nothing
from grid_member.engine.replicated.consistent_cut import MarkerListener, ignore_markers, is_marker
from grid_member.engine.replicated.reload import (
    GONE,
    UNKNOWN,
    LoadedState,
    MemberIncarnation,
    changed_values,
    is_seen,
    items_in_flight,
    keep_local_reads,
    load,
    read_again,
    returns,
    wanted_steps,
)
from grid_member.engine.shard.batching import (
    FEW_OPERATIONS,
    MAX_RECORD_BYTES,
    MAX_SYSTEM_BYTES,
    record_bounds,
)
from grid_member.engine.shard.shard import InFlightRecord, Shard
from grid_member.engine.state.operations import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from grid_member.engine.api import EngineError
    from grid_member.engine.integrity.watermarks import Check
    from grid_member.engine.log.log import Steps
    from grid_member.engine.replicated.shared_log import SharedLog
    from grid_member.engine.shard.shard import Answer
    from grid_member.engine.state.machine import State
    from grid_member.engine.state.operations import Committed, Operation, QueueReturn

ReadCallback: TypeAlias = "Callable[[Refused | None], None]"
"""Is called when the state is current, or with why it cannot be known."""
PROBE_S: Final = 1.0
"""How often a log that confirms nothing is asked whether it does again."""

_logger: Final = logging.getLogger("grid.engine")


class ReplicatedShard(Shard):
    """A shard whose log is shared."""

    def __init__(
        self,
        log: SharedLog,
        member: bytes,
        incarnation: int,
        on_arrival: Callable[[Shard, set[str]], None],
        system_changed: Callable[[set[str]], None] = ignore,
        check: Check = accept_log,
        state: State | None = None,
    ) -> None:
        """Make a shard; nobody waits yet.

        Args:
            log: where records go.
            member: this member's UUID, 16 bytes.
            incarnation: of this start of the member, higher than that of any before.
            on_arrival: is told which queues got items, after each batch in which any did.
            system_changed: is told which system values changed, after each batch; some may not.
            check: raises NatsError when the log that was read is not the one that it should be.
            state: what the log is read into, where that is another one than usual.
        """
        # Members' clocks differ; what is over is decided by the time that all of them know.
        super().__init__(log, member, lambda: self.state.timestamp_ms, on_arrival)
        self.state = state or self.state
        self._refuses_all = True  # nothing would be confirmed
        self._shared = log
        """`_log`, as what it is here."""
        self._readers: list[ReadCallback] = []
        """Of this tick, or of several while the log is crowded."""
        self._reading: dict[int, list[ReadCallback]] = {}
        """By the counter of the record that they wait for."""
        self.leasehold = Leasehold()
        """Until when what is taken here may be handed out."""
        self.readable: Callable[[], Awaitable[None]] = always
        """Returns when it makes sense to read the log; raises NatsError."""
        self.on_begin: Callable[[], None] = nothing
        """Is called when the shard takes records from now on."""
        self._refuses: Callable[[], None] = nothing
        """Is called when the log refuses records, after everything that waited was answered."""
        self._incarnation = incarnation
        self._system_changed, self._check = system_changed, check
        self._probing: asyncio.TimerHandle | None = None
        """Until a log that confirms nothing is asked whether it does again."""
        self._reloading: asyncio.Task[None] | None = None
        self._stopping = self._closing = False
        self._patience_s = GIVE_UP_S
        self.on_markers: MarkerListener = ignore_markers
        self.held_records: list[tuple[Record, Sequence[object] | None]] | None = None
        """Own records that came back and nobody may hear of yet, with their outcomes; None while
        all may be heard of. See `consistent_cut`."""
        self._entered = self.state.cluster_state
        self.state_changed: Callable[[], None] = nothing
        """Is called when the cluster state is another one here, whoever changed it."""
        self.heard_s = 0.0
        """`time.monotonic()` when the last records were applied."""

    def replay(self) -> None:
        """Bring the state up to the log. Blocks; may run on another thread, before `start`."""
        super().replay()
        self.state.system.changes = set()
        self._entered = self.state.cluster_state
        self.heard_s = time.monotonic()

    async def read(self) -> None:
        """Bring the state up to the log, on a thread; one that is waited for no more soon ends."""
        try:
            await self.readable()
            await asyncio.to_thread(self.replay)
            await self._check(self._shared.created, self.state, lambda: self.state)
        except asyncio.CancelledError:
            self._closing = True
            raise

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a new incarnation, whose first record brings taken items back."""
        super().start(loop)
        self.on_begin()

    def lend(self, until_s: float, refuses: Callable[[], None]) -> None:
        """Have a lease until then; refuses is called whenever the log refuses records."""
        self.leasehold.hold(until_s)
        self._refuses = refuses

    def halt(self) -> None:
        """Take and send nothing until the log was read anew: all members leave it."""
        self._shared.halt()
        self.reload()

    @property
    def confirmed_s(self) -> float:
        """When the last own record that came back was sent first, by the loop's clock."""
        return self._shared.confirmed_s

    @property
    def shard(self) -> int:
        """The shard's number."""
        return self._shared.shard

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends."""
        return self._shared.in_contact

    @property
    def answering(self) -> bool:
        """Whether what is proposed or read waits for a quorum, and is not refused at once."""
        return self._shared.refusal is None

    @property
    def refusal(self) -> Refused | None:
        """Why what is proposed or read is refused at once; None when it waits for a quorum."""
        return self._shared.refusal

    def fail(self, error: EngineError) -> None:
        """Take nothing any more."""
        self._shared.fail(error)

    @property
    def busy(self) -> bool:
        """Whether an operation, a read or a record waits for its outcome."""
        return bool(super().busy or self._readers or self._reading)

    def reconnect(self) -> None:
        """Go on over a new connection to the server."""
        self._shared.reconnect()

    def read_when_current(self, reader: ReadCallback) -> None:
        """Call reader when everything is applied that was answered before on any member."""
        refusal = self._shared.refusal
        if refusal is not None:
            reader(refusal)
            return
        self._flush_soon()
        self._readers.append(reader)

    def lease(self, until_s: float, *, ended: bool) -> None:
        """Hear until when the others leave this member what it takes, as `ClusterEngine.lease`."""
        if self._closing:
            return
        if self.leasehold.is_incarnation_due(ended=ended):
            if self._reloading is not None:
                return  # what came of this incarnation is looked for: with the next heartbeat
            self._begin_anew(self._incarnation + 1, UNKNOWN)
        self.leasehold.hold(until_s)
        self._look_for_lease()

    # Consumer

    def take_committed(self, batch: Sequence[Committed]) -> None:
        """Apply the records; answer what this incarnation sent, and the reads that waited."""
        state, member = self.state, self._member
        self.heard_s = time.monotonic()
        if self.leasehold.awaited:
            self._look_for_lease()
        for sequence, timestamp_ms, record in batch:
            outcomes = state.apply(sequence, timestamp_ms, record)
            if state.system.changes and any(map(is_marker, state.system.changes)):
                self.on_markers()
            if record.member == member and record.incarnation == self._incarnation:
                if self.held_records is None:
                    self._complete_record(record, outcomes)
                else:
                    self.held_records.append((record, outcomes))
        self._report_changes()
        mark = state.members.get(member)
        if mark is not None and mark.incarnation > self._incarnation:
            self._begin_anew(mark.incarnation, GONE)
        self.keep_snapshot()
        self._check_settled()

    def keep_snapshot(self) -> None:
        """Have a snapshot written if one is due, as when it was lost, also while idle."""
        if self._reloading is None and self._shared.wants_snapshot(self.state.live_bytes):
            self._shared.store_snapshot(self.state.snapshot())

    def release(self) -> None:
        """Let everybody hear of what was held."""
        held, self.held_records = self.held_records, None
        for record, outcomes in held or ():
            self._complete_record(record, outcomes)
        self._check_settled()

    def refuse_held(self) -> None:
        """Answer what is held that nobody knows; what comes is held further on."""
        held = self.held_records or []
        self.held_records = None if self.held_records is None else []
        for record, outcomes in held:
            self._refuse([record.counter], UNKNOWN)
            self._outcomes(record, outcomes)  # which gives back what it took
        self._check_settled()

    def take_rejected(self, records: Sequence[Record], refused: Refused) -> None:
        """Answer what the log cannot hold; who reads waits for the next record."""
        records = self._own_records(records)
        for record in records:
            self._readers += self._reading.pop(record.counter, ())
        super().take_rejected(records, refused)

    def send_waiting(self) -> None:
        """Send what waited for others to come back."""
        if self._operations or self._system or self._readers:
            self._flush()

    def take_unknown(self, records: Sequence[Record], refused: Refused) -> None:
        """Answer what was in records that did not come back, and what waited behind them."""
        count = len(self._operations) + len(self._system)
        count += self._refuse([one.counter for one in self._own_records(records)], refused)
        if self._stopping and count:
            _logger.warning(
                "the stop waits no more for a quorum: %d operations of shard %d may not be done",
                *(count, self.shard),
            )
        self._refuse_waiting(refused)
        self._look_for_lease()
        self._probe_later()
        self._check_settled()

    def reload(self) -> None:
        """Hear that records were missed, or not applied: read the log anew, before any read."""
        if self._loop is not None and self._reloading is None:
            _logger.warning("the log of shard %d is read anew: records were missed", self.shard)
            self._reloading = self._loop.create_task(self._reload())
            self._give_up_later()

    def lose_patience(self, within_s: float) -> None:
        """Wait only for so long for each record: the member stops."""
        self._stopping = True
        self._patience_s = min(self._patience_s, within_s)
        super().lose_patience(within_s)
        self._give_up_later()

    async def close(self) -> None:
        """Close the log once it has finished what it took."""
        self._closing = True
        if self._probing is not None:
            self._probing.cancel()
        if self._reloading is not None:
            self._reloading.cancel()
        await super().close()

    # Inside

    def _look_for_lease(self) -> None:
        self.leasehold.look(refused=self._shared.refusal is not None)

    def _tell(self, readers: Iterable[ReadCallback], refused: Refused | None) -> None:
        """Call readers; what one of them raises is not the others' business, nor the state's."""
        for reader in readers:
            try:
                reader(refused)
            except Exception as error:
                self._report(error)

    def _refuse_waiting(self, refused: Refused) -> None:
        """Answer what was never sent."""
        in_flight_record = InFlightRecord(self._answers, self._size_bytes)
        self._operations, self._answers, self._size_bytes = [], [], 0
        system, self._system = self._system, []
        readers, self._readers = self._readers, []
        self._answer(in_flight_record, [refused] * len(in_flight_record.answers))
        waiting = InFlightRecord(
            [answer for _, answer, _ in system], sum(size for _, _, size in system)
        )
        self._answer(waiting, [refused] * len(waiting.answers))
        self._tell(readers, refused)
        self._refuses()

    def _refuse(self, counters: Iterable[int], refused: Refused) -> int:
        """Answer what was sent, and who reads behind it; return how many operations that were."""
        count = 0
        for counter in counters:
            in_flight_record = self._in_flight.pop(counter, None)
            if in_flight_record is not None:
                count += len(in_flight_record.answers)
                self._answer(in_flight_record, [refused] * len(in_flight_record.answers))
            self._tell(self._reading.pop(counter, ()), refused)
        return count

    def _give_up(self, in_flight: Mapping[int, InFlightRecord], refused: Refused) -> None:
        """Answer in-flight records that still wait; another incarnation's have equal counters."""
        self._refuse(
            [one for one in in_flight if self._in_flight.get(one) is in_flight[one]], refused
        )
        self._check_settled()

    def _carries(self, counter: int) -> bool:
        return self._shared.carries(counter)

    def _own_records(self, records: Sequence[Record]) -> list[Record]:
        return [record for record in records if record.incarnation == self._incarnation]

    def _send_data(self, operations: list[Operation], in_flight_record: InFlightRecord) -> None:
        few = len(operations) <= FEW_OPERATIONS
        if few and in_flight_record.size_bytes <= MAX_RECORD_BYTES:
            self._send(tuple(operations), in_flight_record)
        else:
            self._send_split(operations, in_flight_record, MAX_RECORD_BYTES)

    def _send_system(self, system: list[tuple[Operation, Answer, int]]) -> None:
        operations = [operation for operation, _, _ in system]
        for start, end in record_bounds(operations, MAX_SYSTEM_BYTES, len(operations)):
            super()._send_system(system[start:end])

    def _steps(self) -> Steps:
        return wanted_steps(self._shared.replay(), lambda: self._closing)

    async def _reload(self) -> None:
        if await read_again(self._shared, self._reload_once):
            self._reloading = None
        else:
            self._give_up(dict(self._in_flight), UNKNOWN)

    def _give_up_later(self) -> None:
        """Wait only for so long for what is on its way; while the log is read nobody else does."""
        if self._loop is not None and self._reloading is not None:
            in_flight = dict(self._in_flight)
            self._loop.call_later(self._patience_s, self._give_up, in_flight, UNKNOWN)

    async def _reload_once(self) -> None:
        await self.readable()
        incarnation = MemberIncarnation(self._member, self._incarnation)
        wanted = incarnation, min(self._in_flight, default=self._counter + 1), lambda: self._closing
        loaded = await asyncio.to_thread(load, self._shared, *wanted, type(self.state))
        await self._check(self._shared.created, loaded.state, lambda: self.state)
        self._go_on_with(loaded, incarnation)

    def _go_on_with(self, loaded: LoadedState, incarnation: MemberIncarnation) -> None:
        """Be in the state that was read, and answer what it holds of this member's records."""
        self.refuse_held()
        old, state = self.state, loaded.state
        self.state = state
        self.on_markers(at_record=False)
        self.heard_s = time.monotonic()
        keep_local_reads(old, state)
        mark = state.members.get(self._member)
        ended = mark is not None and mark.incarnation > incarnation.incarnation
        orphans = items_in_flight(state, self._member) - items_in_flight(old, self._member)
        seen = [one for one in self._in_flight if is_seen(state, incarnation, one)]
        self._shared.forget(seen)
        for counter in sorted(seen):
            in_flight_record = self._in_flight.pop(counter)
            known = None if ended or self.held_records is not None else loaded.outcomes.get(counter)
            outcomes = [UNKNOWN] * len(in_flight_record.answers) if known is None else known
            orphans.difference_update(returns(outcomes))
            self._answer(in_flight_record, outcomes)
            readers = () if ended else self._reading.pop(counter, ())
            if self.held_records is None:
                self._tell(readers, None)
            else:
                self._readers += readers
        for orphan in sorted(orphans):
            # It was taken, and nobody who waited for it will hear of that.
            self._give_back(orphan)
        state.system.changes = changed_values(old, state)
        state.queues.arrivals = set(state.queues.by_name)
        self.take_committed(())
        self._shared.resume()
        if not self._shared.crowded:
            self.send_waiting()

    def _complete_record(self, record: Record, outcomes: Sequence[object] | None) -> None:
        if self._batching is not None:
            self._batching.note_answers(record.counter)
        self._outcomes(record, outcomes)
        self._tell(self._reading.pop(record.counter, ()), None)

    def _outcomes(self, record: Record, outcomes: Sequence[object] | None) -> None:
        in_flight_record = self._in_flight.pop(record.counter, None)
        if outcomes is None:
            # A copy, or the others ended this incarnation before it came: it has no effect.
            if in_flight_record is not None:
                self._answer(in_flight_record, [GONE] * len(in_flight_record.answers))
            return
        if in_flight_record is not None:
            self._answer(in_flight_record, outcomes)
            return
        # It was given up. Nobody waits for what it took any more.
        for returned in returns(outcomes):
            self._give_back(returned)

    def _give_back(self, returned: QueueReturn) -> None:
        """Return an item, however often the log refuses that."""

        def answer(outcome: object) -> None:
            if isinstance(outcome, Refused) and not self._closing and self._loop is not None:
                self._loop.call_later(DELIVERY_RETRY_S, self._give_back, returned)

        self.propose(returned, answer, 0, always=True)

    def _report_changes(self) -> None:
        """Tell of what is new; who hears of it cannot harm the state."""
        state = self.state
        try:
            if state.cluster_state is not self._entered:
                self._entered = state.cluster_state
                self.state_changed()
            if state.queues.arrivals:
                arrivals, state.queues.arrivals = state.queues.arrivals, set()
                self._on_arrival(self, arrivals)
            if state.system.changes:
                changes, state.system.changes = state.system.changes, set()
                self._system_changed(changes)
        except Exception as error:
            self._report(error)

    def _probe_later(self) -> None:
        """Ask the log for as long as it refuses and may yet take records."""
        if self._probing is None and not self._closing and self._loop is not None:
            self._probing = self._loop.call_later(PROBE_S, self._probe)

    def _probe(self) -> None:
        self._probing = None
        if self._shared.refusal is None or self._shared.damaged:
            return
        if not self._shared.crowded:
            # A record that nothing waits for: a stop need not wait for it.
            self._counter += 1
            self._shared.append(Record(self._member, self._incarnation, self._counter, ()))
        self._probe_later()

    def _begin_anew(self, incarnation: int, refused: Refused) -> None:
        """Go on in another incarnation; tell with refused what became of all that this one sent."""
        self.refuse_held()
        self.leasehold.begin_anew()
        self._incarnation = incarnation
        self._counter = 0
        self._shared.withdraw()
        reading, self._reading = self._reading, {}
        self._readers += [reader for readers in reading.values() for reader in readers]
        in_flight, self._in_flight = self._in_flight, {}
        # also what is on its way no more, and not told of yet
        for in_flight_record in in_flight.values():
            self._answer(in_flight_record, [refused] * len(in_flight_record.answers))
        self._begin()
        self.send_waiting()

    def _flush(self) -> None:
        self._flushes = False
        if self._shared.crowded:
            return  # `send_waiting` sends it
        size, batching = len(self._operations) + len(self._readers), self._batching
        if not self._system and batching is not None and batching.holds(size):
            return
        readers, self._readers = self._readers, []
        if self._operations or self._system:
            self._send_waiting()
        else:
            self._send((), InFlightRecord([], 0))
        if readers:
            self._reading[self._counter] = readers
        if batching is not None:
            batching.note_sent(self._counter, size)
