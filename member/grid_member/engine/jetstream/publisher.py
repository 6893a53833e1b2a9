"""Records of this member on their way into a stream, until they come back in its consumer.

One that does not come back is published again under its own counter, which the state machine
applies once; after a time it is given up, its outcome unknown.

A leader that is cut off takes what it can never commit, and its server has to take that back, one
record after the other and mostly with two seconds between, before it is current again. So a leader
gets nothing again unless it has heard of a quorum since, and nothing at all once it is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import Reason, Refused
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.nats.admin.streams import ask
from grid_member.engine.nats.client.errors import NatsError, WireError
from grid_member.engine.state.codec import encode_record
from grid_member.engine.state.machine import COUNTER_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grid_member.engine.nats.client.client import NatsClient, Subscription
    from grid_member.engine.nats.client.wire import Message
    from grid_member.engine.state.operations import Record

MAX_AHEAD: Final = COUNTER_WINDOW // 2
"""Records that are published before the oldest of them came back.

It may be lost and sent again: the state machine knows it from a copy only for so many.
"""
RESEND_S: Final = 1.0
"""Seconds until a record that did not come back is published again; doubled each time."""
LONGEST_RESEND_S: Final = 4.0
NO_LEADER_RESEND_S: Final = 0.1
"""The same when nobody took it: the stream has no leader yet."""
GIVE_UP_S: Final = 10.0
"""Seconds until nobody waits for a record any more; an election takes up to some nine."""
LOOK_S: Final = 0.1
"""How often records that are on their way are looked at."""
ASK_S: Final = 0.5
"""Between two questions to the leader whom it hears of."""
SILENT_S: Final = 2.0
"""A leader that did not hear of a quorum for so long gets nothing; it should every second."""

_log: Final = logging.getLogger("grid.engine.nats")
_TOO_LARGE: Final = Refused(
    Reason.UNAVAILABLE, "the record is larger than members take: raise limits.value-bytes on all"
)


class _SentRecord:
    """A record on its way."""

    __slots__ = ("due_s", "first_s", "pause_s", "payload", "record", "sent_s", "untaken")

    def __init__(self, record: Record, payload: bytes, first_s: float) -> None:
        self.record = record
        self.payload = payload
        self.first_s = self.sent_s = first_s
        """The latter: when it was published last."""
        self.pause_s = RESEND_S
        self.due_s = first_s + RESEND_S
        """When it is published again."""
        self.untaken = False
        """Whether nobody took it."""

    def note_publication(self, now_s: float, pause_s: float) -> None:
        """Note that it is published now, and again after the pause."""
        self.sent_s, self.pause_s = now_s, pause_s
        self.due_s = now_s + pause_s
        self.untaken = False


class Publisher:
    """What one shard of this member has on its way."""

    def __init__(
        self,
        client: NatsClient,
        stream: str,
        given_up: Callable[[list[Record]], None],
        reject: Callable[[Record, Refused], None],
    ) -> None:
        """Make an empty one.

        `given_up` is told of records that did not come back in time, `reject` of a record that
        cannot be sent at all, later in the same tick.
        """
        self._client = client
        self._stream = stream
        self._given_up = given_up
        self._reject = reject
        self._subject = f"grid.log.{stream}".encode()
        self._reply = client.unused_inbox() + b"."
        self._subscription: Subscription | None = None
        self._in_flight: dict[int, _SentRecord] = {}
        self._incarnation = 0
        self._last_published = 0
        """The counter of the last record that was published."""
        self._timer: asyncio.TimerHandle | None = None
        self._held = False
        """Whether the stream's leader is cut off from the others."""
        self._asked_s = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._no_records: asyncio.Future[None] | None = None
        self._patience_s = GIVE_UP_S
        """How much is left since it was lost."""
        self._hurried_s = 0.0
        """When that was."""

    def __len__(self) -> int:
        return len(self._in_flight)

    def __contains__(self, counter: int) -> bool:
        return counter in self._in_flight

    @property
    def oldest_s(self) -> float | None:
        """When the oldest record was sent first."""
        oldest = next(iter(self._in_flight.values()), None)
        return None if oldest is None else oldest.first_s

    def start(self) -> None:
        """Hear of what nobody took."""
        self._subscription = self._client.subscribe(self._reply + b"*", self._note_refusal)

    def append(self, record: Record) -> None:
        """Publish a record as soon as it may be."""
        loop = asyncio.get_running_loop()
        if record.incarnation != self._incarnation:
            self._incarnation, self._last_published = record.incarnation, 0
        now_s = loop.time()
        self._in_flight[record.counter] = _SentRecord(record, encode_record(record), now_s)
        self.publish_next()
        if self._timer is None:
            self._timer = loop.call_later(LOOK_S, self._look)

    def record_of(self, counter: int, payload: bytes) -> Record | None:
        """Return the record of this incarnation that was sent as this payload."""
        own = self._in_flight.get(counter)
        return own.record if own is not None and own.payload == payload else None

    def take_off(self, counter: int) -> float | None:
        """Take a record of this incarnation off; return when it was sent first, None: none is."""
        sent = self._in_flight.pop(counter, None)
        if not self._in_flight and self._no_records is not None and not self._no_records.done():
            self._no_records.set_result(None)
        return None if sent is None else sent.first_s

    def has_records_of(self, incarnation: int) -> bool:
        """Return whether records of that incarnation are on their way."""
        return incarnation == self._incarnation

    def note_quorum(self) -> None:
        """Hear that the stream goes on: somebody leads it who has a quorum."""
        self._held = False
        self.publish_next()

    def withdraw(self) -> list[Record]:
        """Forget what is on its way and return it."""
        records = [sent.record for sent in self._in_flight.values()]
        self._in_flight.clear()
        return records

    def forget(self, counters: Iterable[int]) -> None:
        """Send those records no more: they are in the log."""
        for counter in counters:
            self._in_flight.pop(counter, None)
        self.publish_next()

    def republish(self) -> None:
        """Publish again over a new connection: nobody knows what came of the former one."""
        self._held = False
        for counter in list(self._in_flight):
            if counter <= self._last_published:
                self._publish(counter)
        self.publish_next()

    def lose_patience(self, within_s: float) -> None:
        """Give up what does not come back in that time, from now or from when it is sent."""
        self._hurried_s = asyncio.get_running_loop().time()
        self._patience_s = min(self._patience_s, within_s)

    def publish_next(self) -> None:
        """Publish what is not too far ahead of the oldest record that did not come back."""
        if self._held:
            return
        newest = next(reversed(self._in_flight), 0)
        last = min(newest, next(iter(self._in_flight), 0) + MAX_AHEAD - 1)
        while self._last_published < last:
            self._last_published += 1
            self._publish(self._last_published)

    async def close(self, within_s: float) -> None:
        """Wait a little for what is on its way, then look no more."""
        if self._in_flight and within_s > 0:
            self._no_records = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._no_records}, timeout=within_s)
        if self._timer is not None:
            self._timer.cancel()
        if self._subscription is not None:
            self._subscription.unsubscribe()  # with it goes all that hangs on this
        await end_tasks(self._asking)

    def _publish(self, counter: int, pause_s: float = RESEND_S) -> None:
        sent = self._in_flight.get(counter)
        if sent is None:
            return
        sent.note_publication(asyncio.get_running_loop().time(), pause_s)
        try:
            self._client.publish(self._subject, sent.payload, self._reply + b"%d" % counter)
        except WireError as error:
            _log.error("a record of %d bytes cannot be sent: %s", len(sent.payload), error)
            del self._in_flight[counter]
            asyncio.get_running_loop().call_soon(self._reject, sent.record, _TOO_LARGE)

    def _note_refusal(self, messages: Sequence[Message]) -> None:
        """Hear that nobody took a record: no server leads the stream now."""
        due_s = asyncio.get_running_loop().time() + NO_LEADER_RESEND_S
        for message in messages:
            counter = int(message.subject.rpartition(b".")[2])
            sent = self._in_flight.get(counter)
            if sent is not None:
                sent.due_s, sent.untaken = due_s, True

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        try:
            self._send_again(now_s)
            given_up = [one for one in self._in_flight.values() if self._is_late(one, now_s)]
            for one in given_up:
                del self._in_flight[one.record.counter]
            if given_up:
                self._given_up([one.record for one in given_up])
                self.publish_next()
        finally:
            self._timer = loop.call_later(LOOK_S, self._look) if self._in_flight else None

    def _is_late(self, sent: _SentRecord, now_s: float) -> bool:
        hurried_s = now_s - max(sent.first_s, self._hurried_s)
        return now_s - sent.first_s > GIVE_UP_S or hurried_s > self._patience_s

    def _send_again(self, now_s: float) -> None:
        due = self._due(now_s)
        doubtful = self._held or any(not sent.untaken for sent in due)
        for sent in due:
            if sent.untaken:
                self._publish(sent.record.counter)
        if doubtful and self._asking is None and now_s >= self._asked_s + ASK_S:
            self._asked_s = now_s
            self._asking = asyncio.get_running_loop().create_task(self._ask(now_s))
            self._asking.add_done_callback(self._note_answer)

    def _due(self, now_s: float) -> list[_SentRecord]:
        return [
            sent
            for counter, sent in self._in_flight.items()
            if now_s >= sent.due_s and counter <= self._last_published
        ]

    async def _ask(self, now_s: float) -> None:
        """Publish again what the leader must have lost: it has heard of a quorum since."""
        silence_s = 0.0  # without a leader nobody takes anything, which does no harm
        with contextlib.suppress(NatsError):
            info = await ask(self._client, f"STREAM.INFO.{self._stream}")
            silence_s = quorum_silence_s(info.get("cluster") or {})
        self._held = silence_s > SILENT_S
        for sent in self._due(asyncio.get_running_loop().time()):
            if sent.sent_s < now_s - silence_s:
                self._publish(sent.record.counter, min(2 * sent.pause_s, LONGEST_RESEND_S))
        self.publish_next()

    def _note_answer(self, asking: asyncio.Task[None]) -> None:
        self._asking = None
        error = None if asking.cancelled() else asking.exception()
        if error is not None:
            asking.get_loop().call_exception_handler(
                {"message": "a stream's leader gave no answer of use", "exception": error}
            )


def quorum_silence_s(cluster: Mapping[str, object]) -> float:
    """Return how long ago a stream's leader, as it tells, heard of a quorum; 0: nobody leads it."""
    listed = cluster.get("replicas")
    # Some are to be of the group, or were, and have no vote.
    others = [one for one in listed if not one.get("pending")] if isinstance(listed, list) else []
    if not cluster.get("leader") or not others:
        return 0.0
    # Of one that it has never heard of a leader says 0.
    silences_s = sorted((one.get("active") or math.inf) / 1e9 for one in others)
    needed = (len(others) + 1) // 2
    return float(silences_s[needed - 1])
