"""The committed messages of one stream: in order, each once, from the member's own server.

An ordered consumer is made, watched and made anew from the last message on whenever anything about
it is in doubt: a gap, silence, a new connection. A consumer with one replica is led by any server
that holds the stream; where the member's own is one of them it is made again until that one leads
it, so that a record travels once between machines, and the end of another server takes no consumer
along: a new one is had from the leader of all servers only, who may have to be elected first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from grid_member.engine.nats.errors import NatsError, unexpected
from grid_member.engine.nats.peers import peer_id
from grid_member.engine.nats.streams import answered, copies_of
from grid_member.engine.nats.wire import status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.nats.client import NatsClient, Subscription
    from grid_member.engine.nats.wire import Message

HEARTBEAT_S: Final = 1.0
"""How often the server tells that the consumer lives while nothing happens."""
SILENCE_S: Final = 3.5
"""After so long without a word the consumer is made anew."""
REQUEST_TIMEOUT_S: Final = 2.0
RETRY_S: Final = 0.2
LOCAL_TRIES: Final = 12
"""Consumers made in the hope of one that the own server leads."""
HOME_S: Final = 10.0
"""How often it is looked whether the servers moved the consumer away from the own one."""
AWAY_S: Final = 1.0
"""How long after it is away it is looked whether the own server has a copy; twice as long when it
has one and was not let lead any of as many consumers as were made."""
MAX_AWAY_S: Final = 60.0
SHORT_LOOKS: Final = 10
"""Looks at a stream that ends before what was taken of it; a new leader may not be there yet."""
INACTIVE_S: Final = 30
"""The server forgets a consumer that nobody listens to."""
_ACK_TOKENS: Final = (9, 12)
"""Of a reply subject, without and with domain, account and a random end."""
_log: Final = logging.getLogger("grid.engine.nats")


class Fed(NamedTuple):
    """A message of the stream."""

    sequence: int
    timestamp_ms: int
    payload: bytes


Take: TypeAlias = "Callable[[Sequence[Fed]], None]"


class FeedGapError(Exception):
    """Messages that were not seen are not in the stream any more."""


def consumer_config(name: str, deliver: str, after: int) -> dict[str, Any]:
    """Return the configuration of a consumer of everything behind sequence `after`."""
    return {
        "name": name,
        "deliver_subject": deliver,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": after + 1,
        "ack_policy": "none",
        "replay_policy": "instant",
        "flow_control": True,
        "idle_heartbeat": int(HEARTBEAT_S * 1e9),
        "inactive_threshold": INACTIVE_S * 10**9,
        "num_replicas": 1,
        "mem_storage": True,
    }


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


class StreamFeed:
    """One stream's messages for one member."""

    def __init__(
        self,
        client: NatsClient,
        stream: str,
        member: str,
        own_server: Callable[[], str | None],
        take: Take,
        lost: Callable[[], None],
    ) -> None:
        """Make a feed that has not begun.

        Args:
            client: connected to the member's own server.
            stream: the stream's name.
            member: unique to this life of this member; part of subjects.
            own_server: the name of the member's own server, None when its place is of no matter.
            take: gets messages that come in one read.
            lost: hears that messages which were not seen are gone from the stream, or that take
                raised; nothing more comes until `resume`.
        """
        self._client = client
        self._stream = stream
        self._member = member
        self._own_server = own_server
        self._take = take
        self._lost = lost
        self._last = 0
        self._last_ms: int | None = None
        """The time of the last message, as far as it is known."""
        self._short = 0
        self._attempts = 0
        """Consumers that were asked for since one was had."""
        self._consumed = 0
        self._number = 0
        self._name = ""
        """What the servers call the consumer."""
        self._heard_s = 0.0
        self._away = False
        """Whether another server leads the consumer than the one that is wanted."""
        self._away_s = AWAY_S
        self._look_s = 0.0
        """When it is looked next at who leads the consumer, and who could."""
        self._subscription: Subscription | None = None
        self._broken = asyncio.Event()
        self._complete = asyncio.Event()
        """Cleared when messages are lost, until it is told where to go on."""
        self._complete.set()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    @property
    def last(self) -> int:
        """The sequence of the last message that was taken."""
        return self._last

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

    def renew(self) -> None:
        """Make the consumer anew: the connection is another one."""
        self._broken.set()

    async def close(self) -> None:
        """Take nothing any more."""
        self._ended = True
        self._leave()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self._ended:
            await self._complete.wait()
            self._broken.clear()
            made = await self._made()
            if made:
                await self._doubtful()
            self._leave()
            if not made:
                await asyncio.sleep(RETRY_S)

    async def _made(self) -> bool:
        """Make a consumer; False when there is none to go on with."""
        try:
            await self._create()
            await self._compare()
        except (NatsError, ValueError) as error:
            _log.debug("no consumer of %s: %s", self._stream, error)
            return False
        return True

    async def _doubtful(self) -> None:
        """Return when anything about the consumer is in doubt, or a better one can be had."""
        loop = asyncio.get_running_loop()
        while not self._broken.is_set():
            now_s = loop.time()
            ends_s = self._heard_s + SILENCE_S
            if now_s >= ends_s:
                return
            if now_s >= self._look_s:
                if await self._can_come_home():
                    return
                self._look_s = loop.time() + (self._away_s if self._away else HOME_S)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._broken.wait(), min(ends_s, self._look_s) - now_s)

    async def _can_come_home(self) -> bool:
        """Tell whether another server leads the consumer, while the own one has a whole copy."""
        own = self._own_server()
        try:
            if own is None or not await self._is_away(own):
                return False
            copies = await copies_of(self._client, self._stream)
        except NatsError:
            return False
        return not copies.moving and peer_id(own) in copies.current

    async def _is_away(self, own: str) -> bool:
        if not self._away:
            call = f"CONSUMER.INFO.{self._stream}.{self._name}"
            cluster = (await answered(self._client, call)).get("cluster") or {}
            self._away = cluster.get("leader", own) != own
        return self._away

    async def _create(self) -> None:
        """Make a consumer, if it can be had one that the own server leads."""
        first = True
        while True:
            # Of one that was not answered, too: where no server places any, others may be had.
            self._attempts += 1
            name, leader = await self._create_one()
            own = self._own_server()
            away = leader is not None and own is not None and leader != own
            kept = not away or self._attempts >= LOCAL_TRIES
            if kept or (first and not await self._is_held_by(str(own))):
                self._set_away(away)
                self._attempts = 0
                return
            first = False
            self._client.publish(f"$JS.API.CONSUMER.DELETE.{self._stream}.{name}".encode(), b"")

    def _set_away(self, away: bool) -> None:
        """Note whether another server than the own one leads the consumer."""
        in_vain = away and self._attempts >= LOCAL_TRIES
        self._away_s = min(2 * self._away_s, MAX_AWAY_S) if in_vain else AWAY_S
        self._away = away
        self._look_s = asyncio.get_running_loop().time() + (self._away_s if away else HOME_S)

    async def _create_one(self) -> tuple[str, str | None]:
        """Make a consumer in place of the one before; return its name and who leads it."""
        self._leave()
        self._number += 1
        self._consumed = 0
        self._name = name = f"{self._member}-{self._number}"
        number = self._number
        deliver = f"_FEED.{self._member}.{self._stream}.{number}"

        def take(messages: Sequence[Message], number: int = number) -> None:
            if number == self._number:
                self._messages(messages)

        self._subscription = self._client.subscribe(deliver.encode(), take)
        self._heard_s = asyncio.get_running_loop().time()
        request = {
            "stream_name": self._stream,
            "action": "create",
            # From the last message on, which tells whether it is the stream that it was.
            "config": consumer_config(name, deliver, self._last - (self._last_ms is not None)),
        }
        answer = await self._client.request(
            f"$JS.API.CONSUMER.CREATE.{self._stream}.{name}".encode(),
            json.dumps(request).encode(),
            timeout_s=REQUEST_TIMEOUT_S,
        )
        made = json.loads(answer.payload)
        if "error" in made:
            raise ValueError(made["error"].get("description", "refused"))
        return name, made.get("cluster", {}).get("leader")

    async def _is_held_by(self, server: str) -> bool:
        """Tell whether a server has a copy of the stream, as far as anybody tells."""
        answer = await self._client.request(
            f"$JS.API.STREAM.INFO.{self._stream}".encode(), b"", timeout_s=REQUEST_TIMEOUT_S
        )
        cluster = json.loads(answer.payload).get("cluster") or {}
        leader, replicas = cluster.get("leader"), cluster.get("replicas") or []
        unknown = leader is None or leader == server
        return unknown or peer_id(server) in [one.get("peer") for one in replicas]

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
        answer = await self._client.request(
            f"$JS.API.STREAM.INFO.{self._stream}".encode(), b"", timeout_s=REQUEST_TIMEOUT_S
        )
        state = json.loads(answer.payload).get("state", {})
        if state.get("last_seq", 0) >= self._last:
            self._short = 0
            return
        if state:
            self._short += 1  # without a leader nobody knows where it ends
        if self._short >= SHORT_LOOKS:
            _log.error("the stream %s lost its end, or all of it: it is read anew", self._stream)
            self._short = 0
            self._complete.clear()
            self._lost()
        raise ValueError("the stream ends before what was taken of it")

    def _leave(self) -> None:
        self._number += 1  # what still comes is of no consumer any more
        if self._subscription is not None:
            self._subscription.unsubscribe()
            self._subscription = None

    def _messages(self, messages: Sequence[Message]) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        if not self._complete.is_set():
            return
        fed: list[Fed] = []
        last, last_ms, consumed = self._last, self._last_ms, self._consumed
        for message in messages:
            if message.headers and status(message.headers) is not None:
                self._control(message, consumed, last)
                if self._complete.is_set():
                    continue
                break
            sequence, number, timestamp_ms = place(message.reply)
            if number != consumed + 1:
                self._broken.set()  # something was dropped on the way
                break
            consumed = number
            if sequence < last or (sequence == last and last_ms in {None, timestamp_ms}):
                continue
            if sequence != last + 1:
                # Nothing is ever deleted in the middle: the begin of the log was purged, or all
                # servers lost it and this is another one.
                self._broken.set()
                self._complete.clear()
                break
            last, last_ms = sequence, timestamp_ms
            fed.append(Fed(sequence, timestamp_ms, message.payload))
        self._last, self._last_ms, self._consumed = last, last_ms, consumed
        if fed:
            self._hand_over(fed)
        if not self._complete.is_set():
            self._lost()

    def _hand_over(self, fed: Sequence[Fed]) -> None:
        """Have messages taken; nobody knows which of them were when that fails: none is skipped."""
        try:
            self._take(fed)
        except Exception as error:
            what = unexpected(error)
            _log.error("%s could not be applied and is read anew: %s", self._stream, what)
            self._broken.set()
            self._complete.clear()

    def _control(self, message: Message, consumed: int, last: int) -> None:
        """Answer flow control; see by a heartbeat whether anything is missing."""
        if message.reply:
            self._client.publish(message.reply, b"")
            return
        told = _told(message.headers)
        if stalled := told.get(b"Nats-Consumer-Stalled"):
            self._client.publish(stalled, b"")
        if int(told.get(b"Nats-Last-Consumer", consumed)) != consumed:
            self._broken.set()
        elif int(told.get(b"Nats-Last-Stream", last)) > last:
            # The begin of the log was purged, and nothing came since that would tell.
            self._broken.set()
            self._complete.clear()


def _told(headers: bytes) -> dict[bytes, bytes]:
    """Return what a message's headers say, by their names as the servers write them."""
    lines = (line.partition(b":") for line in headers.split(b"\r\n"))
    return {name: value.strip() for name, _, value in lines}
