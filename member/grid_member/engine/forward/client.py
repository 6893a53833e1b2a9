"""The lite member's side of forwarding: one server at a time is asked, for as long as that works.

    find a forward server ─▶ session ─▶ calls and outcomes ─▶ lost ─▶ reads are asked of another one
                                                         └▶ of all else nobody knows: refused

Members that hold a part of the data ask as lite members do: both are a `PartEngine`.
Items go back to the queue, or are confirmed, where they came from, whoever is the server by then.
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
    FORWARD_SERVERS,
    HARMLESS,
    INCARNATION_BYTES,
    Frame,
    FrameKind,
    frame_outcome,
)
from grid_member.engine.forward.session import ClientSession, Delivery, ForwardCall
from grid_member.engine.io.ending import end_tasks
from grid_member.engine.leasehold import steady_s
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.client.client import NatsClient

PATIENCE_S: Final = 10.0
"""How long a call waits for a server, and for its outcome; a poll that much longer than it asks."""
LATELY_S: Final = 5.0
"""How long another forward server is looked for before this is told to whoever may ask other
members. A forward server that waits for a majority says so only after as long again."""
LASTS_S: Final = 1.0
"""After a session that was lost one has to last for so long, or to carry something out, before its
server counts: one that answers whoever looks for a forward server and then breaks each session is
none. With the heartbeat that shows it this comes twice in `LATELY_S`: who loses two sessions in a
row and has one again then is not told to have none."""
LOOK_S: Final = 0.5
"""How often servers are asked for a heartbeat."""
FIND_S: Final = 1.0
"""How long any server has for saying that it is there."""
FORGET_S: Final = 60.0
"""What came from a forward server that sent no heartbeat for so long is confirmed no more: it is
gone, or the others have taken it for gone, and what it had in flight is back in the queues."""
DRAIN_S: Final = 5.0
"""How long a stop waits for outcomes, and then for items that are being handed over."""
MAX_CALLS: Final = 65_536
"""Calls without an outcome; more are refused as OVERLOADED."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of keys and values of those calls."""
_log: Final = logging.getLogger("grid.engine")
_NO_SERVER: Final = Refused(
    Reason.UNAVAILABLE, "no member that holds the data can be reached: nothing was done"
)
_UNKNOWN: Final = Refused(
    Reason.UNAVAILABLE,
    "the member that was asked does not answer: what was asked for may or may not be done",
)
_OVERLOADED: Final = Refused(Reason.OVERLOADED, "too many operations wait for other members")
_CLOSING: Final = Refused(Reason.CLOSING, "the member is stopping")


