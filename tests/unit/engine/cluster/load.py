"""Clients that use all members of a cluster at once and write down what they see.

for each member   a writer of its own key and of one that all write, a reader of all keys,
                  a producer of items, a consumer of all queues
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from tests.unit.engine.cluster.checker import (
    NOTHING,
    Delivery,
    History,
    Offer,
    Read,
    Span,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator

ANSWER_S: Final = 25.0
"""Whatever happens, by then there is an answer: a record is given up after ten seconds."""
PAUSE_S: Final = 0.004
"""Between two operations of a client."""
PATIENCE_S: Final = 40.0
"""How long progress is waited for."""
MOST_TOLD: Final = 20
"""So many of the items that are missing a failure names."""
MAPS: Final = ("a", "s", "m")
"""One on each of the three streams, as are the queues."""
QUEUES: Final = ("c", "r", "q")
KINDS: Final = ("put", "get", "offer", "poll")
T = TypeVar("T")


class Client(Protocol):
    """A way to talk to the members; None says that nobody knows what became of a call."""

    lost_polls: list[Span]
    """Those of which that is so, and which were made once more behind it."""

    async def put(self, member: int, name: str, key: str, value: str) -> bool | None: ...

    async def get(self, member: int, name: str, key: str) -> str | None: ...

    async def offer(self, member: int, name: str, value: str) -> bool | None: ...

    async def poll(self, member: int, name: str, timeout_s: int) -> str | None: ...


class Load:
    """Uses the members until it is told to end; `async with`."""

    def __init__(self, client: Client, members: int) -> None:
        self.history = History(lost_polls=client.lost_polls)
        self.done: Counter[tuple[int, str]] = Counter()
        """Answered operations by member and kind."""
        self.refused: Counter[tuple[int, str]] = Counter()
        self._client = client
        self._members = range(members)
        self._tasks: list[asyncio.Task[None]] = []
        self._producers: list[asyncio.Task[None]] = []
        self._offering = self._using = True
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Load:
        for member in self._members:
            self._producers.append(asyncio.ensure_future(self._produce(member)))
            for work in (self._write, self._read, self._consume):
                self._tasks.append(asyncio.ensure_future(work(member)))
        self._tasks += self._producers
        return self

    async def __aexit__(self, *_: object) -> None:
        self._offering = self._using = False
        await asyncio.wait(self._tasks, timeout=2 * ANSWER_S)
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def progress(self, *members: int, count: int = 20) -> None:
        """Wait until each of the members has answered some more of everything."""
        wanted = {
            (member, kind): self.done[member, kind] + count
            for member in members or self._members
            for kind in KINDS
        }
        async with self._in_time():
            while any(self.done[what] < least for what, least in wanted.items()):
                self._check()
                await asyncio.sleep(0.01)

    async def refusal(self, member: int) -> None:
        """Wait until the member says that it cannot answer."""
        before = self.refused[member, "get"]
        async with self._in_time():
            while self.refused[member, "get"] == before:
                self._check()
                await asyncio.sleep(0.01)

    async def drained(self) -> History:
        """End the offers, let everything be taken, and return what was seen."""
        self._offering = False
        async with self._in_time():
            # What is offered still, when this begins, is to be taken as well.
            while not all(task.done() for task in self._producers) or self._missing():
                self._check()
                await asyncio.sleep(0.05)
        await self.__aexit__()
        return self.history

    def crashed(self, member: int, begun_s: float) -> None:
        """Note that a member was gone from then until now."""
        self.history.crashes.append(Span(member, begun_s, time.monotonic()))

    def _missing(self) -> list[Offer]:
        """Return what was offered and not delivered yet."""
        got = {(one.producer, one.number) for one in self.history.deliveries}
        return [
            one
            for one in self.history.offers
            if one.ended_s < math.inf and (one.producer, one.number) not in got
        ]

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Give the block PATIENCE_S; it fails with what clients saw until then."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        except TimeoutError as error:
            raise AssertionError(told(self._seen())) from error

    def _seen(self) -> Iterator[str]:
        """Tell which items are missing, when each producer's were taken last, and who answered."""
        now_s, missing = time.monotonic(), self._missing()
        offering = sum(not task.done() for task in self._producers)
        yield f"{offering} producers go on; {len(missing)} items are missing:"
        for offer in missing[:MOST_TOLD]:
            yield f"{offer.producer}:{offer.number} answered {now_s - offer.ended_s:.1f} s ago"
        last = {delivery.producer: delivery.ended_s for delivery in self.history.deliveries}
        for producer, ended_s in last.items():
            yield f"{producer} was taken from {now_s - ended_s:.1f} s ago"
        yield f"answered: {dict(self.done)}"
        yield f"refused: {dict(self.refused)}"

    def _check(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _answer(self, member: int, kind: str, call: Awaitable[T | None]) -> T | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await call
        except TimeoutError:
            self.history.unanswered.append(f"{kind} of member {member}")
            return None
        finally:
            await asyncio.sleep(PAUSE_S)
        if answer is None:
            self.refused[member, kind] += 1
        else:
            self.done[member, kind] += 1
        return answer

    async def _write(self, member: int) -> None:
        for number in itertools.cycle(range(2 * len(MAPS))):
            if not self._using:
                return
            name = MAPS[number // 2]
            key = ("shared", f"of-{member}")[number % 2]
            value = f"{member}-{next(self._numbers)}"
            begun_s = time.monotonic()
            done = await self._answer(member, "put", self._client.put(member, name, key, value))
            ended_s = time.monotonic() if done else math.inf
            self.history.writes.append(Write(f"{name}/{key}", value, begun_s, ended_s))

    async def _read(self, member: int) -> None:
        dice = random.Random(member)
        keys = ["shared", *(f"of-{other}" for other in self._members)]
        while self._using:
            name, key = dice.choice(MAPS), dice.choice(keys)
            begun_s = time.monotonic()
            value = await self._answer(member, "get", self._client.get(member, name, key))
            if value is not None:
                read = Read(f"{name}/{key}", value, begun_s, time.monotonic(), member)
                self.history.reads.append(read)

    async def _produce(self, member: int) -> None:
        for number, name in zip(itertools.count(1), itertools.cycle(QUEUES)):
            if not self._offering:
                return
            producer = f"{name}-{member}"
            begun_s = time.monotonic()
            offer = self._client.offer(member, name, f"{producer}:{number}")
            done = await self._answer(member, "offer", offer)
            ended_s = time.monotonic() if done else math.inf
            self.history.offers.append(Offer(producer, number, begun_s, ended_s))

    async def _consume(self, member: int) -> None:
        for name, long in zip(itertools.cycle(QUEUES), itertools.cycle((False, True))):
            if not self._using:
                return
            # At the end no empty queue is waited for: another one may hold a lot.
            timeout_s = 1 if long and self._offering else 0
            begun_s = time.monotonic()
            poll = self._client.poll(member, name, timeout_s)
            item = await self._answer(member, "poll", poll)
            ended_s = time.monotonic()
            if item is None:
                self.history.lost_polls.append(Span(member, begun_s, ended_s))
            elif item != NOTHING:
                producer, _, number = item.partition(":")
                delivery = Delivery(producer, int(number), begun_s, ended_s, member)
                self.history.deliveries.append(delivery)


def told(faults: Iterable[str]) -> str:
    """Return faults as the message of an assertion."""
    return "\n".join(faults)
