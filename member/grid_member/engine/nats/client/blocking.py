"""The client of a thread: what a start replays, before there is a loop to keep free."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Final, Self

from grid_member.engine.nats.client.errors import (
    DisconnectedError,
    NatsError,
    NatsRefusedError,
    NoRespondersError,
    OverloadedError,
    RequestTimeoutError,
)
from grid_member.engine.nats.client.wire import (
    MAX_PAYLOAD_BYTES,
    PING,
    PONG,
    Event,
    Message,
    Parser,
    Ping,
    Pong,
    ServerError,
    ServerInfo,
    greeting,
    is_no_responders,
    publication,
    subscription,
    unsubscription,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READ_BYTES: Final = 256 * 1024
"""How much is read at once."""
MAX_UNREAD_BYTES: Final = 256 << 20
"""What may arrive for `messages` while a request waits for its answer."""


class BlockingClient:
    """One connection of one thread, from `with` to its end; it never connects again.

    PINGs of the server are answered whenever something is read, so that whoever takes messages
    must not pause for longer than the server waits for a PONG.

    Args:
        address: Host and port of the server.
        user: Whom the server is to know.
        password: What it is to know the user by.
        timeout_s: How long anything may take: to connect, to answer, the next message.
        name: What the reports of the server call this connection.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        address: tuple[str, int],
        user: str,
        password: str,
        timeout_s: float,
        *,
        name: str = "replay",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._greeting = greeting(user, password, name)
        self._timeout_s = timeout_s
        self._clock = clock
        self._parser = Parser(MAX_PAYLOAD_BYTES)
        self._socket: socket.socket | None = None
        self._numbers = count(1)
        self._inbox = b"_INBOX.%b." % secrets.token_hex(11).encode()
        self._unread: dict[int, deque[Message]] = {}
        self._unread_bytes = 0
        self._greeted = False
        self._answered = False
        self._error = ""

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            NatsRefusedError: The server does not know the user and password.
            RequestTimeoutError: It did not answer in time.
            DisconnectedError: It is not to be reached, or it hung up.
        """
        try:
            self._socket = socket.create_connection(self._address, self._timeout_s)
        except TimeoutError:
            raise _late() from None
        except OSError as error:
            raise DisconnectedError(f"nats-server is not to be reached: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._greet()
        except BaseException as error:
            self._hang_up()
            if isinstance(error, NatsError) and "auth" in self._error.lower():
                raise NatsRefusedError(
                    "nats-server does not know the user and password of the member"
                ) from error
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()

    def publish(
        self, subject: bytes, payload: bytes = b"", reply: bytes = b"", headers: bytes = b""
    ) -> None:
        """Send this now.

        Raises:
            NatsError: It did not go out.
        """
        self._send(publication(subject, payload, reply, headers))

    def request(
        self,
        subject: bytes,
        payload: bytes = b"",
        *,
        timeout_s: float | None = None,
        headers: bytes = b"",
    ) -> Message:
        """Return the first answer; messages that come before it wait for `messages`.

        Raises:
            NoRespondersError: Nobody listens to the subject.
            RequestTimeoutError: No answer came in time; None is the time-out of the client.
            DisconnectedError: The connection went before the answer came.
            OverloadedError: Too many messages came before it.
        """
        reply = b"%br.%d" % (self._inbox, next(self._numbers))
        sid, answers = self._listen(reply)
        try:
            self.publish(subject, payload, reply, headers)
            deadline_s = self._clock() + (self._timeout_s if timeout_s is None else timeout_s)
            while not answers:
                self._read(deadline_s)
            answer = answers.popleft()
        finally:
            self._forget(sid)
        if is_no_responders(answer):
            raise NoRespondersError("nobody listens to the subject of a request")
        return answer

    def messages(
        self, subject: bytes, begin: Callable[[bytes], None], first_s: float | None = None
    ) -> Iterator[Message]:
        """Listen to a subject, call `begin` with it, and return its messages as they come.

        `begin` makes them come: it may `request`, and what arrives meanwhile is kept. The first has
        to come within `first_s` after that, None is the time-out of the client. The iterator ends
        with an error only; to close it ends the subscription.

        Raises:
            RequestTimeoutError: The next message did not come in time.
            DisconnectedError: The connection went.
        """
        sid, unread = self._listen(subject)
        try:
            begin(subject)
        except BaseException:
            self._forget(sid)
            raise
        return self._messages(sid, unread, self._timeout_s if first_s is None else first_s)

    def _messages(self, sid: int, unread: deque[Message], next_s: float) -> Iterator[Message]:
        try:
            while True:
                while unread:
                    yield unread.popleft()
                self._unread_bytes = 0
                deadline_s = self._clock() + next_s
                while not unread:
                    self._read(deadline_s)
                next_s = self._timeout_s
        finally:
            self._forget(sid)

    def _listen(self, subject: bytes) -> tuple[int, deque[Message]]:
        if not any(self._unread.values()):
            self._unread_bytes = 0
        sid = next(self._numbers)
        self._send(subscription(subject, sid))
        self._unread[sid] = unread = deque[Message]()
        return sid, unread

    def _forget(self, sid: int) -> None:
        self._unread.pop(sid, None)
        # Without a connection there is nothing to end, and another error is on its way.
        with contextlib.suppress(NatsError):
            self._send(unsubscription(sid))

    def _greet(self) -> None:
        deadline_s = self._clock() + self._timeout_s
        while not self._greeted:
            self._read(deadline_s)
        self._send(self._greeting + PING)
        while not self._answered:
            self._read(deadline_s)

    def _send(self, data: bytes) -> None:
        if self._socket is None:
            raise self._disconnected_error()
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(data)
        except TimeoutError:
            # Half a line may have gone out: nothing can follow it.
            self._hang_up()
            raise _late() from None
        except OSError as error:
            self._hang_up()
            raise self._disconnected_error() from error

    def _read(self, deadline_s: float) -> None:
        """Read once, and keep what came for those who listen."""
        data = self._receive(deadline_s)
        self._unread_bytes += len(data)
        if self._unread_bytes > MAX_UNREAD_BYTES:
            raise OverloadedError("too many messages came before an answer: begin to read later")
        for event in self._parser.feed(data):
            if isinstance(event, Message):
                unread = self._unread.get(event.sid)
                if unread is not None:
                    unread.append(event)
            else:
                self._control(event)

    def _receive(self, deadline_s: float) -> bytes:
        left_s = deadline_s - self._clock()
        if self._socket is None:
            raise self._disconnected_error()
        if left_s <= 0:
            raise _late()
        try:
            self._socket.settimeout(left_s)
            data = self._socket.recv(READ_BYTES)
        except TimeoutError:
            raise _late() from None
        except OSError as error:
            self._hang_up()
            raise self._disconnected_error() from error
        if not data:
            self._hang_up()
            raise self._disconnected_error()
        return data

    def _control(self, event: Event) -> None:
        if isinstance(event, Ping):
            self._send(PONG)
        elif isinstance(event, Pong):
            self._answered = True
        elif isinstance(event, ServerInfo):
            self._greeted = True
        elif isinstance(event, ServerError):
            self._error = event.text

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _disconnected_error(self) -> DisconnectedError:
        return DisconnectedError(
            f"the connection to nats-server went: {self._error or 'the server hung up'}"
        )


def _late() -> RequestTimeoutError:
    return RequestTimeoutError("nats-server did not answer in time")
