"""A source and a target in memory for the sender."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_member.engine.wan.agreement import MergePolicy
from grid_member.engine.wan.changes import Change, QueuedChange
from grid_member.wan.endpoints import Endpoints
from grid_member.wan.figures import PublisherFigures
from grid_member.wan.hello import Began, Hello, TargetLimits, Welcome, read_hello, write_welcome
from grid_member.wan.link import CHANGES_PATH, HELLO_PATH, Link, LinkParts
from grid_member.wan.places import QueueName
from grid_member.wan.ports import TooLargeError, UnreachableError
from grid_member.wan.protocol import Batch, read_batch, seal_compressed, with_checksum
from grid_member.wan.sender import Sender, SenderSettings
from tests.unit.member.wan.batches import NAME, SOURCE, TARGET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from grid_member.wan.endpoints import Address
    from grid_member.wan.ports import TargetError

MEMBER: Final = b"m" * 16
LIMITS: Final = TargetLimits(8192, 8 << 20, 16 << 20)
ENDPOINTS: Final = (("london", 5705),)


class FakeQueues:
    """Queues as the state machine has them: of a key only the newest change."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, dict[tuple[str, str], QueuedChange]] = {}
        self.paused: set[bytes] = set()
        self.policies: dict[str, MergePolicy] = {}
        self.place = self.log = 0
        self.acknowledged: list[Mapping[QueueName, int]] = []
        self.refuses_acknowledgements = False
        self.on_removal: Callable[[Change], None] = lambda _: None
        self._wakes: list[Callable[[], None]] = []

    def add(self, change: Change, member: bytes = MEMBER) -> None:
        self.place += 1
        key = change.key, change.kind.name if change.kind == 3 else ""
        for queue, held in self.queues.items():
            if queue.map_name == change.name:
                held.pop(key, None)
        queue = QueueName(change.name, member)
        self.queues.setdefault(queue, {})[key] = QueuedChange(self.place, change)
        for wake in self._wakes:
            wake()

    def begin_again(self, *changes: Change, member: bytes = MEMBER) -> None:
        """Begin another log, whose places begin again, with these changes in it."""
        self.log += 1
        self.place = 0
        self.queues.clear()
        for change in changes:
            self.add(change, member)

    def epoch(self) -> int:
        return self.log

    def queued_maps(self) -> set[str]:
        return {queue.map_name for queue, held in self.queues.items() if held}

    def waiting(self) -> dict[QueueName, int]:
        return {
            queue: len(held)
            for queue, held in self.queues.items()
            if held and queue.member not in self.paused
        }

    def read(
        self, queue: QueueName, after_place: int, limit: int, max_bytes: int
    ) -> list[QueuedChange]:
        found: list[QueuedChange] = []
        size = 0
        for queued in self.queues[queue].values():
            if queued.place <= after_place:
                continue
            size += len(queued.change.value)
            if found and (len(found) == limit or size > max_bytes):
                break
            found.append(queued)
        return found

    def unread(self, queue: QueueName, after_place: int, most: int) -> int:
        found = [one for one in self.queues[queue].values() if one.place > after_place]
        return min(most, len(found))

    def policy(self, map_name: str) -> MergePolicy:
        return self.policies.get(map_name, MergePolicy.LATEST_UPDATE)

    async def acknowledge(self, places: Mapping[QueueName, int]) -> bool:
        await asyncio.sleep(0.001)
        if self.refuses_acknowledgements:
            return False
        self.acknowledged.append(dict(places))
        for queue, place in places.items():
            held = self.queues.get(queue, {})
            for key in [key for key, queued in held.items() if queued.place <= place]:
                self.on_removal(held.pop(key).change)
        return True

    def listen(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    @property
    def empty(self) -> bool:
        return not any(self.queues.values())


@dataclass
class FakeTarget:
    """A target that merges by stamp, behind a line with faults."""

    delay_s: float = 0.01
    limits: TargetLimits = LIMITS
    cluster_id: bytes = TARGET
    hellos: list[Hello] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    stamps: dict[tuple[str, str], int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    """By map, the byte that is answered."""
    faults: list[TargetError] = field(default_factory=list)
    """What becomes of the next requests; of those that follow nothing."""
    loses_answers: bool = False
    """Faults strike after the batch was taken."""
    spoils: Callable[[bytes], bytes] = lambda answer: answer
    """What the line makes of an answer."""
    at_once: int = 0
    most_at_once: int = 0
    chance: Callable[[], float] = lambda: 0.0
    """More delay."""
    timeout_s: float = 60.0
    """After which a batch without an answer fails."""
    hangs: Callable[[Batch], bool] = lambda _: False
    """Tells which batches are taken in and never answered."""
    body_limit: int = 16 << 20
    """Of a proxy before the target."""
    too_large: list[int] = field(default_factory=list)
    """How many changes the batches had that the proxy refused."""

    async def post(self, address: Address, path: str, body: bytes, content_type: str) -> bytes:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._post(path, body)
        finally:
            self.at_once -= 1

    async def _post(self, path: str, body: bytes) -> bytes:
        fault = self.faults.pop(0) if self.faults else None
        await asyncio.sleep(self.delay_s + self.chance())
        if fault is not None and not self.loses_answers:
            raise fault
        if path == HELLO_PATH:
            answer = self._greet(body)
        else:
            assert path == CHANGES_PATH
            await self._pass_proxy(body)
            answer = with_checksum(self._merge(read_batch(body, 16 << 20)), body)
        if fault is not None:
            raise fault
        return self.spoils(answer)

    async def _pass_proxy(self, body: bytes) -> None:
        batch = read_batch(body, 16 << 20)
        if len(body) > self.body_limit:
            self.too_large.append(len(batch.changes))
            raise TooLargeError("413")
        if self.hangs(batch):
            await asyncio.sleep(self.timeout_s)
            raise UnreachableError("no answer in time")

    def _greet(self, body: bytes) -> bytes:
        self.hellos.append(read_hello(body))
        limits = self.limits
        return write_welcome(Welcome(1, "london", self.cluster_id, "uuid", "0.2.0", limits))

    def _merge(self, batch: Batch) -> bytes:
        assert batch.header.target == self.cluster_id
        self.batches.append(batch)
        for change in batch.changes:
            if change.name not in self.refused:
                key = change.name, change.key
                self.stamps[key] = max(self.stamps.get(key, 0), change.stamp)
        return bytes(self.refused.get(name, 0) for name, _ in batch.maps)

    @property
    def keys(self) -> Counter[str]:
        return Counter(change.key for batch in self.batches for change in batch.changes)


@dataclass
class Source:
    """A sender with its parts."""

    queues: FakeQueues
    target: FakeTarget
    figures: PublisherFigures

    def add(self, changes: Iterable[Change], member: bytes = MEMBER) -> None:
        for change in changes:
            self.queues.add(change, member)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let (virtual) time pass until the condition holds."""
        deadline_s = asyncio.get_running_loop().time() + 200
        while not condition():
            await asyncio.sleep(0.01)
            assert asyncio.get_running_loop().time() < deadline_s, "it never came true"

    async def until_empty(self) -> None:
        await self.until(lambda: self.queues.empty)


async def _compress(body: bytes) -> bytes:
    return seal_compressed(body)


async def _resolve(host: str, port: int) -> list[str]:
    return ["10.0.0.1", "10.0.0.2"]


def hello() -> Hello:
    names = "london", NAME.replication, NAME.publisher
    return Hello((1,), "tokyo", SOURCE, *names, "uuid", "0.2.0", Began.WENT_ON)


def sender_on(
    queues: FakeQueues,
    target: FakeTarget,
    figures: PublisherFigures,
    sending: tuple[int, float, int] = (500, 1.0, -1),
    resolve: Callable[[str, int], Awaitable[list[str]]] = _resolve,
) -> tuple[Sender, Link]:
    """Return a sender of batches of a size, a longest delay and a concurrency, with its link."""
    clock = asyncio.get_running_loop().time
    endpoints = Endpoints(ENDPOINTS, clock, 10.0, 100, resolve)
    link = Link(LinkParts(target, endpoints, hello, figures, clock))
    settings = SenderSettings(NAME, SOURCE, *sending, compresses=True)
    return Sender(settings, queues, link, figures, clock, _compress), link


@asynccontextmanager
async def source(
    target: FakeTarget | None = None,
    *,
    batch_size: int = 500,
    max_delay_s: float = 1.0,
    concurrency: int = -1,
    resolve: Callable[[str, int], Awaitable[list[str]]] = _resolve,
) -> AsyncIterator[Source]:
    """Run a sender on fakes."""
    queues, target, figures = FakeQueues(), target or FakeTarget(), PublisherFigures()
    sending = batch_size, max_delay_s, concurrency
    sender, link = sender_on(queues, target, figures, sending, resolve)
    running = asyncio.create_task(sender.run())
    try:
        yield Source(queues, target, figures)
        assert not running.done(), "the sender ended by itself"
    finally:
        running.cancel()
        link.close()
        await asyncio.gather(running, return_exceptions=True)
