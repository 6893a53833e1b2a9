"""The log of several members: one stream that a quorum of nats-servers agrees on.

A record is published without waiting for an acknowledgement and is answered when it comes back in
the member's own feed. One that does not come back is published again under its own counter, which
the state machine applies once; after a time it is given up, its outcome unknown.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.codec import (
    CodecError,
    decode_parts,
    decode_record,
    encode_record,
    record_name,
)
from grid_member.engine.log import Feed
from grid_member.engine.nats.cleaning import RECORD_BYTES, Cleaner
from grid_member.engine.nats.errors import WireError
from grid_member.engine.nats.feed import StreamFeed
from grid_member.engine.nats.replay import Chunk, replayed
from grid_member.engine.operations import Committed, Record
from grid_member.engine.state import COUNTER_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from grid_member.engine.image import Image, Part
    from grid_member.engine.nats.client import NatsClient
    from grid_member.engine.nats.feed import Fed
    from grid_member.engine.nats.replay import Source

MAX_IN_FLIGHT: Final = 2
"""Records of this member on their way; what comes meanwhile travels together afterwards."""
MAX_AHEAD: Final = COUNTER_WINDOW // 2
"""Records that are published before the oldest of them came back.

It may be lost and sent again: the state machine knows it from a copy only for so many.
"""
RESEND_S: Final = 1.0
"""Seconds until a record that did not come back is published again."""
NO_LEADER_RESEND_S: Final = 0.1
"""The same when nobody took it: the stream has no leader yet."""
GIVE_UP_S: Final = 10.0
"""Seconds until nobody waits for a record any more; an election takes up to some nine."""
LOOK_S: Final = 0.1
"""How often records that are on their way are looked at."""
CONTACT_S: Final = 5.0
"""Seconds since the last own record came back, or since the oldest that did not was sent."""
STALL_S: Final = 5.0
"""This process stood still for so long when nothing was looked at: the others may have taken it for
gone, and what comes back now may not be its own any more. Below a member's lease."""
CLOSE_S: Final = 2.0
"""How long a close waits for records on their way."""

_log: Final = logging.getLogger("grid.engine.nats")
_NO_QUORUM: Final = Refused(
    Reason.UNAVAILABLE, "no quorum of members confirms: what was asked for may or may not be done"
)

_STALLED: Final = Refused(
    Reason.UNAVAILABLE, "the member stood still: what was asked for may or may not be done"
)


class SharedFeed(Feed, Protocol):
    """A feed whose records may be lost from sight."""

    def unknown(self, records: Sequence[Record], refused: Refused) -> None:
        """Take records of which nobody can tell what became, or will."""

    def room(self) -> None:
        """Hear that further records may be sent."""

    def lost(self) -> None:
        """Hear that records which were not seen are purged: the state is in an image."""


class _Sent(NamedTuple):
    record: Record
    payload: bytes
    first_s: float
    due_s: float
    """When it is published again."""


