"""A cluster of one member without sockets: engine, log, queues, senders and receiver."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from grid_member.config.model.wan import WanPublisherConfig
from grid_member.engine.api import MapSettings
from grid_member.engine.local.engine import LocalEngine
from grid_member.engine.local.wan import WanSide
from grid_member.engine.log.log import MemoryLog, committed_at
from grid_member.engine.shard.shards import ArrivalCallback, Shards
from grid_member.engine.state.operations import WanAgree, WanMemberState
from grid_member.engine.wan.agreement import (
    AgreedPublisher,
    Agreement,
    MapReference,
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.wan import replication
from grid_member.wan.figures import WanFigures
from grid_member.wan.hello import Began, Hello
from grid_member.wan.pacing import Pacer
from grid_member.wan.receiver import ClusterFacts, Receiver, ReceiverSettings
from tests.unit.engine.drive import FixedStructures
from tests.unit.member.wan.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.log.log import Clock, Steps
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import Committed, Operation, Record

SHORT_MAP: Final = "short"
SHORT_S: Final = 3
"""Entries of that map live so long."""
MAPS: Final = ("orders", SHORT_MAP)
BEGIN_MS: Final = 1_790_000_000_000
SYNC_S: Final = 0.004
"""Until a record is on the disk that survives."""
MAX_AHEAD_MS: Final = 60_000
NAME: Final = PublisherName("peer-rep", "peer")
_MEMBER: Final = UUID(int=1)


class StoryLoop(VirtualLoop):
    """Does the work of threads at once, so that a seed has the same story each time."""

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as problem:
            future.set_exception(problem)
        return future


class KeptLog(MemoryLog):
    """A log whose records are on a disk a moment after it has got them, and answered then."""

    def __init__(self, clock: Clock, disk: list[Committed]) -> None:
        super().__init__(clock)
        self._disk = disk
        self._writing: asyncio.TimerHandle | None = None
        if disk:
            self._sequence, self._timestamp_ms, _ = disk[-1]

    def replay(self) -> Steps:
        yield from list(self._disk)

    def append(self, record: Record) -> None:
        self._waiting.append(record)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(SYNC_S, self._write)

    def _write(self) -> None:
        self._writing = None
        records, consumer = list(self._waiting), self._consumer
        self._waiting.clear()
        self._timestamp_ms = max(self._timestamp_ms, self._clock())
        batch = committed_at(records, self._sequence + 1, self._timestamp_ms)
        self._sequence += len(records)
        self._disk += batch
        if consumer is not None:
            consumer.take_committed(batch)

    def kill(self) -> None:
        """Lose what is not on the disk."""
        if self._writing is not None:
            self._writing.cancel()
        self._waiting.clear()
        self._consumer = None

    async def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._write()
        await super().close()


class OneShard(Shards):
    """One shard over a log that was made already, opened without a thread."""

    def __init__(self, log: MemoryLog, clock: Clock) -> None:
        super().__init__(None, 1, clock)
        self.member = _MEMBER
        self._log = log

    def open(self, on_arrival: ArrivalCallback) -> None:
        self.only = self._make_shard(self._log, on_arrival)
        self.only.replay()
        self.durable = [self.only]


@dataclass
class Running:
    """What a cluster has while it runs."""

    engine: LocalEngine
    log: MemoryLog
    side: WanSide
    receiver: Receiver
    replication: replication.Replication
    serving: set[asyncio.Task[bytes]] = field(default_factory=set)

    @property
    def shard(self) -> Shard:
        return self.engine.shards[0]


class Known(NamedTuple):
    """The last change of a key that a cluster knows."""

    stamp: int
    value: bytes | None
    """None is a removal."""


class Cluster:
    """One side."""

    def __init__(self, name: str, peer: str, *, durable: bool) -> None:
        self.name = name
        self.peer = peer
        self.durable = durable
        self.cluster_id = name[0].encode() * 16
        self.disk: list[Committed] = []
        self.skew_ms = 0
        self.asks = self.shows = "first"
        """Passwords: what its listener asks for, and what its publisher shows."""
        self.transport: replication.CloseableTransport
        self.figures = WanFigures()
        self.running: Running | None = None
        self.silent_since_s: float | None = None
        """Since when its publisher may send nothing of what it has; None while it may."""

    def now_ms(self) -> int:
        return BEGIN_MS + int(asyncio.get_running_loop().time() * 1000) + self.skew_ms

    async def start(self) -> None:
        log = KeptLog(self.now_ms, self.disk) if self.durable else MemoryLog(self.now_ms)
        settings = {SHORT_MAP: MapSettings(time_to_live_s=SHORT_S)}
        engine = LocalEngine(
            FixedStructures(dict(settings)), OneShard(log, self.now_ms), self.now_ms
        )
        await engine.start()
        side = WanSide(engine)
        self.figures = WanFigures(look=side.look)
        loop = asyncio.get_running_loop()
        facts = ClusterFacts(MAPS.__contains__, lambda: None, lambda _: ())
        limits = ReceiverSettings(self.name, "member", "0.2.0", 1000, 1000, None)
        receiver = Receiver(side, limits, facts, self.figures, Pacer(loop.time))
        parts = replication.ReplicationParts(
            engine=side,
            figures=self.figures,
            configured=lambda _: self._publisher(),
            transport=lambda _: self.transport,
            hello=lambda agreed, agreement: self._hello(),
            clock=loop.time,
            jobs=None,
        )
        self.running = Running(engine, log, side, receiver, replication.Replication(parts))
        if side.agreement is None:
            await propose(self.running.shard, WanAgree(self._agreement()))
        self.running.replication.start()

    async def kill(self) -> None:
        """End as a crash does: what is not on the disk is lost, and nobody gets an answer."""
        running, self.running = self.running, None
        assert running is not None
        assert isinstance(running.log, KeptLog)
        running.log.kill()
        for task in running.serving:
            task.cancel()
        expiry = running.engine._expiry
        assert expiry is not None
        expiry.stop()
        await running.replication.stop()

    async def stop(self) -> None:
        if self.running is not None:
            await self.running.replication.stop()
            await self.running.engine.stop()

    async def set_state(self, state: PublisherState) -> None:
        assert self.running is not None
        self.silent_since_s = None
        await propose(self.running.shard, WanMemberState(NAME, _MEMBER.bytes, state))
        if state is not PublisherState.REPLICATING:
            self.silent_since_s = asyncio.get_running_loop().time()

    def known(self, name: str, key: str) -> Known:
        """Return what the cluster knows of a key."""
        assert self.running is not None
        state = self.running.shard.state
        wan = state.wan.maps.get(name)
        if wan is None:
            return Known(0, None)
        found = state.maps.by_name.get(name)
        stored = None if found is None else found.entries.get(key)
        if stored is None:
            return Known(max(wan.tombstones.get(key, 0), wan.cleared), None)
        return Known(wan.stamp(key), stored if isinstance(stored, bytes) else stored[0])

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits, and nothing will end."""
        assert self.running is not None
        look = self.running.side.look(NAME)
        assert look is not None
        return not look.queued_by_all and not self.running.shard.state.maps.by_name.get(SHORT_MAP)

    def _publisher(self) -> WanPublisherConfig:
        return WanPublisherConfig(
            NAME.publisher,
            self.peer,
            (("127.0.0.1", 1),),
            batch_size=2,
            batch_max_delay_ms=200,
            max_concurrent_invocations=3,
        )

    def _agreement(self) -> Agreement:
        reference = MapReference(NAME.replication, MergePolicy.LATEST_UPDATE, True, (), ())
        when_full = WhenQueueFull.DISCARD_AFTER_MUTATION
        publisher = AgreedPublisher(NAME, self.peer, 1000, when_full, PublisherState.REPLICATING)
        maps = tuple((name, reference) for name in MAPS)
        return Agreement(1, self.cluster_id, maps, (publisher,), 1 << 40, 10_000, MAX_AHEAD_MS)

    def _hello(self) -> Hello:
        names = self.name, self.cluster_id, self.peer, *NAME
        return Hello((1,), *names, str(_MEMBER), "0.2.0", Began.WENT_ON)


async def propose(shard: Shard, operation: Operation) -> object:
    """Return the outcome of an operation; Refused when the cluster dies before it has one."""
    outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    shard.propose(operation, outcome.set_result, 0)
    return await outcome
