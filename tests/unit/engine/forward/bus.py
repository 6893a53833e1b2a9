"""Connections without servers: what one publishes the others hear, unless a test loses it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from grid_member.engine.nats.client.errors import NoRespondersError, RequestTimeoutError, WireError
from grid_member.engine.nats.client.wire import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.nats.client.client import NatsClient

NOBODY = b"NATS/1.0 503\r\n\r\n"


class Listener:
    def __init__(self, bus: Bus, subject: bytes, take: Callable[[Sequence[Message]], None]) -> None:
        self._bus = bus
        self.subject = subject
        self.take = take

    def hears(self, subject: bytes) -> bool:
        if self.subject.endswith(b".*"):
            return subject.rpartition(b".")[0] == self.subject[:-2]
        return subject == self.subject

    def unsubscribe(self) -> None:
        if self in self._bus.listeners:
            self._bus.listeners.remove(self)


class Bus:
    """Carries messages in order, each in a tick of its own."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.lose: Callable[[bytes], bool] = lambda subject: False
        """Tells which messages are lost."""
        self.hold: Callable[[bytes], bool] = lambda subject: False
        """Tells which messages wait for `release`."""
        self.held: list[Message] = []
        self.carried = 0
        self._inboxes = 0

    def inbox(self) -> bytes:
        self._inboxes += 1
        return b"_INBOX.%d" % self._inboxes

    def carry(self, message: Message) -> None:
        if self.hold(message.subject):
            self.held.append(message)
        elif not self.lose(message.subject):
            asyncio.get_running_loop().call_soon(self._deliver, message)

    def release(self) -> None:
        """Deliver what was held, all at once, as to a process that stood still."""
        self.hold = lambda subject: False
        held, self.held = self.held, []
        for message in held:
            self._deliver(message)

    def _deliver(self, message: Message) -> None:
        self.carried += 1
        hearing = [one for one in self.listeners if one.hears(message.subject)]
        for one in hearing:
            one.take([message])
        if not hearing and message.reply:
            self.carry(Message(message.reply, b"", NOBODY, b"", 1))


class Connection:
    """As much of a client as forwarding needs."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.connected = True
        self.half_full = self.full = False
        self.max_payload_bytes = 2**30

    @property
    def client(self) -> NatsClient:
        return cast("NatsClient", self)

    def unused_inbox(self) -> bytes:
        return self._bus.inbox()

    def publish(self, subject: bytes, payload: bytes, reply: bytes = b"") -> bool:
        if not subject or len(payload) > self.max_payload_bytes:
            raise WireError("it cannot be sent")
        if self.full or not self.connected:
            return False
        self._bus.carry(Message(subject, reply, b"", payload, 1))
        return True

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> Listener:
        listener = Listener(self._bus, subject, take)
        self._bus.listeners.append(listener)
        return listener

    async def request(self, subject: bytes, payload: bytes = b"", *, timeout_s: float) -> Message:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def take(messages: Sequence[Message]) -> None:
            if not answer.done():
                answer.set_result(messages[0])

        listener = self.subscribe(self._bus.inbox(), take)
        self.publish(subject, payload, listener.subject)
        try:
            message = await asyncio.wait_for(answer, timeout_s)
        except TimeoutError:
            raise RequestTimeoutError("no answer") from None
        finally:
            listener.unsubscribe()
        if message.headers:
            raise NoRespondersError("nobody listens")
        return message
