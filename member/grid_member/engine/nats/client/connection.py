"""One connection of the loop to nats-server: greeting, heartbeats, one write a tick."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from grid_member.engine.nats.client.errors import WireError
from grid_member.engine.nats.client.wire import (
    PING,
    PONG,
    Event,
    Message,
    Parser,
    Ping,
    Pong,
    ServerError,
    ServerInfo,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

SILENT_INTERVALS: Final = 2
"""Intervals without a byte, each begun with a PING, after which a server counts as gone."""
_HUNG_UP: Final = "the server hung up"


class ConnectionOwner(Protocol):
    """Whom a connection works for. What it calls here must not raise."""

    def greeting(self) -> bytes:
        """Return what is said after the first INFO: who we are and what we listen to."""

    def note_open(self, connection: NatsConnection) -> None:
        """Take note that the server has read the greeting and takes publications."""

    def note_close(self, connection: NatsConnection) -> None:
        """Take note that nothing will come or go any more; called once for each connection."""

    def take(self, sid: int, messages: Sequence[Message]) -> None:
        """Take the messages of one read for one subscription."""

    def report_error(self, text: str) -> None:
        """Take note of what the server found wrong."""


class NatsConnection:
    """A connection from its making to its loss; `await_end` is done when it is lost.

    It has what an `asyncio.Protocol` has and is none: that base makes compiled classes slow.

    Any byte is a heartbeat: a server that has much to say answers a PING late. Until the
    greeting is answered nothing is, so that a server which only listens is given up as well.
    """

    def __init__(
        self, owner: ConnectionOwner, max_payload_bytes: int, ping_interval_s: float
    ) -> None:
        self._owner = owner
        self._parser = Parser(max_payload_bytes)
        self._ping_interval_s = ping_interval_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._silent_intervals = 0
        self._unanswered_pings = 0
        self._finishing = False
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.info: ServerInfo | None = None
        self.open = False
        """Whether what is sent now goes to a server that has read our greeting."""
        self.reason = _HUNG_UP
        """Why it was lost, once it is."""
        self.refused = False
        """Whether the server does not know the user and password."""
        self.was_open = False
        """Whether it was open once."""

    @property
    def made(self) -> bool:
        """Whether there is or was a connection, so that `await_end` will be done."""
        return self._transport is not None

    @property
    def pending_bytes(self) -> int:
        """What was sent and the kernel has not taken yet."""
        transport = self._transport
        return self._unsent_bytes + (transport.get_write_buffer_size() if transport else 0)

    def send(self, data: bytes) -> None:
        """Send this with all else of this tick of the loop, in order, in one write."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)

    def drop(self, reason: str) -> None:
        """Give the connection up now; what was not sent is lost. Again, or later, does nothing."""
        self.open = False
        if self._transport is not None and not self.ended.done():
            self.reason = reason
            self._transport.abort()

    def finish(self) -> None:
        """Hang up once the server has read all that was sent; `await_end` tells when.

        To hang up earlier could cost the end of it: a kernel that is left with unread bytes of the
        server resets the connection.
        """
        if not self.open:
            self.drop("the client was closed")
            return
        self.open = False
        self._finishing = True
        self._ping()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the server: it speaks first."""
        self._transport = cast("asyncio.Transport", transport)
        self._tick_later()

    def data_received(self, data: bytes) -> None:
        """Hand the messages over, all of a subscription in one list."""
        if self.open:
            self._silent_intervals = 0
        try:
            events = self._parser.feed(data)
        except WireError as error:
            self.drop(str(error))
            return
        by_sid: dict[int, list[Message]] = {}
        for event in events:
            if isinstance(event, Message):
                messages = by_sid.get(event.sid)
                if messages is None:
                    by_sid[event.sid] = [event]
                else:
                    messages.append(event)
            else:
                self._control(event)
        for sid, messages in by_sid.items():
            self._owner.take(sid, messages)

    def eof_received(self) -> None:
        """Give the connection up: the server says no more."""
        # A transport that closes by itself would first wait until all is sent.
        self.drop(self.reason)

    def pause_writing(self) -> None:
        """Go on: who sends looks at `pending_bytes`."""

    def resume_writing(self) -> None:
        """Nothing waits for that."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whom this works for, once."""
        if exc is not None and self.reason == _HUNG_UP:
            self.reason = f"the connection broke: {exc}"
        self.open = False
        self._unsent.clear()
        self._unsent_bytes = 0
        if self._ticking is not None:
            self._ticking.cancel()
        self._owner.note_close(self)
        if not self.ended.done():
            self.ended.set_result(None)

    def _control(self, event: Event) -> None:
        if isinstance(event, Ping):
            self.send(PONG)
        elif isinstance(event, Pong):
            self._note_pong()
        elif isinstance(event, ServerInfo):
            first = self.info is None
            self.info = event
            if first:
                self.send(self._owner.greeting())
                self._ping()
        elif isinstance(event, ServerError):
            self._report_error(event.text)

    def _note_pong(self) -> None:
        self._unanswered_pings -= 1
        if self._finishing:
            if self._unanswered_pings == 0:
                self.drop("the client was closed")
        elif not self.was_open and self.info is not None:
            self.open = self.was_open = True
            self._silent_intervals = 0
            self._owner.note_open(self)

    def _ping(self) -> None:
        self._unanswered_pings += 1
        self.send(PING)

    def _report_error(self, text: str) -> None:
        self.reason = f"the server complained: {text}"
        if not self.open and "auth" in text.lower():
            self.refused = True
        self._owner.report_error(text)

    def _flush(self) -> None:
        if self._unsent and self._transport is not None:
            data = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
            self._unsent.clear()
            self._unsent_bytes = 0
            if not self._transport.is_closing():
                self._transport.write(data)

    def _tick_later(self) -> None:
        self._ticking = self._loop.call_later(self._ping_interval_s, self._tick)

    def _tick(self) -> None:
        self._silent_intervals += 1
        if self._silent_intervals > SILENT_INTERVALS:
            self.drop("the server gave no sign of life")
            return
        if self.open:
            self._ping()
        self._tick_later()
