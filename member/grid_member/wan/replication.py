"""All senders of a member: of each publisher that was agreed on, in the shards that it sends."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.io.ending import end_tasks
from grid_member.telemetry.logs import event, failure
from grid_member.wan.agreement.agreed_transport import AgreedTransport
from grid_member.wan.endpoints import Endpoints
from grid_member.wan.jobs.lane import Lane, LaneSettings
from grid_member.wan.jobs.runner import LaneJobs
from grid_member.wan.link import Link, LinkParts
from grid_member.wan.members.sharing import Alone, MemberStates, Sharing
from grid_member.wan.pacing import Pacer
from grid_member.wan.places import QueueName
from grid_member.wan.ports import Transport
from grid_member.wan.protocol import MAX_CHANGES, seal, seal_compressed
from grid_member.wan.sender import Sender, SenderSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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
NOT_CONFIGURED: Final = (
    "this member cannot send for the publisher: its file needs the publisher's realm with an "
    "identity, and a ca-file where network.wan.ssl is on"
)
_log: Final = logging.getLogger("grid.wan")


class ShardQueues(MemberStates, Protocol):
    """The queues of one shard, for all publishers."""

    def epoch(self) -> int:
        """Return a number that changes when places read before say nothing any more."""

    def queued_maps(self, publisher: PublisherName) -> Collection[str]:
        """Return the maps of which anything waits, also if it may not be sent now."""

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
    problem: Callable[[WanPublisherConfig], str] = lambda _: ""
    """Returns why this member cannot send for a publisher that it has credentials for, empty when
    it can."""
    sharing: Sharing | None = None
    """Decides which shards this member sends; None: all of them."""


@dataclass(slots=True)
class _Queues:
    """The queues of one publisher in one shard."""

    shard: ShardQueues
    publisher: PublisherName
    wake: Callable[[], None] = lambda: None

    def epoch(self) -> int:
        return self.shard.epoch()

    def queued_maps(self) -> Collection[str]:
        return self.shard.queued_maps(self.publisher)

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
class _Lane:
    """The sender of a publisher in one shard, and its jobs."""

    queues: _Queues
    tasks: list[asyncio.Task[None]]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a publisher is to send, and how."""

    agreed: AgreedPublisher
    config: WanPublisherConfig
    lanes: frozenset[int]
    waits: bool
    """Whether only jobs are carried out, as the cluster began as a backup."""


@dataclass(slots=True)
class _Running:
    """A publisher that sends."""

    agreed: AgreedPublisher
    config: WanPublisherConfig
    waits: bool
    cluster_id: bytes
    transport: CloseableTransport
    link: Link
    lanes: dict[int, _Lane] = field(default_factory=dict)

    def goes_by(self, wanted: _Wanted) -> bool:
        """Tell whether nothing but the lanes may have to change."""
        own = self.agreed, self.config, self.waits
        return own == (wanted.agreed, wanted.config, wanted.waits)

    async def stop(self) -> None:
        await self.stop_lanes(list(self.lanes))
        self.link.close()
        await self.transport.close()

    async def stop_lanes(self, numbers: Iterable[int]) -> None:
        await end_tasks(*(task for number in numbers for task in self.lanes.pop(number).tasks))


