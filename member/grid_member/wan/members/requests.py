"""Requests of a member that lacks shards to one that has all of them, over their own servers.

    which member has all shards? ─▶ it says its UUID ─▶ kind │ body ─▶ outcome │ body

A lite member asks so, and of more than five members those without a seat (decision 0034). Who has
all shards answers by itself and passes nothing on.
"""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.engine.forward.messages import FORWARD_SERVERS
from grid_member.engine.nats.client.errors import NatsError
from grid_member.telemetry.logs import failure
from grid_member.wan.ports import BusyError, ComparingError, ConflictError
from grid_member.wan.protocol import ProtocolError

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from grid_member.engine.nats.client.client import NatsClient, Subscription
    from grid_member.engine.nats.client.wire import Message

FIND_S: Final = 1.0
"""How long members have to say that they have all shards."""
ANSWER_S: Final = 15.0
"""How long one may take to answer: a batch waits until all of it is committed."""
STOP_S: Final = 2.0
"""How long a stop waits for requests that are being answered."""
MAX_ANSWERING: Final = 64
"""Requests that a member answers at once."""
NO_REPLICA: Final = "no member that holds the data answers"
_SUBJECT: Final = b"grid.wan.%b"


class RequestKind(enum.IntEnum):
    """What is asked for. The numbers never change."""

    CHANGES = 1
    """Take a batch of another cluster."""
    STATUS = 2
    """The status of all publishers."""
    TELL = 3
    """Tell all shards an operation."""
    DIGESTS = 4
    """Answer a question of another cluster for digests of a map."""
    KEYS = 5
    """Answer a question of another cluster for keys of a map."""
    MAPS = 6
    """What the shards know of a publisher and a map."""


class _Outcome(enum.IntEnum):
    DONE = 0
    CONFLICT = 1
    BUSY = 2
    MALFORMED = 3
    COMPARING = 4


Answers: TypeAlias = "Mapping[RequestKind, Callable[[bytes], Awaitable[bytes]]]"
"""By kind, what answers a body; each may raise `ConflictError`, `BusyError` and `ProtocolError`."""
_ERRORS: Final[dict[_Outcome, Callable[[str], Exception]]] = {
    _Outcome.CONFLICT: ConflictError,
    _Outcome.MALFORMED: ProtocolError,
    # The member that compares is asked again: another one would begin from the start.
    _Outcome.COMPARING: ComparingError,
}


class RequestServer:
    """Answers on a member with data, as long as it has all shards."""

    def __init__(self, client: NatsClient, member: bytes, answers: Answers, log: logging.Logger):
        """Answer nobody yet; member is this member's UUID, 16 bytes."""
        self._client = client
        self._member = member
        self._answers = answers
        self._log = log
        self._answering: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    def start(self) -> None:
        """Answer from now on."""
        subject = _SUBJECT % self._member.hex().encode()
        self._subscription = self._client.subscribe(subject, self._take)

    async def stop(self) -> None:
        """Begin nothing any more; what was begun has a moment to be answered."""
        if self._subscription is not None:
            self._subscription.unsubscribe()
        if self._answering:
            await asyncio.wait(self._answering, timeout=STOP_S)
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if not message.reply:
                continue
            if len(self._answering) >= MAX_ANSWERING:
                self._say(message.reply, _Outcome.BUSY, b"too many requests of other members wait")
                continue
            task = asyncio.get_running_loop().create_task(self._answer(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, message: Message) -> None:
        outcome, body = _Outcome.DONE, b""
        try:
            kind = RequestKind(message.payload[0])
            body = await self._answers[kind](message.payload[1:])
        except ConflictError as problem:
            outcome, body = _Outcome.CONFLICT, str(problem).encode()
        except ProtocolError as problem:
            outcome, body = _Outcome.MALFORMED, str(problem).encode()
        except ComparingError as problem:
            outcome, body = _Outcome.COMPARING, str(problem).encode()
        except BusyError as problem:
            outcome, body = _Outcome.BUSY, str(problem).encode()
        except Exception as problem:
            failure(self._log, "a request of another member failed", problem)
            outcome, body = _Outcome.BUSY, b"the member that holds the data failed to answer"
        self._say(message.reply, outcome, body)

    def _say(self, reply: bytes, outcome: _Outcome, body: bytes) -> None:
        self._client.publish(reply, bytes((outcome,)) + body)


class Replica:
    """A member that has all shards, as one that lacks some asks it."""

    def __init__(self, client: Callable[[], NatsClient]) -> None:
        """Know none yet; client returns the connection to the own server once there is one."""
        self._client = client
        self._found: bytes | None = None

    async def ask(self, kind: RequestKind, body: bytes) -> bytes:
        """Return what a member with all shards answers.

        Raises:
            ConflictError: this request is not taken, and repeating it does not help.
            ProtocolError: the body is malformed.
            BusyError: no member answers, or it takes nothing now.
        """
        client = self._client()
        try:
            if self._found is None:
                self._found = (await client.request(FORWARD_SERVERS, timeout_s=FIND_S)).payload
            subject = _SUBJECT % self._found.hex().encode()
            answer = await client.request(subject, bytes((kind,)) + body, timeout_s=ANSWER_S)
        except NatsError as problem:
            self._found = None
            raise BusyError(f"{NO_REPLICA}: {problem}") from None
        outcome, answered = _Outcome(answer.payload[0]), answer.payload[1:]
        if outcome is _Outcome.DONE:
            return answered
        if outcome is _Outcome.BUSY:
            self._found = None  # another one may have less to do
            raise BusyError(answered.decode())
        raise _ERRORS[outcome](answered.decode())
