"""The log of several members: one stream that a quorum of nats-servers agrees on.

A record is published without waiting for an acknowledgement and is answered when it comes back in
the member's own consumer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.api import ClusterState, EngineError, Reason, Refused
from grid_member.engine.jetstream.clock_skew import ClockSkew
from grid_member.engine.jetstream.compaction import RECORD_BYTES, Compactor
from grid_member.engine.jetstream.consumer import StreamConsumer
from grid_member.engine.jetstream.mismatch import give_up_lost
from grid_member.engine.jetstream.publisher import Publisher
from grid_member.engine.jetstream.replay import SnapshotChunk, replay_log
from grid_member.engine.jetstream.retry import await_growth
from grid_member.engine.leasehold import steady_s
from grid_member.engine.log.log import RecordConsumer
from grid_member.engine.state.codec import (
    CodecError,
    NewerError,
    decode_parts,
    decode_record,
    record_name,
)
from grid_member.engine.state.operations import Committed, Record
from grid_member.engine.state.snapshot import SystemPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from grid_member.engine.io.ground import Ground
    from grid_member.engine.jetstream.consumer import StreamMessage
    from grid_member.engine.jetstream.replay import GiveUp, ReplaySource
    from grid_member.engine.log.log import Steps
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.nats.client.errors import ShortError
    from grid_member.engine.state.snapshot import Snapshot

MAX_IN_FLIGHT: Final = 2
"""Records of this member on their way; what comes meanwhile travels together afterwards."""
CONTACT_S: Final = 5.0
"""Seconds since the last own record came back, or since the oldest that did not was sent."""
INCARNATION_BYTES: Final = 4
"""Of what tells consumers of this start from those of the one before, which are there still."""
CLOSE_S: Final = 2.0
"""How long a close waits for records on their way."""

_log: Final = logging.getLogger("grid.engine.nats")
_NO_QUORUM: Final = "no quorum of members confirms: what was asked for may or may not be done"
_AHEAD: Final = (
    "the clock of shard %d jumped %d s ahead: what lives for a time ends so much early; check the "
    "clocks of the machines"
)
_BACK: Final = (
    "the clock of shard %d was set back by %d s: what lives for a time ends so much late; check "
    "the clocks of the machines"
)
_SHORT: Final = (
    "the log lacks what this member has read of it: what was asked for may or may not be done"
)


class SharedRecordConsumer(RecordConsumer, Protocol):
    """A consumer whose records may be lost from sight."""

    def take_unknown(self, records: Sequence[Record], refused: Refused) -> None:
        """Take records of which nobody can tell what became, or will."""

    def send_waiting(self) -> None:
        """Hear that further records may be sent."""

    def reload(self) -> None:
        """Hear that records which were not seen are purged: the state is in a snapshot."""


class JetStreamLog:
    """The `LogVersion` of one shard of a cluster."""

    wants_batches = True
    ground: Ground | None = None
    refusal: Refused | None = None
    created = ""
    """When the stream was made, as servers told before the last replay."""
    _consumer: SharedRecordConsumer | None = None
    _last = 0
    _last_ms: int | None = None
    """The time of that record, as the stream has it; None: only a snapshot knew it, and does
    not tell."""
    _stored_bytes = 0
    """Of the log behind its snapshot, as the last replay found it."""
    damaged = False
    """Whether nothing is taken any more, for ever."""
    _distrusted = False
    confirmed_s = -math.inf
    """When the last own record that came back was sent first."""
    _returned_s = -1.0
    """When the last own record of a batch was sent; below 0: there was none."""
    _returned_ms = 0
    """Its time."""

    def __init__(
        self,
        client: NatsClient,
        stream: str,
        shard: int,
        member: bytes,
        *,
        source: ReplaySource,
        own_server: Callable[[], str | None],
        stream_consumer: Callable[[], str | None],
        trouble: Callable[[], str | None] = lambda: None,
        short: Callable[[ShortError], None] = lambda _: None,
        time_of: Callable[[int], int] = int,
        report_time: Callable[[float], None] | None = None,
        has_other_readers: bool = True,
        give_up: GiveUp = give_up_lost,
    ) -> None:
        """Make the log of a stream that exists.

        Args:
            client: connected to the member's own server.
            stream: the stream's name.
            shard: the shard's number.
            member: the member's UUID, 16 bytes.
            source: where a thread can read the stream.
            own_server: the name of the member's own server, None when that is of no matter.
            stream_consumer: the name of the server that records are to come from, None: from any.
            trouble: what keeps servers from storing and what to do, None: nothing is known.
            short: hears that it ends too early, each time that it was read.
            time_of: makes a record's time of the stream's, both milliseconds since the epoch.
            report_time: hears the seconds from when own records were sent until they came back and
                were applied, once for those that came back together; None: nobody.
            has_other_readers: whether other members answer reads.
            give_up: takes what may be lost for lost, as `give_up_lost`; blocks.
        """
        self.has_other_readers = has_other_readers
        self._client = client
        self._stream = stream
        self.shard = shard
        """The shard's number."""
        self._member = member
        self._source, self._lost_log = source, give_up
        self._trouble, self._short = trouble, short
        self._time_of, self._report_time = time_of, report_time
        self._publisher = Publisher(client, stream, self._give_up, self._reject)
        self._compactor = Compactor(client, stream, own_server)
        self._clock_skew = ClockSkew()
        incarnation = f"{member.hex()}-{secrets.token_hex(INCARNATION_BYTES)}"
        self._messages = StreamConsumer(
            client, stream, incarnation, stream_consumer, self._take_messages, self._note_loss
        )

    @property
    def crowded(self) -> bool:
        """Whether so much is on its way that operations had better wait and share a record."""
        return len(self._publisher) >= MAX_IN_FLIGHT

    def carries(self, counter: int) -> bool:
        """Tell whether the record of this incarnation with that counter is on its way."""
        return counter in self._publisher

    @property
    def in_contact(self) -> bool:
        """Whether a quorum took a record of this member lately, as far as there was one."""
        oldest_s = self._publisher.oldest_s
        return self.refusal is None and (
            oldest_s is None or asyncio.get_running_loop().time() - oldest_s < CONTACT_S
        )

    def replay(self) -> Steps:
        """Yield the last snapshot's parts, then everything behind it that the stream holds now.

        Blocks; on a thread of its own, before `start` or while the consumer has lost records.

        Raises:
            EngineError: what is stored is damaged.
            NatsError: the stream cannot be read now, or not as far as was begun.
        """
        self._last, self._last_ms, self._stored_bytes = 0, None, 0
        read = replay_log(self._source, self._stream, self._note_begin, self._lost_log)
        with closing(read) as steps:
            for step in steps:
                try:
                    if isinstance(step, SnapshotChunk):
                        empty = [SystemPart(step.log, 0, ClusterState.ACTIVE)]
                        yield decode_parts(step.payload) if step.payload else empty
                        self._last, self._last_ms = step.log, step.log_ms
                        continue
                    record = decode_record(step.payload)
                except CodecError as error:
                    raise self._damage_of(step, error) from None
                yield Committed(step.sequence, self._time_of(step.timestamp_ms), record)
                self._last, self._last_ms = step.sequence, step.timestamp_ms
                self._stored_bytes += len(step.payload) + RECORD_BYTES

    def _note_begin(self, created: str) -> None:
        self.created = created

    def start(self, consumer: RecordConsumer) -> None:
        """Take records from now on and tell the consumer about those of all members."""
        self._consumer = consumer  # type: ignore[assignment]  # a shard of a cluster is more than a RecordConsumer
        self._publisher.start()
        self._compactor.count(self._stored_bytes)
        self._messages.start(self._last, self._last_ms)

    def distrust(self, error: ShortError) -> None:
        """Take nothing until `resume`: what the stream holds now is not what was read of it."""
        self._short(error)
        if not self._distrusted:
            self._distrusted = True
            self._give_up(self.withdraw(), always=True)

    def halt(self) -> None:
        """Take and send nothing until `resume`: all members leave what the stream holds."""
        self._messages.halt()
        self._distrusted = True
        self._give_up(self.withdraw(), always=True)

    async def await_growth(self, error: ShortError, delay_s: float) -> None:
        """Wait until reading it again may help, as `again.await_growth`."""
        await await_growth(self._client, error, delay_s)

    def resume(self) -> None:
        """Consume what is behind the last replay."""
        self._distrusted = False
        self._compactor.count(self._stored_bytes)
        self._messages.resume(self._last, self._last_ms)

    def append(self, record: Record) -> None:
        """Publish a record; the consumer hears of it later."""
        if self.damaged or self._distrusted:
            asyncio.get_running_loop().call_soon(self._give_up, [record])
        else:
            self._publisher.append(record)

    def withdraw(self) -> list[Record]:
        """Forget what is on its way and return it: it can have no effect any more."""
        return self._publisher.withdraw()

    def forget(self, counters: Iterable[int]) -> None:
        """Send those records no more: they are in the log."""
        self._publisher.forget(counters)

    def reconnect(self) -> None:
        """Go on over a new connection to the server."""
        self._messages.renew()
        self._publisher.republish()

    def wants_snapshot(self, live_bytes: int) -> bool:
        """Tell whether a snapshot is to replace the log now; find out before, when it is large."""
        return not self.damaged and self._compactor.wants(live_bytes)

    def store_snapshot(self, snapshot: Snapshot) -> None:
        """Write a snapshot, then purge what it replaces."""
        self._compactor.store(snapshot, self._messages.time_ms(snapshot.sequence))

    def lose_patience(self, within_s: float) -> None:
        """Give up what does not come back in that time, whether sent already or later."""
        self._publisher.lose_patience(within_s)

    async def close(self) -> None:
        """Wait a little for what is on its way, then end the consumer."""
        await self._publisher.close(CLOSE_S if self.refusal is None else 0.0)
        await self._compactor.close()
        await self._messages.close()

    # From the stream

    def _take_messages(self, messages: Sequence[StreamMessage]) -> None:
        consumer = self._consumer
        if consumer is None or self.damaged:
            return
        batch: list[Committed] = []
        try:
            batch.extend(map(self._commit, messages))  # up to the one that is damaged
        except EngineError as error:
            self.fail(error)
        if self.refusal is not None and not self.damaged:
            self._contact(batch)
        consumer.take_committed(batch)
        self._publisher.note_quorum()
        if not self.crowded:
            consumer.send_waiting()
        if self._returned_s >= 0:
            self._batch_returned()

    def _commit(self, message: StreamMessage) -> Committed:
        sequence, timestamp_ms, payload = message
        self._compactor.count_record(len(payload))
        try:
            member, incarnation, counter = record_name(payload)
            own = member == self._member and self._publisher.has_records_of(incarnation)
            record = self._publisher.record_of(counter, payload) if own else None
            if record is None:  # else that spares reading it
                record = decode_record(payload)
        except CodecError as error:
            raise self._damage_of(message, error) from None
        timestamp_ms = self._time_of(timestamp_ms)
        sent_s = self._publisher.take_off(counter) if own else None
        if sent_s is not None:
            self._returned_s, self._returned_ms = sent_s, timestamp_ms
            self.confirmed_s = sent_s
        return Committed(sequence, timestamp_ms, record)

    def _batch_returned(self) -> None:
        """Tell how long that took, and of a jump of the clock that the log has its times of."""
        sent_s, self._returned_s = self._returned_s, -1.0
        now_s = time.monotonic()
        if self._report_time is not None:
            self._report_time(now_s - sent_s)
        jump_s = self._clock_skew.jump_s(self._returned_ms, sent_s, now_s, steady_s() - now_s)
        if jump_s:
            _log.warning(_AHEAD if jump_s > 0 else _BACK, self.shard, abs(jump_s))

    def _contact(self, batch: list[Committed]) -> None:
        if any(one.record.member == self._member for one in batch):
            self.refusal = None
            _log.info("the log %s takes records again", self._stream)

    def fail(self, error: EngineError) -> None:
        """Take nothing any more: what follows cannot be understood without what is damaged."""
        _log.error("%s", error)
        self.damaged = True
        self.refusal = Refused(Reason.UNAVAILABLE, str(error))
        asyncio.get_running_loop().call_soon(self._give_up_all)

    def _damage_of(self, step: StreamMessage | SnapshotChunk, error: CodecError) -> EngineError:
        what = "the image" if isinstance(step, SnapshotChunk) else f"record {step.sequence}"
        wrong = "" if isinstance(error, NewerError) else " is damaged"
        return EngineError(f"{what} of log {self._stream}{wrong}: {error}")

    def _note_loss(self) -> None:
        if self._consumer is not None:
            self._consumer.reload()

    # To the stream

    def _reject(self, record: Record, refused: Refused) -> None:
        if self._consumer is not None:
            self._consumer.take_rejected([record], refused)

    def _give_up_all(self) -> None:
        self._give_up(self.withdraw(), always=True)

    def _give_up(self, records: list[Record], *, always: bool = False) -> None:
        trouble = self._trouble()
        if self.refusal is None:
            why = "no quorum" if trouble is None else trouble
            _log.warning("the log %s does not confirm records: %s", self._stream, why)
        if self.refusal is None or not self.damaged:
            told = filter(None, (trouble, _SHORT if self._distrusted else _NO_QUORUM))
            self.refusal = Refused(Reason.UNAVAILABLE, "; ".join(told))
        if self._consumer is not None and (records or always):
            self._consumer.take_unknown(records, self.refusal)
