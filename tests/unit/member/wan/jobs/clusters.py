"""Two clusters in memory: a state each, the target behind its receiver, and no socket."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from grid_member.engine.local.wan_jobs import JobShard
from grid_member.engine.local.wan_map import ComparedMap
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import Record, WanAgree, WanMerge
from grid_member.engine.wan.agreement import MergePolicy, PublisherName
from grid_member.engine.wan.stamps import EPOCH_MS, first_stamp
from grid_member.wan.endpoints import Endpoints
from grid_member.wan.figures import PublisherFigures, WanFigures
from grid_member.wan.hello import Began, Hello, read_hello, write_welcome
from grid_member.wan.jobs.lane import Lane, LaneSettings
from grid_member.wan.jobs.records import Counts, Job, JobKind, Share, ended_job
from grid_member.wan.jobs.runner import LaneJobs
from grid_member.wan.jobs.store import JobStore
from grid_member.wan.link import CHANGES_PATH, DIGESTS_PATH, HELLO_PATH, KEYS_PATH, Link, LinkParts
from grid_member.wan.pacing import Pacer
from grid_member.wan.ports import BusyError, OverloadedError, TooLargeError, UnreachableError
from grid_member.wan.protocol import seal_compressed, with_checksum
from grid_member.wan.receiver import ClusterFacts, Receiver, ReceiverSettings
from tests.unit.engine.wan.agreements import LONDON, MAP, MEMBERS, agreement, publisher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from grid_member.engine.api import Done
    from grid_member.engine.state.operations import Operation, Outcome
    from grid_member.engine.wan.changes import Change, MergeResult
    from grid_member.wan.endpoints import Address

BEGIN_MS: Final = EPOCH_MS + 1_000_000
UUID_OF_JOB: Final = "00000000-0000-0000-0000-0000000000aa"
JOB: Final = UUID(UUID_OF_JOB).bytes
IN_FLIGHT_MS: Final = 100
FAR: Final = first_stamp(BEGIN_MS + 50_000)
"""A stamp later than all that clients make, and not too far ahead."""


class Cluster:
    """A state that applies at once what is proposed."""

    def __init__(self, cluster_id: bytes, **agreed: Any) -> None:
        self.cluster_id = cluster_id
        self.state = State()
        self.now_ms = BEGIN_MS
        self.refuses = False
        self.held = False
        self.merged = 0
        self.ready = True
        self.apply(WanAgree(agreement(cluster_id=cluster_id, **agreed)))

    @property
    def agreement(self) -> Any:
        return self.state.wan.agreement

    def apply(self, operation: Operation) -> Outcome:
        self.now_ms += 2
        sequence = self.state.sequence + 1
        record = Record(MEMBERS[0], 1, sequence, (operation,))
        outcomes = self.state.apply(sequence, self.now_ms, record)
        assert outcomes is not None
        return outcomes[0]

    def propose(self, operation: Operation, done: Callable[[Any], None], size: int) -> None:
        done(self.apply(operation))

    def merge(self, change: Change, policy: MergePolicy, done: Done[MergeResult]) -> None:
        self.merged += 1
        outcome: Any = self.apply(WanMerge(change, policy, None))
        done(outcome)

    def compared(self, name: str) -> ComparedMap:
        shard: Any = self
        return ComparedMap(shard, name, lambda: self.now_ms)

    def jobs(self) -> JobShard:
        shard: Any = self
        return JobShard(shard, lambda: self.now_ms, lambda _: self.held)

    @property
    def values(self) -> dict[str, Any]:
        found = self.state.maps.by_name.get(MAP)
        return {} if found is None else dict(found.entries)

    @property
    def unsynced(self) -> set[str]:
        return self.state.wan.unsynced(LONDON)


class FakeStore:
    """A system store in memory."""

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}
        self.puts: list[str] = []

    def system_get(self, key: str) -> bytes | None:
        return self.items.get(key)

    def system_items(self, prefix: str) -> list[tuple[str, bytes]]:
        return sorted(item for item in self.items.items() if item[0].startswith(prefix))

    def system_put(
        self, key: str, value: bytes | None, done: Done[None], *, time_to_live_s: int = 0
    ) -> None:
        self.puts.append(key)
        if value is None:
            self.items.pop(key, None)
        else:
            self.items[key] = value
        done(None)


class LateStore(FakeStore):
    """Applies what is proposed in one turn of the loop together, some turns later, as a log does.

    What is proposed later may be applied before.
    """

    def __init__(self, turns: Callable[[], int]) -> None:
        super().__init__()
        self._turns = turns
        self._record: list[Callable[[], None]] = []

    def system_put(
        self, key: str, value: bytes | None, done: Done[None], *, time_to_live_s: int = 0
    ) -> None:
        if not self._record:
            asyncio.get_running_loop().call_soon(self._close)
        self._record.append(partial(super().system_put, key, value, done))

    def _close(self) -> None:
        record, self._record = self._record, []
        self._apply(record, self._turns())

    def _apply(self, record: list[Callable[[], None]], turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._apply, record, turns - 1)
        else:
            for put in record:
                put()


@dataclass
class Line:
    """Carries messages to the receiver of a cluster, and fails when it is told to."""

    receiver: Receiver
    fails: Callable[[str], bool] = lambda _: False
    """Tells whether a request to a path gets lost."""
    on_request: Callable[[str], None] = lambda _: None
    body_limit: int = 16 << 20
    """Of a proxy before the receiver."""
    requests: list[tuple[str, int]] = field(default_factory=list)
    """Path and bytes of request and answer."""

    async def post(self, address: Address, path: str, body: bytes, content_type: str) -> bytes:
        await asyncio.sleep(0)
        self.on_request(path)
        if self.fails(path):
            raise UnreachableError("cut")
        if len(body) > self.body_limit:
            raise TooLargeError("413")
        receiver = self.receiver
        try:
            if path == HELLO_PATH:
                answer = write_welcome(receiver.greet(read_hello(body)))
            elif path == CHANGES_PATH:
                answer = await receiver.take(body)
            elif path == DIGESTS_PATH:
                answer = await receiver.digests(body)
            else:
                assert path == KEYS_PATH
                answer = await receiver.keys(body)
        except BusyError as problem:
            raise OverloadedError(str(problem), 1.0) from None
        self.requests.append((path, len(body) + len(answer)))
        return answer if path == HELLO_PATH else with_checksum(answer, body)

    def bytes_to(self, *paths: str) -> int:
        return sum(size for path, size in self.requests if path in paths)


def receiver_of(cluster: Cluster, published_back: Sequence[str] = ()) -> Receiver:
    engine: Any = cluster
    facts = ClusterFacts(lambda name: name == MAP, lambda: None, lambda _: tuple(published_back))
    settings = ReceiverSettings("london", "member", "0.2.0", 64, 1000, None)
    loop = asyncio.get_running_loop()
    return Receiver(engine, settings, facts, WanFigures(), Pacer(loop.time))


@dataclass
class Pair:
    """A source, a target and what is between them."""

    source: Cluster
    target: Cluster
    line: Line
    lane: Lane
    store: JobStore
    kept: FakeStore

    def note(self, kind: JobKind, *, full: bool = False, **more: Any) -> Job:
        fields = {"maps": (), **more}
        job = Job(UUID_OF_JOB, kind, LONDON, began_ms=BEGIN_MS, lanes=1, full=full, **fields)
        for put in self.store.begin_puts(job):
            put.send(self.store.system)
        return job

    def share(self) -> Share | None:
        job = self.store.find(UUID_OF_JOB)
        return None if job is None else self.store.share(job, 0)

    async def run(self, kind: JobKind, *, full: bool = False, **more: Any) -> Job:
        """Carry a job out and return it with its end."""
        job = self.note(kind, full=full, **more)
        await self.until_ended()
        found = ended_job(job, self.store.shares(job), "", BEGIN_MS + 1)
        for put in self.store.end_puts(found):
            put.send(self.store.system)
        return found

    async def until_ended(self) -> None:
        """Run the shard's share of the job that was noted."""
        running = asyncio.create_task(LaneJobs(self.lane, self.store).run())
        try:
            while (share := self.share()) is None or not share.ended:
                assert not running.done(), running.result()
                await asyncio.sleep(0.1)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def counts(self, kind: JobKind, *, full: bool = False) -> Counts:
        """Carry a job out and return what it found."""
        job = await self.run(kind, full=full)
        assert job.error == "", job.error
        (result,) = job.results
        return result.counts


