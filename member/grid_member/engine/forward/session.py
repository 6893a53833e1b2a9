"""One forward server as a lite member knows it: sessions in which nothing may be lost.

Messages are counted both ways, and a heartbeat is asked for again and again. A loss ends the
session: then nobody knows what became of the calls that have no outcome, but for those of messages
that nobody listened to.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.forward.messages import (
    AGAIN_S,
    TOO_LARGE,
    Flag,
    ForwardMessage,
    Frame,
    FrameKind,
    decode_message,
    encode_message,
    forward_subject,
    frame_groups,
)
from grid_member.engine.leasehold import steady_s
from grid_member.engine.local.system import ignore
from grid_member.engine.nats.client.errors import WireError
from grid_member.engine.nats.client.wire import is_no_responders
from grid_member.engine.state.fields import CodecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from grid_member.engine.forward.client import ForwardClient
    from grid_member.engine.nats.client.client import NatsClient, Subscription
    from grid_member.engine.nats.client.wire import Message

SILENT_S: Final = 4.0
"""A forward server is given up whose last heartbeat was asked for so long ago. Far below the time
after which it gives this member up, so that nothing it has taken back by then is handed out
here."""
_log: Final = logging.getLogger("grid.engine")


class Delivery(NamedTuple):
    """An item in flight, by its queue, its identifier and the identifier of its take."""

    queue: str
    item_id: int
    take_id: int


class ForwardCall:
    """Something that is asked of a forward server: a `Poll`, or what else may be cancelled."""

    __slots__ = ("_client", "deadline_s", "done", "frame", "message")

    def __init__(
        self,
        frame: Frame,
        done: Callable[[object], None],
        deadline_s: float,
        client: ForwardClient | None = None,
    ) -> None:
        self._client = client
        """None when it is never cancelled."""
        self.frame = frame
        self.done: Callable[[object], None] | None = done
        """None when nobody wants the outcome any more."""
        self.deadline_s = deadline_s
        self.message = 0
        """The number of the message that it went with."""

    def cancel(self) -> None:
        """Stop waiting; an item on its way goes back to the head."""
        if self._client is not None:
            self._client.cancel(self)


class ClientSession:
    """A member that holds data."""

    def __init__(
        self,
        client: NatsClient,
        incarnation: bytes,
        member: bytes,
        sessions: Iterator[int],
        asker: ForwardClient,
    ) -> None:
        """Say nothing yet to the server of that UUID, 16 bytes; session numbers only grow."""
        self.open = self.weak = self.apart = False
        self.deliveries: dict[Delivery, ForwardCall | None] = {}
        """Items that came from there, each with the call that ends its delivery, if any."""
        self.is_owing = False
        """Whether it may have taken an item for a poll of a session that was lost: it takes that
        back as soon as another session begins, and much later without one."""
        self.calls: dict[int, ForwardCall] = {}
        """Without an outcome, in the order in which they were sent."""
        self.heard_s = 0.0
        """When the last heartbeat was asked for that came, by `steady_s`, as all times here: the
        server may take back what it gave while this member's machine sleeps."""
        self._client = client
        self._incarnation = incarnation
        self._sessions = sessions
        self._asker = asker
        self._subject = forward_subject(member)
        self._session = self._sent = self._received = 0
        self.begun_s = 0.0
        """When the session began."""
        self._inbox = b""
        self._subscription: Subscription | None = None
        self._unsent: list[ForwardCall] = []
        self._pings: deque[tuple[int, float]] = deque()
        """The messages that asked for a heartbeat and got none, and when that was."""
        self._loop = asyncio.get_running_loop()

    def is_steady(self, for_s: float) -> bool:
        """Tell whether the server has sent heartbeats in this session for so long."""
        return self.open and self.heard_s - self.begun_s >= for_s

    @property
    def busy(self) -> bool:
        """Whether anything is asked for, or was given and is neither confirmed nor returned."""
        return bool(self.calls or self.deliveries or self._unsent or self.is_owing)

    def pending(self) -> list[ForwardCall]:
        """Return the calls without an outcome."""
        return [*self.calls.values(), *self._unsent]

    def begin(self) -> None:
        """Begin another session."""
        self.open, self.weak, self.apart = True, False, False
        self._session = next(self._sessions)
        self._sent = self._received = 0
        self._pings.clear()
        self._inbox = self._client.unused_inbox()
        self._subscription = self._client.subscribe(self._inbox + b".*", self._take)
        self.begun_s = steady_s()
        held = [
            Frame(FrameKind.HELD, 0, one.queue, "", b"", None, *one[1:]) for one in self.deliveries
        ]
        groups = list(frame_groups(held)) or [[]]
        for frames in groups:
            last = frames is groups[-1]
            if not self._say(frames, Flag.PING | Flag.ALL_HELD if last else Flag.PING):
                self.lose()
                return
        for call in self.deliveries.values():
            if call is not None:
                self.post(call)

    def post(self, call: ForwardCall) -> None:
        """Send a call with all that is asked of the server in this tick."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(call)

    def cancel(self, call: ForwardCall) -> None:
        """Wait no more for a poll that was sent or posted here."""
        if self.calls.pop(call.frame.call, None) is not None and self.open:
            self.post(ForwardCall(Frame(FrameKind.CANCEL, call.frame.call), ignore, 0.0))

    def ask(self) -> None:
        """Ask for a heartbeat, or find that there was none for too long."""
        if self._is_silent():
            self.lose()
        else:
            self._say([], Flag.PING)

    def end(self) -> None:
        """End the session: nothing of it is needed any more."""
        if self.open:
            self._flush()
            self._say([], Flag.BYE)
            self._close()

    def lose(self, unheard: int | None = None) -> None:
        """Give the session up; messages from the number on were heard by nobody."""
        if not self.open:
            return
        self._close()
        sent, self.calls = list(self.calls.values()), {}
        posted, self._unsent = self._unsent, []
        ending = {id(call) for call in self.deliveries.values()}  # which are sent again from there
        unknown: list[ForwardCall] = []
        unsent: list[ForwardCall] = []
        for call in sent:
            reached = unheard is None or call.message < unheard
            (unknown if reached else unsent).append(call)
        self.is_owing |= any(call.frame.kind is FrameKind.QUEUE_POLL for call in unknown)
        self._asker.take_lost(
            self,
            [call for call in unknown if id(call) not in ending],
            [call for call in (*unsent, *posted) if id(call) not in ending],
        )

    def _close(self) -> None:
        self.open = False
        if self._subscription is not None:
            self._subscription.unsubscribe()
            self._subscription = None

    @property
    def until_s(self) -> float:
        """When it is silent, should no heartbeat come before."""
        return max(self.begun_s, self.heard_s) + SILENT_S

    def _is_silent(self) -> bool:
        return steady_s() > self.until_s

    def _flush(self) -> None:
        if not self.open:
            return
        posted, self._unsent = [one for one in self._unsent if one.done is not None], []
        place = 0
        for frames in frame_groups(one.frame for one in posted):
            calls = posted[place : place + len(frames)]
            if not self._send(calls, frames):
                self._unsent = posted[place:]
                self._loop.call_later(AGAIN_S, self._flush)
                return
            place += len(frames)

    def _send(self, calls: list[ForwardCall], frames: list[Frame]) -> bool:
        try:
            if not self._say(frames):
                return False
        except WireError as error:
            _log.error("what was asked for cannot be forwarded: %s", error)
            for call in calls:
                self._asker.take_refusal(call, TOO_LARGE)
            return True
        for call in calls:
            call.message = self._sent
            if call.frame.kind is not FrameKind.CANCEL:
                self.calls[call.frame.call] = call
        return True

    def _say(self, frames: list[Frame], flags: Flag = Flag.NONE) -> bool:
        """Send a message; False when too much waits to be sent, or there is no connection."""
        message = ForwardMessage(self._incarnation, self._session, self._sent + 1, flags, frames)
        reply = b"%b.%d" % (self._inbox, message.number)
        if not self._client.publish(self._subject, encode_message(message), reply):
            return False
        self._sent = message.number
        if flags & Flag.PING:
            self._pings.append((message.number, steady_s()))
        return True

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if not self.open:
                return  # what the server gave out in vain it takes back
            if is_no_responders(message):
                self.lose(int(message.subject.rpartition(b".")[2]))
            else:
                self._hear(message)

    def _hear(self, message: Message) -> None:
        try:
            content = decode_message(message.payload)
        except CodecError as error:
            _log.warning("a forward server sent what cannot be read: %s", error)
            self.lose()
            return
        if content.session != self._session:
            return
        while self._pings and self._pings[0][0] <= content.ack:
            _, self.heard_s = self._pings.popleft()
            self.is_owing = False
        # One that stood still must not hand out what the server has taken back meanwhile.
        if content.flags & Flag.BROKEN or content.number != self._received + 1 or self._is_silent():
            self.lose()
            return
        self._received = content.number
        was_weak, self.weak = self.weak, bool(content.flags & Flag.WEAK)
        self.apart = bool(content.flags & Flag.APART)
        if self.weak and not was_weak:
            self._asker.find_better(self)
        for frame in content.frames:
            self._asker.take_outcome(self, self.calls.pop(frame.call, None), frame)
