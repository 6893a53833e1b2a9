"""The committed messages of one stream: in order, each once, from the member's own server.

An ordered consumer is made, watched and made anew from the last message on whenever anything about
it is in doubt: a gap, silence, a new connection. The first that can be had will do: one that the
own server leads takes its place meanwhile, see `local_leader`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from grid_member.engine.io.ending import end_tasks
from grid_member.engine.jetstream.local_leader import LocalLeader
from grid_member.engine.nats.admin.consumers import REQUEST_TIMEOUT_S, Consumers
from grid_member.engine.nats.admin.streams import ask
from grid_member.engine.nats.client.errors import NatsError, describe_unexpected
from grid_member.engine.nats.client.wire import status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.nats.client.client import NatsClient, Subscription
    from grid_member.engine.nats.client.wire import Message

SILENCE_S: Final = 3.5
"""After so long without a word the consumer is made anew."""
RETRY_S: Final = 0.2
SHORT_LOOKS: Final = 10
"""Looks at a stream that ends before what was taken of it; a new leader may not be there yet."""
_ACK_TOKENS: Final = (9, 12)
"""Of a reply subject, without and with domain, account and a random end."""
_log: Final = logging.getLogger("grid.engine.nats")


class StreamMessage(NamedTuple):
    """A message of the stream."""

    sequence: int
    timestamp_ms: int
    payload: bytes


Take: TypeAlias = "Callable[[Sequence[StreamMessage]], None]"


def place(reply: bytes) -> tuple[int, int, int]:
    """Return stream sequence, consumer sequence and milliseconds since the epoch of a message.

    Raises:
        ValueError: the reply subject is not one of a stream's message.
    """
    tokens = reply.split(b".")
    if len(tokens) not in _ACK_TOKENS or tokens[1] != b"ACK":
        raise ValueError(f"no message of a stream: {reply[:80]!r}")
    first = 5 if len(tokens) == _ACK_TOKENS[0] else 7
    return int(tokens[first]), int(tokens[first + 1]), int(tokens[first + 2]) // 1_000_000


class StreamConsumer:
    """One stream's messages for one member."""

    def __init__(
        self,
        client: NatsClient,
        stream: str,
        member: str,
        own_server: Callable[[], str | None],
        take: Take,
        on_loss: Callable[[], None],
    ) -> None:
        """Make a consumer that has not begun.

        The name `member` is unique to this incarnation of this member, as it is part of subjects;
        `own_server` returns the name of the member's own server, None when its place is of no
        matter. `take` gets messages that come in one read. `on_loss` hears that messages which were
        not seen are gone from the stream, or that `take` raised; nothing more comes until `resume`.
        """
        self._client = client
        self._stream = stream
        self._consumers = Consumers(client, stream, member)
        self._local_leader = LocalLeader(
            self._consumers, own_server, self._begin_after, self._listen
        )
        self._take = take
        self._on_loss = on_loss
        self._last = 0
        """The sequence of the last message that was taken."""
        self._last_ms: int | None = None
        """The time of the last message, as far as it is known."""
        self._short = 0
        self._consumer_sequence = 0
        self._number = 0
        """Of the consumer that feeds; 0 when none does."""
        self._heard_s = 0.0
        self._subscription: Subscription | None = None
        self._break = asyncio.Event()
        self._complete = asyncio.Event()
        """Cleared when messages are lost, until it is told where to go on."""
        self._complete.set()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    def time_ms(self, sequence: int) -> int | None:
        """Return the time of that message if it is the last that was taken, and known."""
        return self._last_ms if sequence == self._last else None

    def start(self, after: int, after_ms: int | None = None) -> None:
        """Take everything behind that sequence, whose message has that time if there was one."""
        self._last, self._last_ms = after, after_ms
        self._task = asyncio.get_running_loop().create_task(self._run())

    def resume(self, after: int, after_ms: int | None = None) -> None:
        """Go on as from a start: what was lost was read from elsewhere."""
        self._last, self._last_ms = after, after_ms
        self._complete.set()

    def halt(self) -> None:
        """Take nothing more until `resume`: the stream is left."""
        self._complete.clear()
        self._break.set()

    def renew(self) -> None:
        """Make the consumer anew: the connection is another one."""
        self._break.set()

    async def close(self) -> None:
        """Take nothing any more."""
        self._ended = True
        self._leave()
        await end_tasks(self._task)
        self._leave()  # one of the own server's may have come meanwhile

    async def _run(self) -> None:
        while not self._ended:
            await self._complete.wait()
            self._break.clear()
            made = await self._make_consumer()
            if made:
                await self._consume()
            self._leave()
            if not made:
                await asyncio.sleep(RETRY_S)

    async def _consume(self) -> None:
        """Be fed until that is in doubt, by the own server as soon as that can be."""
        staying = asyncio.get_running_loop().create_task(self._local_leader.keep())
        try:
            await self._doubtful()
        finally:
            staying.cancel()  # from here on it changes nothing any more

    async def _make_consumer(self) -> bool:
        """Make a consumer; False when there is none to go on with."""
        try:
            await self._create()
            await self._compare()
        except (NatsError, ValueError) as error:
            _log.debug("no consumer of %s: %s", self._stream, error)
            return False
        return True

    async def _doubtful(self) -> None:
        """Return when anything about the consumer is in doubt."""
        loop = asyncio.get_running_loop()
        while not self._break.is_set():
            left_s = self._heard_s + SILENCE_S - loop.time()
            if left_s <= 0:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._break.wait(), left_s)

    async def _create(self) -> None:
        """Make a consumer in place of the one before, led by whomever."""
        number = self._consumers.number()
        self._listen(number)
        self._local_leader.note_leader(
            number, await self._consumers.make(number, self._begin_after())
        )

    def _begin_after(self) -> int:
        # From the last message on, which tells whether it is the stream that it was.
        return self._last - (self._last_ms is not None)

    def _listen(self, number: int) -> None:
        """Be fed by the consumer of that number, and by no other one."""
        self._leave()
        self._number = number
        self._consumer_sequence = 0

        def take(messages: Sequence[Message]) -> None:
            if number == self._number:
                self._messages(messages)

        subject = self._consumers.subject(number)
        self._subscription = self._client.subscribe(subject.encode(), take)
        self._heard_s = asyncio.get_running_loop().time()

    async def _compare(self) -> None:
        """See whether the stream reaches as far as what was taken of it.

        Servers that keep it in memory have lost it when all were started again at once, and those
        that go on without lost ones may lack what those had. Then everything is read anew, so that
        all members go on with the same.

        Raises:
            ValueError: it does not, and nothing can be taken now.
        """
        if not self._last:
            return
        call = f"STREAM.INFO.{self._stream}"
        info = await ask(self._client, call, timeout_s=REQUEST_TIMEOUT_S)
        state = info.get("state", {})
        if state.get("last_seq", 0) >= self._last:
            self._short = 0
            return
        if state:
            self._short += 1  # without a leader nobody knows where it ends
        if self._short >= SHORT_LOOKS:
            _log.error("the stream %s lost its end, or all of it: it is read anew", self._stream)
            self._short = 0
            self._complete.clear()
            self._on_loss()
        raise ValueError("the stream ends before what was taken of it")

    def _leave(self) -> None:
        self._number = 0  # what still comes is of no consumer any more
        if self._subscription is not None:
            self._subscription.unsubscribe()
            self._subscription = None

    def _messages(self, messages: Sequence[Message]) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        if not self._complete.is_set():
            return
        fed: list[StreamMessage] = []
        last, last_ms, consumed = self._last, self._last_ms, self._consumer_sequence
        for message in messages:
            if message.headers and status(message.headers) is not None:
                self._control(message, consumed, last)
                if self._complete.is_set():
                    continue
                break
            sequence, number, timestamp_ms = place(message.reply)
            if number != consumed + 1:
                self._break.set()  # something was dropped on the way
                break
            consumed = number
            if sequence < last or (sequence == last and last_ms in {None, timestamp_ms}):
                continue
            if sequence != last + 1:
                # Nothing is ever deleted in the middle: the begin of the log was purged, or all
                # servers lost it and this is another one.
                self._break.set()
                self._complete.clear()
                break
            last, last_ms = sequence, timestamp_ms
            fed.append(StreamMessage(sequence, timestamp_ms, message.payload))
        self._last, self._last_ms, self._consumer_sequence = last, last_ms, consumed
        if fed:
            self._hand_over(fed)
        if not self._complete.is_set():
            self._on_loss()

    def _hand_over(self, fed: Sequence[StreamMessage]) -> None:
        """Have messages taken; nobody knows which of them were when that fails: none is skipped."""
        try:
            self._take(fed)
        except Exception as error:
            what = describe_unexpected(error)
            _log.error("%s could not be applied and is read anew: %s", self._stream, what)
            self._break.set()
            self._complete.clear()

    def _control(self, message: Message, consumed: int, last: int) -> None:
        """Answer flow control; see by a heartbeat whether anything is missing."""
        if message.reply:
            self._client.publish(message.reply, b"")
            return
        told = _header_values(message.headers)
        if stalled := told.get(b"Nats-Consumer-Stalled"):
            self._client.publish(stalled, b"")
        if int(told.get(b"Nats-Last-Consumer", consumed)) != consumed:
            self._break.set()
        elif int(told.get(b"Nats-Last-Stream", last)) > last:
            # The begin of the log was purged, and nothing came since that would tell.
            self._break.set()
            self._complete.clear()


def _header_values(headers: bytes) -> dict[bytes, bytes]:
    """Return what a message's headers say, by their names as the servers write them."""
    lines = (line.partition(b":") for line in headers.split(b"\r\n"))
    return {name: value.strip() for name, _, value in lines}