SOURCE_ID, TARGET_ID = b"s" * 16, b"t" * 16


@asynccontextmanager
async def pair(
    *,
    removes_extra: bool = False,
    published_back: Sequence[str] = (),
    batch_size: int = 500,
    capacity: int = 100_000,
    **agreed: Any,
) -> AsyncIterator[Pair]:
    """Make two clusters. The source's queue is never sent, since nothing sends it here."""
    loop = asyncio.get_running_loop()
    source = Cluster(SOURCE_ID, publishers=(publisher(capacity=capacity),), **agreed)
    target = Cluster(TARGET_ID, publishers=())
    # At odd times: clients of both clusters never make a change of one stamp.
    target.now_ms += 1
    line = Line(receiver_of(target, published_back))

    def hello() -> Hello:
        names = "london", LONDON.replication, LONDON.publisher
        return Hello((1,), "tokyo", SOURCE_ID, *names, "uuid", "0.2.0", Began.WENT_ON)

    async def resolve(host: str, port: int) -> list[str]:
        return ["10.0.0.1"]

    async def seal(body: bytes) -> bytes:
        return seal_compressed(body)

    endpoints = Endpoints((("london", 5705),), loop.time, 10.0, 100, resolve)
    link = Link(LinkParts(line, endpoints, hello, PublisherFigures(), loop.time))
    settings = LaneSettings(LONDON, SOURCE_ID, 0, 1, batch_size, 2, IN_FLIGHT_MS, removes_extra)
    shard, kept = source.jobs(), FakeStore()
    lane = Lane(settings, shard, link, Pacer(loop.time), loop.time, asyncio.sleep, seal)
    try:
        yield Pair(source, target, line, lane, JobStore(kept), kept)
    finally:
        link.close()
        await line.receiver.answering.close()


__all__ = ["FAR", "JOB", "MAP", "Cluster", "Pair", "PublisherName", "pair"]
