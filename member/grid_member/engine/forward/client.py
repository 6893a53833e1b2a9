"""The lite member's side of forwarding: one host at a time is asked, for as long as that works.

    find a host ─▶ session ─▶ calls and outcomes ─▶ lost ─▶ reads are asked of another one
                                                         └▶ of all else nobody knows: refused

What is said of lite members is so of those that hold a part of the data (`PartEngine`), too.
Items go back to the queue, or are confirmed, where they came from, whoever is the host by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
import uuid
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.api import Item, Reason, Refused
from grid_member.engine.forward.messages import (
    HARMLESS,
    HOSTS,
    INCARNATION_BYTES,
    Kind,
    Word,
    as_outcome,
)
from grid_member.engine.forward.session import Call, Delivery, Host
from grid_member.engine.leasehold import steady_s
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.client.client import NatsClient

PATIENCE_S: Final = 10.0
"""How long a call waits for a host, and for its outcome; a poll that much longer than it asks."""
LATELY_S: Final = 5.0
"""How long another host is looked for before this is told to whoever may ask other members. A host
that waits for a majority says so only after as long again."""
LASTS_S: Final = 1.0
"""After a session that was lost one has to last for so long, or to carry something out, before its
host counts: one that answers whoever looks for a host and then breaks each session is none. With
the heartbeat that shows it this comes twice in `LATELY_S`: who loses two sessions in a row and
has one again then is not told to have none."""
LOOK_S: Final = 0.5
"""How often hosts are asked for a heartbeat."""
FIND_S: Final = 1.0
"""How long any host has for saying that it is there."""
FORGET_S: Final = 60.0
"""What came from a host that sent no heartbeat for so long is confirmed no more: it is gone, or
the others have taken it for gone, and what it had in flight is back in the queues."""
DRAIN_S: Final = 5.0
"""How long a stop waits for outcomes, and then for items that are being handed over."""
MAX_CALLS: Final = 65_536
"""Calls without an outcome; more are refused as OVERLOADED."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of keys and values of those calls."""
_log: Final = logging.getLogger("grid.engine")
_NOBODY: Final = Refused(
    Reason.UNAVAILABLE, "no member that holds the data can be reached: nothing was done"
)
_UNKNOWN: Final = Refused(
    Reason.UNAVAILABLE,
    "the member that was asked does not answer: what was asked for may or may not be done",
)
_OVERLOADED: Final = Refused(Reason.OVERLOADED, "too many operations wait for other members")
_CLOSING: Final = Refused(Reason.CLOSING, "the member is stopping")


