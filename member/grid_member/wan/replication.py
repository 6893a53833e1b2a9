"""All senders of a member: of each publisher that the members agreed on, one in each shard."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.io.ending import end_tasks
from grid_member.telemetry.logs import event, failure
from grid_member.wan.endpoints import Endpoints
from grid_member.wan.jobs.lane import Lane, LaneSettings
from grid_member.wan.jobs.runner import LaneJobs
from grid_member.wan.link import Link, LinkParts
from grid_member.wan.pacing import Pacer
from grid_member.wan.places import QueueName
from grid_member.wan.ports import Transport
from grid_member.wan.protocol import MAX_CHANGES, seal, seal_compressed
from grid_member.wan.sender import Sender, SenderSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grid_member.config.model.wan import WanPublisherConfig
    from grid_member.engine.wan.agreement import (
        AgreedPublisher,
        Agreement,
        MergePolicy,
        PublisherName,
    )
    from grid_member.engine.wan.changes import QueuedChange
    from grid_member.wan.figures import WanFigures
    from grid_member.wan.hello import Hello
    from grid_member.wan.jobs.lane import JobShard
    from grid_member.wan.jobs.store import JobStore

LOOK_S: Final = 0.005
"""Between two looks whether shards applied anything: what else sends a change."""
FOLLOW_S: Final = 1.0
"""Between two looks whether publishers came, changed or went."""
AUTO: Final = "AUTO"
REMOVE: Final = "REMOVE"
JOB_BATCHES: Final = 4
"""Batches of a synchronisation that are under way at once."""
_log: Final = logging.getLogger("grid.wan")


class ShardQueues(Protocol):
    """The queues of one shard, for all publishers."""

    def epoch(self) -> int:
        """Return a number that changes when places read before say nothing any more."""

    def sendable(self, publisher: PublisherName) -> dict[tuple[str, bytes], int]:
        """Return the number of keys in each queue whose member lets the publisher send."""

    def read(
        self, publisher: PublisherName, queue: tuple[str, bytes], after: int, limit: int, most: int
    ) -> list[QueuedChange]:
        """Return up to so many changes of a queue, and about so many bytes, behind a place."""

    def unread(
        self, publisher: PublisherName, queue: tuple[str, bytes], after: int, most: int
    ) -> int:
        """Count the changes of a queue behind a place, up to so many."""

    def policy(self, name: str) -> MergePolicy:
        """Return the merge policy of a map."""

    async def acknowledge(
        self, publisher: PublisherName, places: Iterable[tuple[str, bytes, int]]
    ) -> bool:
        """Take from the queues what the target has; False when that cannot be now."""

    def changed(self) -> bool:
        """Tell whether the shard applied anything since this was asked last."""


class Replicated(Protocol):
    """The engine as the senders need it."""

    @property
    def agreement(self) -> Agreement | None:
        """What the members agreed on; None before they have."""

    def shards(self) -> Sequence[ShardQueues]:
        """Return the shards in their order."""

    def job_shards(self) -> Sequence[JobShard]:
        """Return the same as jobs see them."""


class CloseableTransport(Transport, Protocol):
    """A transport with connections to close."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class ReplicationParts:
    """What a member's replication is made of."""

    engine: Replicated
    figures: WanFigures
    configured: Callable[[PublisherName], WanPublisherConfig | None]
    """Returns how to reach a publisher's target; None when this member's file does not say."""
    transport: Callable[[WanPublisherConfig], CloseableTransport]
    hello: Callable[[AgreedPublisher, Agreement], Hello]
    jobs: JobStore | None
    """Synchronisations and checks; None carries out none."""
    clock: Callable[[], float]


@dataclass(slots=True)
class _Queues:
    """The queues of one publisher in one shard."""

    shard: ShardQueues
    publisher: PublisherName
    wake: Callable[[], None] = lambda: None

    def epoch(self) -> int:
        return self.shard.epoch()

    def waiting(self) -> dict[QueueName, int]:
        found = self.shard.sendable(self.publisher)
        return {QueueName(*queue): size for queue, size in found.items()}

    def read(
        self, queue: QueueName, after_place: int, limit: int, max_bytes: int
    ) -> list[QueuedChange]:
        return self.shard.read(self.publisher, queue, after_place, limit, max_bytes)

    def unread(self, queue: QueueName, after_place: int, most: int) -> int:
        return self.shard.unread(self.publisher, queue, after_place, most)

    def policy(self, map_name: str) -> MergePolicy:
        return self.shard.policy(map_name)

    async def acknowledge(self, places: Mapping[QueueName, int]) -> bool:
        return await self.shard.acknowledge(
            self.publisher, [(*queue, place) for queue, place in places.items()]
        )

    def listen(self, wake: Callable[[], None]) -> None:
        self.wake = wake


@dataclass(slots=True)
class _Running:
    """A publisher that sends."""

    agreed: AgreedPublisher
    config: WanPublisherConfig
    transport: CloseableTransport
    link: Link
    queues: list[_Queues]
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def stop(self) -> None:
        self.link.close()
        await end_tasks(*self.tasks)
        await self.transport.close()