class Replication:
    """Follows the agreement with senders."""

    def __init__(self, parts: ReplicationParts) -> None:
        self._parts = parts
        self._sharing: Sharing = parts.sharing or Alone()
        self._shards: Sequence[ShardQueues] = ()
        self._publishers: dict[PublisherName, _Running] = {}
        self._problems: dict[PublisherName, str] = {}
        """Why this member cannot send, as its log and figures tell."""
        self._threads = ThreadPoolExecutor(1, "wan")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the engine has started."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Send no more. What is queued stays so."""
        await end_tasks(self._task)
        await self._stop_all()
        self._threads.shutdown(wait=False)

    async def _run(self) -> None:
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
        for number, shard in enumerate(self._shards):
            if shard.changed():
                for running in self._publishers.values():
                    lane = running.lanes.get(number)
                    if lane is not None:
                        lane.queues.wake()

    async def _follow(self) -> None:
        """Begin and end senders as the agreement and the other members ask for."""
        agreement = self._parts.engine.agreement
        shards = self._parts.engine.shards()
        if any(known is not shard for known, shard in zip(self._shards, shards, strict=False)):
            await self._stop_all()
        self._shards = shards
        publishers = () if agreement is None else agreement.publishers
        self._sharing.look([agreed.name for agreed in publishers])
        wanted = {agreed.name: self._wanted(agreed) for agreed in publishers}
        for name, running in list(self._publishers.items()):
            found = wanted.get(name)
            if found is None or not running.goes_by(found):
                await self._stop(name)
        if agreement is None:
            return
        self._parts.figures.keep(wanted)
        for name, found in wanted.items():
            if found is None:
                continue
            try:
                await self._keep(name, found, agreement)
            except Exception as problem:
                # Files that cannot be read, say: the others are not to wait for this one.
                failure(_log, "a publisher cannot begin", problem)

    def _wanted(self, agreed: AgreedPublisher) -> _Wanted | None:
        """Return what this member is to send for a publisher, None when it sends nothing."""
        parts, name = self._parts, agreed.name
        figures, config = parts.figures.publisher(name), parts.configured(name)
        problem = NOT_CONFIGURED if config is None else parts.problem(config)
        able = not problem and bool(self._shards)
        lanes = self._sharing.lanes(name, self._shards, able=able)
        figures.lanes = len(lanes)
        self._note_problem(name, problem)
        self._sharing.report(name, figures.report(able=able))
        waits = self._sharing.waits(name)
        return None if config is None or not lanes else _Wanted(agreed, config, lanes, waits)

    def _note_problem(self, name: PublisherName, problem: str) -> None:
        """Tell why this member cannot send for a publisher, once; empty when it can."""
        figures, former = self._parts.figures.publisher(name), self._problems.get(name, "")
        if problem:
            figures.problem = problem
        elif figures.problem == former:
            figures.problem = ""
        if problem and problem != former:
            event(_log, logging.WARNING, "cannot send", **name._asdict(), why=problem)
        self._problems[name] = problem

    async def _keep(self, name: PublisherName, wanted: _Wanted, agreement: Agreement) -> None:
        """Let a publisher have senders in the lanes that are wanted, and in no others."""
        running = self._publishers.get(name)
        if running is None:
            running = self._publishers[name] = self._begin(wanted, agreement)
        await running.stop_lanes([lane for lane in running.lanes if lane not in wanted.lanes])
        for lane in sorted(wanted.lanes - running.lanes.keys()):
            running.lanes[lane] = self._begin_lane(running, lane)

    async def _stop(self, name: PublisherName) -> None:
        await self._publishers.pop(name).stop()
        self._parts.figures.publisher(name).end()

    async def _stop_all(self) -> None:
        for name in list(self._publishers):
            await self._stop(name)

    def _begin(self, wanted: _Wanted, agreement: Agreement) -> _Running:
        parts, agreed, config = self._parts, wanted.agreed, wanted.config
        endpoints = Endpoints(
            config.target_endpoints,
            parts.clock,
            config.discovery_period_s,
            config.max_target_endpoints,
        )
        transport = parts.transport(config)

        def hello() -> Hello:
            return parts.hello(agreed, parts.engine.agreement or agreement)

        def is_agreed() -> bool:
            return parts.configured(agreed.name) == config

        figures = parts.figures.publisher(agreed.name)
        agreed_transport = AgreedTransport(transport, is_agreed)
        link = Link(LinkParts(agreed_transport, endpoints, hello, figures, parts.clock))
        return _Running(agreed, config, wanted.waits, agreement.cluster_id, transport, link)

    def _begin_lane(self, running: _Running, lane: int) -> _Lane:
        parts, config, name = self._parts, running.config, running.agreed.name
        queues = _Queues(self._shards[lane], name)
        settings = SenderSettings(
            name=name,
            cluster_id=running.cluster_id,
            batch_size=min(config.batch_size, MAX_CHANGES),
            max_delay_s=config.batch_max_delay_ms / 1000,
            concurrency=config.max_concurrent_invocations,
            compresses=config.compression == AUTO,
        )
        figures = parts.figures.publisher(name)
        works: list[Sender | LaneJobs] = []
        if not running.waits:
            works.append(
                Sender(settings, queues, running.link, figures, parts.clock, self._compress)
            )
        if parts.jobs is not None:
            works.append(LaneJobs(self._job_lane(lane, settings, config, running.link), parts.jobs))
        return _Lane(queues, [asyncio.create_task(_keep(work)) for work in works])

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