class Forwarding:
    """Asks hosts; for one event loop."""

    def __init__(self, client: NatsClient, own: bytes = b"") -> None:
        """Ask nothing yet.

        Args:
            client: connected to the member's own server.
            own: the member's UUID, if it may become a host itself.
        """
        self._own = own
        self._client = client
        self._incarnation = secrets.token_bytes(INCARNATION_BYTES)
        self._loop = asyncio.get_running_loop()
        self._numbers, self._sessions = count(1), count(1)
        self._host: Host | None = None
        """Who is asked: there is a session."""
        self._hosts: dict[bytes, Host] = {}
        self._whose: dict[Delivery, Host] = {}
        """Where items came from that are neither confirmed nor returned yet."""
        self._waiting: list[Call] = []
        """For a host."""
        self._calls = self._bytes = 0
        """Without an outcome."""
        self._without_s = self._loop.time()
        """Since when there is none, if there is none."""
        self._doubted = False
        """Whether the last session was lost, and nothing has shown since that one works."""
        self._contact_s = -math.inf
        """When a host was seen last that has a majority."""
        self._finding: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing = self._hurried = False
        self._news = asyncio.Event()

    def start(self) -> None:
        """Look for a host."""
        self._look()

    @property
    def in_contact(self) -> bool:
        """Whether a host is there that has a majority, and sessions with it work."""
        return self._has_host and not self._doubted

    @property
    def _has_host(self) -> bool:
        return self._host is not None and not self._host.weak

    @property
    def answering(self) -> bool:
        """Whether that is so, or was so lately: until then what is asked for waits."""
        return self.in_contact or self._loop.time() - self._contact_s < LATELY_S

    @property
    def busy(self) -> bool:
        """Whether anything has no outcome, or an item is neither confirmed nor returned."""
        return bool(self._calls or self._whose)

    @property
    def agreed(self) -> bool:
        """Whether a host is there all of whose shards have the same cluster state."""
        return self._host is not None and not self._host.apart

    def call(self, word: Word, done: Callable[[Any], None], timeout_s: float = 0.0) -> Call:
        """Ask a host, now or when there is one.

        Args:
            word: what is asked for.
            done: is called once, unless the call is cancelled.
            timeout_s: what the host waits by itself.
        """
        now_s = self._loop.time()
        return self._call(word, done, now_s + timeout_s + PATIENCE_S, self._refusal(now_s))

    def _call(
        self, word: Word, done: Callable[[Any], None], deadline_s: float, refused: Refused | None
    ) -> Call:
        word = word._replace(call=next(self._numbers))
        call = Call(word, done, deadline_s)
        self._calls += 1
        self._bytes += word.size_bytes
        if refused is not None:
            self._finish(call, refused)
        elif self._host is not None:
            self._host.post(call)
        else:
            self._waiting.append(call)
        return call

    def cancel(self, call: Call) -> None:
        """Wait no more for an outcome; an item on its way goes back."""
        if call.done is None:
            return
        self._settle(call)
        for host in self._hosts.values():
            host.cancel(call)

    def gave(self, item: Item) -> bool:
        """Tell whether the item came from a host, and is neither confirmed nor returned yet."""
        return Delivery(item.queue, item.item_id, item.take_id) in self._whose

    def end_delivery(self, kind: Kind, item: Item) -> None:
        """Confirm or return an item where it came from."""
        delivery = Delivery(item.queue, item.item_id, item.take_id)
        host = self._whose.get(delivery)
        if host is None or host.held.get(delivery) is not None:
            return
        word = Word(
            kind, next(self._numbers), item.queue, number=item.item_id, take_id=item.take_id
        )
        call = host.held[delivery] = Call(
            word, lambda _: self._forget_delivery(host, delivery), 0.0
        )
        if host.open:
            host.post(call)

    def end_polls(self) -> None:
        """Ask again for what polls wait for, without waiting: the member stops soon."""
        for call in self._all():
            done = call.done
            if call.word.kind is Kind.QUEUE_POLL and call.word.number and done is not None:
                self.cancel(call)
                self.call(Word(Kind.QUEUE_POLL, 0, call.word.name), done)

    def hurry(self) -> None:
        """Let a stop wait for nothing any more."""
        self._hurried = True
        self._news.set()

    async def stop(self) -> None:
        """Begin nothing; wait for what was begun and for items that are handed over."""
        self._closing = True
        self._end_polls()
        await self._until(lambda: not self._calls)
        await self._until(lambda: not self._whose)
        for call in self._waiting:
            self._finish(call, _NOBODY)
        for call in self._all():
            self._finish(call, _UNKNOWN)
        self._whose.clear()
        for host in self._hosts.values():
            host.end()
        if self._timer is not None:
            self._timer.cancel()
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)

    # What hosts tell (`forward_host.Asker`)

    def answered(self, host: Host, call: Call | None, outcome: Word) -> None:
        """Take an outcome; call is None when nobody waits for it."""
        if outcome.kind is Kind.NOT_TAKEN:
            if call is not None:
                self._waiting.append(call)
                self._find_soon()
            return
        self._doubted = False
        result = as_outcome(outcome)
        if isinstance(result, Item):
            delivery = Delivery(result.queue, result.item_id, result.take_id)
            host.held[delivery] = None
            self._whose[delivery] = host
            result.until_s = host.until_s
            if call is None or call.done is None:
                self.end_delivery(Kind.QUEUE_RETURN, result)
        if call is not None:
            self._finish(call, result)

    def refused(self, call: Call, outcome: Refused) -> None:
        """Take what is refused here, which shows nothing of the host."""
        self._finish(call, outcome)

    def weakened(self, host: Host) -> None:
        """Look for another host at once."""
        if host is self._host:
            self._find_soon()

    def lost(self, host: Host, unknown: list[Call], unsent: list[Call]) -> None:
        """Take the calls of a session that is over; those unsent never got anywhere."""
        if host is self._host:
            self._host, self._without_s, self._doubted = None, self._loop.time(), True
        for call in unknown:
            if call.word.kind in HARMLESS:
                unsent.append(call)
            else:
                self._finish(call, _UNKNOWN)
        # In the order in which they were asked for: identifiers grow.
        again = [call for call in unsent if call.word.kind is not Kind.CANCEL]
        self._waiting = sorted([*again, *self._waiting], key=lambda one: one.word.call)
        self._find_soon()

    # Inside

    def _end_polls(self) -> None:
        """End the polls that wait: with nothing only where a host says that the queue is empty."""
        now_s = self._loop.time()
        for call in self._all():
            done = call.done
            if call.word.kind is Kind.QUEUE_POLL and done is not None:
                self.cancel(call)
                size, told = Word(Kind.QUEUE_SIZE, 0, call.word.name), partial(_end_poll, done)
                self._call(size, told, now_s + DRAIN_S, self._nobody(now_s))

    def _refusal(self, now_s: float) -> Refused | None:
        if self._closing:
            return _CLOSING
        if self._calls >= MAX_CALLS or self._bytes > MAX_BYTES:
            return _OVERLOADED
        return self._nobody(now_s)

    def _nobody(self, now_s: float) -> Refused | None:
        return _NOBODY if self._host is None and now_s - self._without_s > PATIENCE_S else None

    def _finish(self, call: Call, outcome: object) -> None:
        done = call.done
        if done is None:
            return
        self._settle(call)
        try:
            done(outcome)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "an engine callback raised", "exception": error}
            )

    async def _until(self, idle: Callable[[], bool]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while not idle() and not self._hurried:
                    self._news.clear()
                    await self._news.wait()

    def _settle(self, call: Call) -> None:
        call.done = None
        self._news.set()
        if call.deadline_s:
            self._calls -= 1
            self._bytes -= call.word.size_bytes

    def _forget_delivery(self, host: Host, delivery: Delivery) -> None:
        host.held.pop(delivery, None)
        self._whose.pop(delivery, None)
        self._news.set()

    def _all(self) -> list[Call]:
        """Return the calls that have no outcome, but for those that end deliveries."""
        calls = [call for host in self._hosts.values() for call in host.pending()]
        return [call for call in (*self._waiting, *calls) if call.deadline_s]

    def _look(self) -> None:
        now_s = self._loop.time()
        try:
            for member, host in list(self._hosts.items()):
                self._look_at(member, host)
            self._end_late(now_s)
            if self._host is not None and self._host.lasts(LASTS_S):
                self._doubted = False
            if self.in_contact:
                self._contact_s = now_s
            # What came to wait while a host was found is asked of the next that answers.
            if self._waiting or not self._has_host:
                self._find_soon()
        finally:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _end_late(self, now_s: float) -> None:
        """Answer the calls that have waited for too long."""
        for call in self._waiting:
            if call.deadline_s < now_s:
                self._finish(call, _NOBODY)
        self._waiting = [call for call in self._waiting if call.done is not None]
        for host in self._hosts.values():
            for call in host.pending():
                if call.deadline_s and call.deadline_s < now_s:
                    host.cancel(call)
                    self._finish(call, _UNKNOWN)

    def _look_at(self, member: bytes, host: Host) -> None:
        if host.open and (host is self._host or host.busy):
            host.ask()
        elif host.open:
            host.end()
        elif (host.held or host.owing) and steady_s() - host.heard_s < FORGET_S:
            host.begin()
        elif host is not self._host:
            for delivery in host.held:
                self._whose.pop(delivery, None)
            del self._hosts[member]

    def _find_soon(self) -> None:
        if self._finding is None:
            self._finding = self._loop.create_task(self._find())
            self._finding.add_done_callback(self._found)

    async def _find(self) -> None:
        """Ask who holds the data; whoever answers first is near."""
        answer = await self._client.request(HOSTS, self._own, timeout_s=FIND_S)
        member = answer.payload
        host = self._hosts.get(member)
        if host is None:
            host = self._hosts[member] = Host(
                self._client, self._incarnation, member, self._sessions, self
            )
        if not host.open:
            host.begin()
        if host.open:
            if host is not self._host:
                _log.info("requests are forwarded to the member %s", uuid.UUID(bytes=member))
            host.weak = False
            self._host = host
            if not self._doubted:
                self._contact_s = self._loop.time()
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                if call.word.kind is Kind.QUEUE_POLL:
                    left_s = call.deadline_s - PATIENCE_S - self._loop.time()
                    call.word = call.word._replace(number=max(0, int(left_s * 1000)))
                host.post(call)

    def _found(self, finding: asyncio.Task[None]) -> None:
        self._finding = None
        error = None if finding.cancelled() else finding.exception()
        if error is not None and not isinstance(error, NatsError):
            self._loop.call_exception_handler({"message": "no host was found", "exception": error})


def _end_poll(done: Callable[[object], None], items: object) -> None:
    done(None if items == 0 else _CLOSING)