class Replication:
    """Follows the agreement with senders."""

    def __init__(self, parts: ReplicationParts) -> None:
        self._parts = parts
        self._shards: Sequence[ShardQueues] = ()
        self._publishers: dict[PublisherName, _Running] = {}
        self._unknown: set[PublisherName] = set()
        self._threads = ThreadPoolExecutor(1, "wan")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the engine has started."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Send no more. What is queued stays so."""
        await end_tasks(self._task)
        for running in self._publishers.values():
            await running.stop()
        self._publishers.clear()
        self._threads.shutdown(wait=False)

    async def _run(self) -> None:
        self._shards = self._parts.engine.shards()
        followed_s: float | None = None
        while True:
            try:
                now_s = self._parts.clock()
                if followed_s is None or now_s >= followed_s + FOLLOW_S:
                    followed_s = now_s
                    await self._follow()
                self._wake()
            except Exception as problem:
                failure(_log, "following the agreement failed", problem)
            await asyncio.sleep(LOOK_S if self._publishers else FOLLOW_S)

    def _wake(self) -> None:
        """Wake the senders of shards in which a replicated map changed."""
        for place, shard in enumerate(self._shards):
            if shard.changed():
                for running in self._publishers.values():
                    running.queues[place].wake()

    async def _follow(self) -> None:
        agreement = self._parts.engine.agreement
        wanted: dict[PublisherName, tuple[AgreedPublisher, WanPublisherConfig]] = {}
        for agreed in () if agreement is None else agreement.publishers:
            config = self._parts.configured(agreed.name)
            if config is not None:
                wanted[agreed.name] = agreed, config
            elif agreed.name not in self._unknown:
                self._unknown.add(agreed.name)
                told = agreed.name._asdict()
                event(_log, logging.WARNING, "not configured on this member", **told)
        for name, running in list(self._publishers.items()):
            if wanted.get(name) != (running.agreed, running.config):
                del self._publishers[name]
                await running.stop()
        for name, (agreed, config) in wanted.items():
            if name in self._publishers or agreement is None:
                continue
            try:
                self._publishers[name] = self._begin(agreed, config, agreement)
            except Exception as problem:
                # Files that cannot be read, say: the others are not to wait for this one.
                failure(_log, "a publisher cannot begin", problem)

    def _begin(
        self, agreed: AgreedPublisher, config: WanPublisherConfig, agreement: Agreement
    ) -> _Running:
        parts = self._parts
        figures = parts.figures.publisher(agreed.name)
        endpoints = Endpoints(
            config.target_endpoints,
            parts.clock,
            config.discovery_period_s,
            config.max_target_endpoints,
        )
        transport = parts.transport(config)

        def hello() -> Hello:
            return parts.hello(agreed, parts.engine.agreement or agreement)

        link = Link(LinkParts(transport, endpoints, hello, figures))
        queues = [_Queues(shard, agreed.name) for shard in self._shards]
        running = _Running(agreed, config, transport, link, queues)
        for number, each in enumerate(queues):
            settings = SenderSettings(
                name=agreed.name,
                cluster_id=agreement.cluster_id,
                batch_size=min(config.batch_size, MAX_CHANGES),
                max_delay_s=config.batch_max_delay_ms / 1000,
                concurrency=config.max_concurrent_invocations,
                compresses=config.compression == AUTO,
            )
            sender = Sender(settings, each, link, figures, parts.clock, self._compress)
            running.tasks.append(asyncio.create_task(_keep(sender)))
            if parts.jobs is not None:
                jobs = LaneJobs(self._job_lane(number, settings, config, link), parts.jobs)
                running.tasks.append(asyncio.create_task(_keep(jobs)))
        return running

    def _job_lane(
        self, number: int, settings: SenderSettings, config: WanPublisherConfig, link: Link
    ) -> Lane:
        async def seal_plain(body: bytes) -> bytes:
            return seal(body)

        concurrency = settings.concurrency
        return Lane(
            LaneSettings(
                name=settings.name,
                cluster_id=settings.cluster_id,
                lane=number,
                lanes=len(self._shards),
                batch_size=settings.batch_size,
                at_once=JOB_BATCHES if concurrency < 1 else min(concurrency, JOB_BATCHES),
                in_flight_ms=2 * config.response_timeout_ms,
                removes_extra=config.extra_entries == REMOVE,
            ),
            self._parts.engine.job_shards()[number],
            link,
            Pacer(self._parts.clock),
            self._parts.clock,
            asyncio.sleep,
            self._compress if settings.compresses else seal_plain,
        )

    async def _compress(self, body: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, seal_compressed, body)


async def _keep(work: Sender | LaneJobs) -> None:
    """Run a sender or jobs, and again after an unexpected error."""
    while True:
        try:
            await work.run()
        except Exception as problem:
            failure(_log, "sending failed", problem)
        await asyncio.sleep(FOLLOW_S)