class JetStreamLog:
    """The `Log` of one lane of a cluster."""

    def __init__(
        self,
        client: NatsClient,
        stream: str,
        shard: int,
        member: bytes,
        *,
        source: Source,
        own_server: Callable[[], str | None],
        time_of: Callable[[int], int] = int,
    ) -> None:
        """Make the log of a stream that exists.

        Args:
            client: connected to the member's own server.
            stream: the stream's name.
            shard: the lane's number.
            member: the member's UUID, 16 bytes.
            source: where a thread can read the stream.
            own_server: the name of the member's own server, None when that is of no matter.
            time_of: makes a record's time of the stream's, both milliseconds since the epoch.
        """
        self.refusal: Refused | None = None
        self._client = client
        self._stream = stream
        self._subject = f"grid.log.{stream}".encode()
        self._shard = shard
        self._member = member
        self._source = source
        self._time_of = time_of
        self._feed: SharedFeed | None = None
        self._last = 0
        self._stored_bytes = 0
        """Of the log behind its image, as the last replay found it."""
        self._reply = client.unused_inbox() + b"."
        self._sent: dict[int, _Sent] = {}
        self._incarnation = 0
        self._published = 0
        """The counter of the last record that was published."""
        self._looked_s = 0.0
        self._damaged = False
        self._timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._cleaner = Cleaner(client, stream, own_server)
        self._messages = StreamFeed(
            client, stream, f"{member.hex()}", own_server, self._fed, self._lost
        )

    @property
    def shard(self) -> int:
        """The lane's number."""
        return self._shard

    @property
    def crowded(self) -> bool:
        """Whether so much is on its way that the next records had better wait and be packed."""
        return len(self._sent) >= MAX_IN_FLIGHT

    @property
    def in_contact(self) -> bool:
        """Whether a quorum took a record of this member lately, as far as there was one."""
        oldest = next(iter(self._sent.values()), None)
        return self.refusal is None and (
            oldest is None or asyncio.get_running_loop().time() - oldest.first_s < CONTACT_S
        )

    def replay(self) -> Iterator[Committed | Sequence[Part]]:
        """Yield the last image's parts, then everything behind it that the stream holds now.

        Blocks; on a thread of its own, before `start` or while the feed has lost records.

        Raises:
            EngineError: what is stored is damaged.
            NatsError: the stream cannot be read now, or not as far as was begun.
        """
        self._last = self._stored_bytes = 0
        for step in replayed(self._source, self._stream):
            try:
                if isinstance(step, Chunk):
                    yield decode_parts(step.payload)
                    self._last = step.log
                    continue
                record = decode_record(step.payload)
            except CodecError as error:
                raise self._damage_of(step, error) from None
            yield Committed(step.sequence, self._time_of(step.timestamp_ms), record)
            self._last = step.sequence
            self._stored_bytes += len(step.payload) + RECORD_BYTES

    def start(self, feed: Feed) -> None:
        """Take records from now on and tell the feed about those of all members."""
        self._feed = feed  # type: ignore[assignment]  # a lane of a cluster is more than a Feed
        self._client.subscribe(self._reply + b"*", self._answered)
        self._cleaner.count(self._stored_bytes)
        self._messages.start(self._last)

    def resume(self) -> None:
        """Feed what is behind the last replay."""
        self._cleaner.count(self._stored_bytes)
        self._messages.resume(self._last)

    def append(self, record: Record) -> None:
        """Publish a record; the feed hears of it later."""
        loop = asyncio.get_running_loop()
        payload = encode_record(record)
        if record.incarnation != self._incarnation:
            self._incarnation, self._published = record.incarnation, 0
        now_s = loop.time()
        self._sent[record.counter] = _Sent(record, payload, now_s, now_s + RESEND_S)
        self._publish_next(now_s)
        if self._timer is None:
            self._looked_s = now_s
            self._timer = loop.call_later(LOOK_S, self._look)

    def withdraw(self) -> list[Record]:
        """Forget what is on its way and return it: it can have no effect any more."""
        records = [sent.record for sent in self._sent.values()]
        self._sent.clear()
        return records

    def forget(self, counters: Iterable[int]) -> None:
        """Send those records no more: they are in the log."""
        for counter in counters:
            self._sent.pop(counter, None)
        self._publish_next(asyncio.get_running_loop().time())

    def connected(self) -> None:
        """Go on over a new connection to the server."""
        self._messages.renew()
        for counter, sent in self._sent.items():
            if counter <= self._published:
                self._publish(counter, sent.payload)

    def wants_image(self, live_bytes: int) -> bool:
        """Tell whether an image is to replace the log now; find out before, when it is large."""
        return not self._damaged and self._cleaner.wants(live_bytes)

    def store_image(self, image: Image) -> None:
        """Write an image, then purge what it replaces."""
        self._cleaner.store(image)

    def lose_patience(self, within_s: float) -> None:
        """Give up what is on its way by then."""
        if self._sent:
            asyncio.get_running_loop().call_later(within_s, self._give_up_all)

    async def close(self) -> None:
        """Wait a little for what is on its way, then end the feed."""
        if self._sent and self.refusal is None:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._drained}, timeout=CLOSE_S)
        if self._timer is not None:
            self._timer.cancel()
        await self._cleaner.close()
        await self._messages.close()

    # From the stream

    def _fed(self, messages: Sequence[Fed]) -> None:
        feed = self._feed
        if feed is None or self._damaged:
            return
        now_s = asyncio.get_running_loop().time()
        if self._sent and now_s - self._looked_s > STALL_S:
            # Messages are read before timers are looked at.
            feed.unknown(self.withdraw(), _STALLED)
        batch: list[Committed] = []
        try:
            batch.extend(map(self._committed, messages))  # up to the one that is damaged
        except EngineError as error:
            self.fail(error)
        if self.refusal is not None and not self._damaged:
            self._contact(batch)
        feed.committed(batch)
        self._publish_next(now_s)
        if not self.crowded:
            feed.room()
        if not self._sent and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _committed(self, message: Fed) -> Committed:
        sequence, timestamp_ms, payload = message
        self._cleaner.fed(len(payload))
        record: Record | None = None
        try:
            member, incarnation, counter = record_name(payload)
            if member == self._member and incarnation == self._incarnation:
                own = self._sent.pop(counter, None)
                if own is not None and own.payload == payload:
                    record = own.record  # which spares reading it
            if record is None:
                record = decode_record(payload)
        except CodecError as error:
            raise self._damage_of(message, error) from None
        return Committed(sequence, self._time_of(timestamp_ms), record)

    def _contact(self, batch: list[Committed]) -> None:
        if any(one.record.member == self._member for one in batch):
            self.refusal = None
            _log.info("the log %s takes records again", self._stream)

    def fail(self, error: EngineError) -> None:
        """Take nothing any more: what follows cannot be understood without what is damaged."""
        _log.error("%s", error)
        self._damaged = True
        self.refusal = Refused(Reason.UNAVAILABLE, str(error))
        asyncio.get_running_loop().call_soon(self._give_up_all)

    def _damage_of(self, step: Fed | Chunk, error: CodecError) -> EngineError:
        if isinstance(step, Chunk):
            return EngineError(f"the image of log {self._stream} is damaged: {error}")
        return EngineError(f"record {step.sequence} of log {self._stream} is damaged: {error}")

    def _lost(self) -> None:
        if self._feed is not None:
            self._feed.lost()

    # To the stream

    def _publish_next(self, now_s: float) -> None:
        """Publish what is not too far ahead of the oldest record that did not come back."""
        newest = next(reversed(self._sent), 0)
        last = min(newest, next(iter(self._sent), 0) + MAX_AHEAD - 1)
        while self._published < last:
            self._published += 1
            sent = self._sent.get(self._published)
            if sent is not None:
                self._sent[self._published] = sent._replace(due_s=now_s + RESEND_S)
                self._publish(self._published, sent.payload)

    def _publish(self, counter: int, payload: bytes) -> None:
        try:
            self._client.publish(self._subject, payload, self._reply + b"%d" % counter)
        except WireError as error:
            # It is given up in time, as one that nobody takes.
            _log.error("a record of %d bytes cannot be sent: %s", len(payload), error)

    def _answered(self, messages: Sequence[object]) -> None:
        """Hear that nobody took a record: no server leads the stream now."""
        due_s = asyncio.get_running_loop().time() + NO_LEADER_RESEND_S
        for counter, sent in self._sent.items():
            if sent.due_s > due_s:
                self._sent[counter] = sent._replace(due_s=due_s)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._looked_s = now_s = loop.time()
        given_up: list[Record] = []
        for counter, sent in list(self._sent.items()):
            if now_s - sent.first_s > GIVE_UP_S:
                del self._sent[counter]
                given_up.append(sent.record)
            elif now_s >= sent.due_s and counter <= self._published:
                self._sent[counter] = sent._replace(due_s=now_s + RESEND_S)
                self._publish(counter, sent.payload)
        self._timer = loop.call_later(LOOK_S, self._look) if self._sent else None
        if given_up:
            self._give_up(given_up)
            self._publish_next(now_s)

    def _give_up_all(self) -> None:
        self._give_up(self.withdraw())

    def _give_up(self, records: list[Record]) -> None:
        if self.refusal is None:
            _log.warning("the log %s does not confirm records: no quorum", self._stream)
            self.refusal = _NO_QUORUM
        if self._feed is not None and records:
            self._feed.unknown(records, self.refusal)
