"""The server's side of forwarding: what lite members ask for is asked of this member's engine.

    lite member ─ calls of a tick ─▶ ForwardServer ─▶ ServerSession ─▶ engine ─▶ outcomes of a tick
    ─▶ lite member

Members that hold a part of the data ask as lite members do: both are a `PartEngine`.
What is asked for here is as if a client had asked: items are taken by this member and return when
it is gone. A session that is silent for too long has what it took returned as well.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.engine.forward.messages import (
    FORWARD_SERVERS,
    Flag,
    ForwardMessage,
    decode_message,
    encode_message,
    forward_subject,
    session_end,
    session_end_for,
)
from grid_member.engine.forward.server_session import ServerSession
from grid_member.engine.state.fields import CodecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.forward.server_session import ServedEngine
    from grid_member.engine.nats.client.client import NatsClient, Subscription
    from grid_member.engine.nats.client.wire import Message

SESSION_SILENT_S: Final = 10.0
"""A session that sent no heartbeat for so long is gone. It has given up this server long before."""
LOOK_S: Final = 1.0
STALL_S: Final = 3.0
"""This process stood still when nothing was looked at for so long: nobody knows who is silent, and
whoever asked before has given up what comes now."""
_log: Final = logging.getLogger("grid.engine")


class ForwardServer:
    """Serves lite members; for one event loop."""

    def __init__(self, client: NatsClient, engine: ServedEngine, member: bytes) -> None:
        """Serve nobody yet; member is this member's UUID, 16 bytes."""
        self._client = client
        self._engine = engine
        self._member = member
        self._sessions: dict[bytes, ServerSession] = {}
        self.leaving = self._woke = False
        """`leaving`: nothing is begun any more."""
        self._looked_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._subscriptions: list[Subscription] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Listen to lite members from now on."""
        self._subscriptions = [
            self._client.subscribe(FORWARD_SERVERS, self._answer_offers),
            self._client.subscribe(forward_subject(self._member), self._take_messages),
        ]
        self._looked_s = self._loop.time()
        self._look()

    def leave(self) -> None:
        """Begin nothing any more: this member stops. What was begun gets its outcome."""
        self.leaving = True
        for session in self._sessions.values():
            session.leave()

    def end(self) -> None:
        """Hear nobody any more, so that whoever asks is told that nobody did."""
        for session in self._sessions.values():
            session.flush()
        for subscription in self._subscriptions:
            subscription.unsubscribe()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def weak(self) -> bool:
        """Whether lite members had better ask another forward server."""
        absent, engine = self.leaving or self._is_stalled, self._engine
        return absent or not (engine.ready and engine.in_contact and engine.leased)

    @property
    def flags(self) -> Flag:
        """What every message to a lite member says of this member."""
        apart = Flag.NONE if self._engine.agreed else Flag.APART
        return apart | Flag.WEAK if self.weak else apart

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._client.connected

    def say(self, reply: bytes, message: ForwardMessage) -> bool:
        """Send a message; False when it was not, as too much waits, or there is no connection.

        Raises:
            WireError: it is too large.
        """
        return not self._client.half_full and self._client.publish(reply, encode_message(message))

    def forget(self, incarnation: bytes) -> None:
        """Forget a session."""
        self._sessions.pop(incarnation, None)

    def _answer_offers(self, messages: Sequence[Message]) -> None:
        if self.weak:
            return
        for message in messages:
            if message.reply and message.payload != self._member:  # who asks is another one
                self._client.publish(message.reply, self._member)

    def _take_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if not message.reply:
                continue  # nobody waits for an answer
            try:
                ends = self._hear(message)
            except Exception as error:
                self._loop.call_exception_handler(
                    {"message": "what another member asks for failed", "exception": error}
                )
                ends = session_end_for(message.payload)
            if ends is not None:
                self.say(message.reply, ends)

    def _hear(self, message: Message) -> ForwardMessage | None:
        """Do what a message asks for; return what ends its session, if that is over."""
        try:
            content = decode_message(message.payload)
        except CodecError as error:
            _log.warning("a member that asks said what cannot be read: %s", error)
            return session_end_for(message.payload)
        session = self._sessions.get(content.incarnation)
        ends = session_end(content.incarnation, content.session)
        if self._is_stalled:
            return ends
        begins = content.number == 1 and (session is None or content.session > session.session)
        if begins and session is None and not self.leaving:
            session = self._sessions[content.incarnation] = ServerSession(
                self, self._engine, content.incarnation
            )
        if session is None:
            return ends
        return None if session.hear(content, message.reply, begins=begins) else ends

    @property
    def _is_stalled(self) -> bool:
        # Not all that waited meanwhile comes before the next look.
        return self._woke or self._loop.time() - self._looked_s > STALL_S

    def _look(self) -> None:
        now_s = self._loop.time()
        try:
            self._check_sessions(now_s)
        finally:
            self._woke = now_s - self._looked_s > STALL_S
            self._looked_s = now_s
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _check_sessions(self, now_s: float) -> None:
        away = now_s - self._looked_s > STALL_S or not self._engine.in_contact
        for session in list(self._sessions.values()):
            if away:
                session.heard_s = now_s  # it may be this member that is not to be heard
            elif now_s - session.heard_s > SESSION_SILENT_S:
                _log.info("a member that asks is silent: what it has of queues here goes back")
                session.end()