class ForwardClient:
    """Asks forward servers; for one event loop."""

    def __init__(self, client: NatsClient, own: bytes = b"") -> None:
        """Ask nothing yet; own is the UUID of a member that may become a forward server itself."""
        self._own = own
        self._client = client
        self._incarnation = secrets.token_bytes(INCARNATION_BYTES)
        self._loop = asyncio.get_running_loop()
        self._numbers, self._sessions = count(1), count(1)
        self._server: ClientSession | None = None
        """Who is asked: there is a session."""
        self._servers: dict[bytes, ClientSession] = {}
        self._delivered_by: dict[Delivery, ClientSession] = {}
        """Where items came from that are neither confirmed nor returned yet."""
        self._waiting: list[ForwardCall] = []
        """For a forward server."""
        self._calls = self._bytes = 0
        """Without an outcome."""
        self._serverless_s = self._loop.time()
        """Since when there is none, if there is none."""
        self._doubted = False
        """Whether the last session was lost, and nothing has shown since that one works."""
        self._contact_s = -math.inf
        """When a forward server was seen last that has a majority."""
        self._finding: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing = self._hurried = False
        self._news = asyncio.Event()

    def start(self) -> None:
        """Look for a forward server."""
        self._look()

    @property
    def in_contact(self) -> bool:
        """Whether a forward server is there that has a majority, and sessions with it work."""
        return self._has_server and not self._doubted

    @property
    def _has_server(self) -> bool:
        return self._server is not None and not self._server.weak

    @property
    def answering(self) -> bool:
        """Whether that is so, or was so lately: until then what is asked for waits."""
        return self.in_contact or self._loop.time() - self._contact_s < LATELY_S

    @property
    def busy(self) -> bool:
        """Whether anything has no outcome, or an item is neither confirmed nor returned."""
        return bool(self._calls or self._delivered_by)

    @property
    def agreed(self) -> bool:
        """Whether a forward server is there all of whose shards have the same cluster state."""
        return self._server is not None and not self._server.apart

    def call(
        self, frame: Frame, done: Callable[[Any], None], timeout_s: float = 0.0
    ) -> ForwardCall:
        """Ask a forward server, now or when there is one.

        Args:
            frame: what is asked for.
            done: is called once, unless the call is cancelled.
            timeout_s: what the server waits by itself.
        """
        now_s = self._loop.time()
        return self._call(frame, done, now_s + timeout_s + PATIENCE_S, self._refusal(now_s))

    def _call(
        self, frame: Frame, done: Callable[[Any], None], deadline_s: float, refused: Refused | None
    ) -> ForwardCall:
        frame = frame._replace(call=next(self._numbers))
        call = ForwardCall(frame, done, deadline_s, self)
        self._calls += 1
        self._bytes += frame.size_bytes
        if refused is not None:
            self._finish(call, refused)
        elif self._server is not None:
            self._server.post(call)
        else:
            self._waiting.append(call)
        return call

    def cancel(self, call: ForwardCall) -> None:
        """Wait no more for an outcome; an item on its way goes back."""
        if call.done is None:
            return
        self._settle(call)
        for server in self._servers.values():
            server.cancel(call)

    def has_delivered(self, item: Item) -> bool:
        """Tell whether the item came from a server and is neither confirmed nor returned yet."""
        return Delivery(item.queue, item.item_id, item.take_id) in self._delivered_by

    def end_delivery(self, kind: FrameKind, item: Item) -> None:
        """Confirm or return an item where it came from."""
        delivery = Delivery(item.queue, item.item_id, item.take_id)
        server = self._delivered_by.get(delivery)
        if server is None or server.deliveries.get(delivery) is not None:
            return
        frame = Frame(
            kind, next(self._numbers), item.queue, number=item.item_id, take_id=item.take_id
        )
        call = server.deliveries[delivery] = ForwardCall(
            frame, lambda _: self._forget_delivery(server, delivery), 0.0
        )
        if server.open:
            server.post(call)

    def end_polls(self) -> None:
        """Ask again for what polls wait for, without waiting: the member stops soon."""
        for call in self._all():
            done = call.done
            if call.frame.kind is FrameKind.QUEUE_POLL and call.frame.number and done is not None:
                self.cancel(call)
                self.call(Frame(FrameKind.QUEUE_POLL, 0, call.frame.name), done)

    def hurry(self) -> None:
        """Let a stop wait for nothing any more."""
        self._hurried = True
        self._news.set()

    async def stop(self) -> None:
        """Begin nothing; wait for what was begun and for items that are handed over."""
        self._closing = True
        self._end_polls()
        await self._until(lambda: not self._calls)
        await self._until(lambda: not self._delivered_by)
        for call in self._waiting:
            self._finish(call, _NO_SERVER)
        for call in self._all():
            self._finish(call, _UNKNOWN)
        self._delivered_by.clear()
        for server in self._servers.values():
            server.end()
        if self._timer is not None:
            self._timer.cancel()
        await end_tasks(self._finding)

    # What sessions tell

    def take_outcome(self, server: ClientSession, call: ForwardCall | None, outcome: Frame) -> None:
        """Take an outcome; call is None when nobody waits for it."""
        if outcome.kind is FrameKind.NOT_TAKEN:
            if call is not None:
                self._waiting.append(call)
                self._find_soon()
            return
        self._doubted = False
        result = frame_outcome(outcome)
        if isinstance(result, Item):
            delivery = Delivery(result.queue, result.item_id, result.take_id)
            server.deliveries[delivery] = None
            self._delivered_by[delivery] = server
            result.until_s = server.until_s
            if call is None or call.done is None:
                self.end_delivery(FrameKind.QUEUE_RETURN, result)
        if call is not None:
            self._finish(call, result)

    def take_refusal(self, call: ForwardCall, outcome: Refused) -> None:
        """Take what is refused here, which shows nothing of the server."""
        self._finish(call, outcome)

    def find_better(self, server: ClientSession) -> None:
        """Look for another forward server at once."""
        if server is self._server:
            self._find_soon()

    def take_lost(
        self, server: ClientSession, unknown: list[ForwardCall], unsent: list[ForwardCall]
    ) -> None:
        """Take the calls of a session that is over; those unsent never got anywhere."""
        if server is self._server:
            self._server, self._serverless_s, self._doubted = None, self._loop.time(), True
        for call in unknown:
            if call.frame.kind in HARMLESS:
                unsent.append(call)
            else:
                self._finish(call, _UNKNOWN)
        # In the order in which they were asked for: identifiers grow.
        again = [call for call in unsent if call.frame.kind is not FrameKind.CANCEL]
        self._waiting = sorted([*again, *self._waiting], key=lambda one: one.frame.call)
        self._find_soon()

    # Inside

    def _end_polls(self) -> None:
        """End the polls that wait: with nothing only where a server says that it is empty."""
        now_s = self._loop.time()
        for call in self._all():
            done = call.done
            if call.frame.kind is FrameKind.QUEUE_POLL and done is not None:
                self.cancel(call)
                size = Frame(FrameKind.QUEUE_SIZE, 0, call.frame.name)
                self._call(size, partial(_end_poll, done), now_s + DRAIN_S, self._no_server(now_s))

    def _refusal(self, now_s: float) -> Refused | None:
        if self._closing:
            return _CLOSING
        if self._calls >= MAX_CALLS or self._bytes > MAX_BYTES:
            return _OVERLOADED
        return self._no_server(now_s)

    def _no_server(self, now_s: float) -> Refused | None:
        return (
            _NO_SERVER if self._server is None and now_s - self._serverless_s > PATIENCE_S else None
        )

    def _finish(self, call: ForwardCall, outcome: object) -> None:
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

    def _settle(self, call: ForwardCall) -> None:
        call.done = None
        self._news.set()
        if call.deadline_s:
            self._calls -= 1
            self._bytes -= call.frame.size_bytes

    def _forget_delivery(self, server: ClientSession, delivery: Delivery) -> None:
        server.deliveries.pop(delivery, None)
        self._delivered_by.pop(delivery, None)
        self._news.set()

    def _all(self) -> list[ForwardCall]:
        """Return the calls that have no outcome, but for those that end deliveries."""
        calls = [call for server in self._servers.values() for call in server.pending()]
        return [call for call in (*self._waiting, *calls) if call.deadline_s]

    def _look(self) -> None:
        now_s = self._loop.time()
        try:
            for member, server in list(self._servers.items()):
                self._look_at(member, server)
            self._end_late(now_s)
            if self._server is not None and self._server.is_steady(LASTS_S):
                self._doubted = False
            if self.in_contact:
                self._contact_s = now_s
            # What came to wait while a forward server was found is asked of the next that answers.
            if self._waiting or not self._has_server:
                self._find_soon()
        finally:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _end_late(self, now_s: float) -> None:
        """Answer the calls that have waited for too long."""
        for call in self._waiting:
            if call.deadline_s < now_s:
                self._finish(call, _NO_SERVER)
        self._waiting = [call for call in self._waiting if call.done is not None]
        for server in self._servers.values():
            for call in server.pending():
                if call.deadline_s and call.deadline_s < now_s:
                    server.cancel(call)
                    self._finish(call, _UNKNOWN)

    def _look_at(self, member: bytes, server: ClientSession) -> None:
        if server.open and (server is self._server or server.busy):
            server.ask()
        elif server.open:
            server.end()
        elif (server.deliveries or server.is_owing) and steady_s() - server.heard_s < FORGET_S:
            server.begin()
        elif server is not self._server:
            for delivery in server.deliveries:
                self._delivered_by.pop(delivery, None)
            del self._servers[member]

    def _find_soon(self) -> None:
        if self._finding is None:
            self._finding = self._loop.create_task(self._find())
            self._finding.add_done_callback(self._note_server)

    async def _find(self) -> None:
        """Ask who holds the data; whoever answers first is near."""
        answer = await self._client.request(FORWARD_SERVERS, self._own, timeout_s=FIND_S)
        member = answer.payload
        server = self._servers.get(member)
        if server is None:
            server = self._servers[member] = ClientSession(
                self._client, self._incarnation, member, self._sessions, self
            )
        if not server.open:
            server.begin()
        if server.open:
            if server is not self._server:
                _log.info("requests are forwarded to the member %s", uuid.UUID(bytes=member))
            server.weak = False
            self._server = server
            if not self._doubted:
                self._contact_s = self._loop.time()
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                if call.frame.kind is FrameKind.QUEUE_POLL:
                    left_s = call.deadline_s - PATIENCE_S - self._loop.time()
                    call.frame = call.frame._replace(number=max(0, int(left_s * 1000)))
                server.post(call)

    def _note_server(self, finding: asyncio.Task[None]) -> None:
        self._finding = None
        error = None if finding.cancelled() else finding.exception()
        if error is not None and not isinstance(error, NatsError):
            self._loop.call_exception_handler(
                {"message": "no forward server was found", "exception": error}
            )


def _end_poll(done: Callable[[object], None], items: object) -> None:
    done(None if items == 0 else _CLOSING)
