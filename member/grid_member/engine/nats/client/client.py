"""The client of the loop: publications, subscriptions and requests over one connection for ever."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from grid_member.engine.nats.client.connection import NatsConnection
from grid_member.engine.nats.client.errors import (
    DisconnectedError,
    NatsRefusedError,
    NoRespondersError,
    OverloadedError,
    RequestTimeoutError,
    WireError,
)
from grid_member.engine.nats.client.wire import (
    MAX_PAYLOAD_BYTES,
    Message,
    greeting,
    is_no_responders,
    publication,
    subscription,
    unsubscription,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PING_INTERVAL_S: Final = 2.0
"""How often a server is asked for a heartbeat."""
CONNECT_TIMEOUT_S: Final = 2.0
"""How long making a connection on one machine may take."""
CLOSE_TIMEOUT_S: Final = 1.0
"""How long a close waits until what was published is sent."""
FIRST_DELAY_S: Final = 0.02
"""Pause before the first attempt to connect again; doubled up to the longest."""
LONGEST_DELAY_S: Final = 1.0
PENDING_PAYLOADS: Final = 8
"""Payloads of the largest size that may wait to be sent; more is not taken."""
MAX_REQUESTS: Final = 10_000
"""Requests that may wait for their answers at the same time."""
MAX_ERRORS: Final = 32
"""Different errors of a server that are logged as warnings."""

_log: Final = logging.getLogger("grid.engine.nats")


class Subscription:
    """What is listened to until it is told not to, over all connections."""

    def __init__(
        self,
        client: NatsClient,
        sid: int,
        subject: bytes,
        take: Callable[[Sequence[Message]], None],
    ) -> None:
        self._client = client
        self.sid = sid
        self.subject = subject
        self.take = take

    def unsubscribe(self) -> None:
        """Take nothing any more, from now on; again does nothing."""
        self._client.forget(self)


class NatsClient:
    """Talks to the server at `address()`, and after a loss to the one that is there then.

    All calls belong to the loop that it was started in. Nothing is kept for a later connection:
    what was published before a loss may have arrived or not, requests fail at once, and only
    subscriptions are made again. Messages may come just before `changed(True)`; after
    `changed(False)` none come until the next connection. `close` says `changed(False)` too.

    Args:
        address: Host and port of the server now; None while it is not running.
        user: Whom the server is to know.
        password: What it is to know the user by.
        name: What its reports call this connection.
        max_payload_bytes: The largest payload that is sent, without its headers.
        on_connection: Told after each connection was made (True) or lost (False).
        ping_interval_s: How often a heartbeat is asked for; without one for some two to three
            of them the server counts as gone.
    """

    def __init__(
        self,
        address: Callable[[], tuple[str, int] | None],
        user: str,
        password: str,
        name: str,
        *,
        max_payload_bytes: int,
        on_connection: Callable[[bool], None] | None = None,
        ping_interval_s: float = PING_INTERVAL_S,
    ) -> None:
        self._address = address
        self._greeting = greeting(user, password, name)
        self._max_payload_bytes = max_payload_bytes
        self._max_pending_bytes = max_payload_bytes * PENDING_PAYLOADS
        self._on_connection = on_connection
        self._ping_interval_s = ping_interval_s
        self._connection: NatsConnection | None = None
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self._refused = False
        self._reason = "the client was not started"
        self._news = asyncio.Event()
        self._errors: set[str] = set()
        self._numbers = count(1)
        self._inbox = b"_INBOX.%b." % secrets.token_hex(11).encode()
        self._requests: dict[bytes, asyncio.Future[Message]] = {}
        self._subscriptions: dict[int, Subscription] = {}
        # Answers have one level more than `unused_inbox`, so that this takes nothing else.
        self.subscribe(self._inbox + b"r.*", self._take_answers)

    @property
    def connected(self) -> bool:
        """Whether a publication goes out now."""
        return self._connection is not None and self._connection.open

    @property
    def pending_bytes(self) -> int:
        """What was published and the kernel has not taken yet."""
        return self._connection.pending_bytes if self._connection is not None else 0

    @property
    def half_full(self) -> bool:
        """Whether so much waits to be sent that what can wait should: the rest is for records."""
        return self.pending_bytes > self._max_pending_bytes // 2

    def start(self) -> None:
        """Begin to connect; returns at once."""
        if self._running is not None or self._closed:
            raise RuntimeError("a client is started once")
        self._reason = "the server is not running"
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Send what was published, hang up, and stay closed; never raises for a lost server.

        Messages may come until it returns.
        """
        self._closed = True
        self._reason = "the client was closed"
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        connection = self._connection
        if connection is not None:
            connection.finish()
            await asyncio.wait([connection.ended], timeout=CLOSE_TIMEOUT_S)
            connection.drop(self._reason)
            await connection.ended
        self._news.set()

    async def wait_connected(self, timeout_s: float) -> None:
        """Return once there is a connection.

        Raises:
            NatsRefusedError: The server at the address does not know the user and password.
            DisconnectedError: There was none in time, or the client was closed.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not (self.connected or self._refused or self._closed):
                    self._news.clear()
                    await self._news.wait()
        if self.connected:
            return
        if self._refused:
            raise NatsRefusedError("nats-server does not know the user and password of the member")
        raise DisconnectedError(f"no connection to nats-server: {self._reason}")

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b""
    ) -> bool:
        """Send this with all that is published in this tick; False: nothing was and will be sent.

        That is so without a connection, and while too much waits to be sent.

        Raises:
            WireError: The server would hang up on this: too large, or no subject.
        """
        connection = self._connection
        if connection is None or not connection.open:
            return False
        if len(payload) > self._largest(connection, len(headers)):
            raise WireError("a payload is larger than nats-server takes")
        if connection.pending_bytes + len(payload) > self._max_pending_bytes:
            return False
        connection.send(publication(subject, payload, reply, headers))
        return True

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> Subscription:
        """Listen from now on; `take` gets all messages of a read at once, in their order.

        What `take` raises goes to the exception handler of the loop; those messages are lost.

        Raises:
            WireError: This is no subject.
        """
        asked = Subscription(self, next(self._numbers), subject, take)
        line = subscription(subject, asked.sid)
        self._subscriptions[asked.sid] = asked
        if self._connection is not None and self._connection.info is not None:
            self._connection.send(line)
        return asked

    def forget(self, asked: Subscription) -> None:
        """End a subscription: `Subscription.unsubscribe`."""
        if self._subscriptions.pop(asked.sid, None) is None:
            return
        if self._connection is not None and self._connection.info is not None:
            self._connection.send(unsubscription(asked.sid))

    async def request(
        self, subject: bytes, payload: bytes = b"", *, timeout_s: float, headers: bytes = b""
    ) -> Message:
        """Return the first answer.

        Raises:
            NoRespondersError: Nobody listens to the subject.
            RequestTimeoutError: No answer came in time.
            DisconnectedError: There is no connection, or it went before the answer came.
            OverloadedError: Too much waits to be sent or answered.
            WireError: The server would hang up on this: too large, or no subject.
        """
        if not self.connected:
            raise DisconnectedError(f"no connection to nats-server: {self._reason}")
        reply = b"%br.%d" % (self._inbox, next(self._numbers))
        if len(self._requests) >= MAX_REQUESTS or not self.publish(
            subject, payload, reply, headers
        ):
            raise OverloadedError("too much waits for nats-server already: try again")
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._requests[reply] = answer
        try:
            async with asyncio.timeout(timeout_s):
                message = await answer
        except TimeoutError:
            raise RequestTimeoutError(f"nats-server did not answer in {timeout_s:g} s") from None
        finally:
            self._requests.pop(reply, None)
        if is_no_responders(message):
            raise NoRespondersError("nobody listens to the subject of a request")
        return message

    def unused_inbox(self) -> bytes:
        """Return a subject that nobody else uses, to be subscribed to."""
        return b"%b%d" % (self._inbox, next(self._numbers))

    # What a connection tells (`connection.ConnectionOwner`).

    def greeting(self) -> bytes:
        """Return who we are with all that is listened to."""
        return self._greeting + b"".join(
            subscription(each.subject, each.sid) for each in self._subscriptions.values()
        )

    def note_open(self, connection: NatsConnection) -> None:
        """Take publications from now on."""
        self._refused = False
        self._news.set()
        self._tell(True)

    def note_close(self, connection: NatsConnection) -> None:
        """Fail what waits for answers of this connection."""
        if self._connection is connection:
            self._connection = None
        self._reason = connection.reason
        self._refused = connection.refused
        waiting, self._requests = self._requests, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(
                    DisconnectedError(f"the connection to nats-server went: {self._reason}")
                )
        self._news.set()
        if connection.was_open:
            if not self._closed:
                _log.warning("the connection to nats-server went: %s", self._reason)
            self._tell(False)

    def take(self, sid: int, messages: Sequence[Message]) -> None:
        """Hand messages to whom they are for; nobody if that has ended meanwhile."""
        asked = self._subscriptions.get(sid)
        if asked is None:
            return
        try:
            asked.take(messages)
        except Exception as error:
            _report("a subscription failed to take messages", error)

    def report_error(self, text: str) -> None:
        """Log an error of the server; repeated ones, and too many different ones, for debugging."""
        known = text in self._errors or len(self._errors) >= MAX_ERRORS
        _log.log(logging.DEBUG if known else logging.WARNING, "nats-server complained: %s", text)
        if not known:
            self._errors.add(text)

    def _take_answers(self, messages: Sequence[Message]) -> None:
        for message in messages:
            answer = self._requests.pop(message.subject, None)
            if answer is not None and not answer.done():
                answer.set_result(message)

    def _largest(self, connection: NatsConnection, header_bytes: int) -> int:
        info = connection.info
        if info is None:
            return self._max_payload_bytes
        return min(self._max_payload_bytes, info.max_payload_bytes - header_bytes)

    def _tell(self, connected: bool) -> None:
        if self._on_connection is None:
            return
        try:
            self._on_connection(connected)
        except Exception as error:
            _report("a change of the connection was not taken", error)

    async def _run(self) -> None:
        delay_s = FIRST_DELAY_S
        while True:
            address = self._look_up()
            if address is None:
                # To look costs nothing, so that a server which has just started is found soon.
                delay_s = FIRST_DELAY_S
            elif await self._talk(address):
                delay_s = FIRST_DELAY_S
            await asyncio.sleep(delay_s)
            if address is not None:
                delay_s = min(delay_s * 2, LONGEST_DELAY_S)

    def _look_up(self) -> tuple[str, int] | None:
        try:
            address = self._address()
        except Exception as error:
            _report("the address of nats-server is not to be had", error)
            address = None
        if address is None:
            self._reason = "the server is not running"
        return address

    async def _talk(self, address: tuple[str, int]) -> bool:
        """Connect, and return when the connection is lost: whether there was one."""
        connection = NatsConnection(self, MAX_PAYLOAD_BYTES, self._ping_interval_s)
        protocol = cast("asyncio.Protocol", connection)
        self._connection = connection
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(lambda: protocol, *address)
        except (OSError, ValueError, OverflowError) as error:
            self._reason = f"the server is not to be reached: {str(error) or 'it takes too long'}"
            self._refused = False
            return False
        finally:
            if not connection.made:
                self._connection = None
        # Waited for, not awaited: a close that ends this task still needs the future.
        await asyncio.wait([connection.ended])
        return connection.was_open


def _report(what: str, error: Exception) -> None:
    """Tell the loop of a failure in what was called, which is not the connection's fault."""
    asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})
