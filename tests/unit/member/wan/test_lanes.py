"""Promise: a member sends what falls to it, as long as it does, and says how that goes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from grid_member.config.model.wan import WanPublisherConfig
from grid_member.engine.wan.agreement import Agreement, MergePolicy, PublisherState
from grid_member.wan.figures import WanFigures
from grid_member.wan.jobs.records import Job, JobKind
from grid_member.wan.jobs.store import JobStore
from grid_member.wan.replication import NOT_CONFIGURED, Replication, ReplicationParts
from tests.unit.engine.wan.agreements import agreement, publisher
from tests.unit.member.wan.batches import NAME, put
from tests.unit.member.wan.fakes import MEMBER, FakeQueues, FakeTarget, hello
from tests.unit.member.wan.jobs.clusters import FakeStore
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Sequence

    import pytest

    from grid_member.engine.wan.agreement import PublisherName
    from grid_member.engine.wan.changes import QueuedChange
    from grid_member.wan.jobs.lane import JobShard
    from grid_member.wan.members.reports import SenderReport
    from grid_member.wan.members.sharing import MemberStates

CONFIG = WanPublisherConfig("london", "london", (("127.0.0.1", 5705),))


class FakeShard:
    """A shard whose queues are those of `FakeQueues`."""

    def __init__(self) -> None:
        self.queues = FakeQueues()
        self._seen = -1

    def epoch(self) -> int:
        return 0

    def state_of(self, publisher: PublisherName, member: bytes) -> PublisherState | None:
        return PublisherState.REPLICATING

    def sendable(self, publisher: PublisherName) -> dict[tuple[str, bytes], int]:
        return {tuple(queue): size for queue, size in self.queues.waiting().items()}  # type: ignore[misc]

    def queued_maps(self, publisher: PublisherName) -> set[str]:
        return self.queues.queued_maps()

    def read(
        self, publisher: PublisherName, queue: tuple[str, bytes], after: int, limit: int, most: int
    ) -> list[QueuedChange]:
        return self.queues.read(queue, after, limit, most)  # type: ignore[arg-type]

    def policy(self, name: str) -> MergePolicy:
        return MergePolicy.LATEST_UPDATE

    def unread(
        self, publisher: PublisherName, queue: tuple[str, bytes], after: int, most: int
    ) -> int:
        return self.queues.unread(queue, after, most)  # type: ignore[arg-type]

    async def acknowledge(
        self, publisher: PublisherName, places: Iterable[tuple[str, bytes, int]]
    ) -> bool:
        found = {(name, member): place for name, member, place in places}
        return await self.queues.acknowledge(found)  # type: ignore[arg-type]

    def changed(self) -> bool:
        former, self._seen = self._seen, self.queues.place
        return former != self._seen


class EmptyShard:
    """A shard without maps, as jobs see it."""

    held = False

    def maps(self, publisher: PublisherName) -> list[str]:
        return []

    def entries(self, name: str) -> int:
        return 0

    def stamp(self) -> int:
        return 1


@dataclass
class FakeSharing:
    mine: frozenset[int] = frozenset()
    backup: bool = False
    reports: list[SenderReport] = field(default_factory=list)

    def look(self, publishers: Collection[PublisherName]) -> None:
        pass

    def lanes(
        self, publisher: PublisherName, shards: Sequence[MemberStates], *, able: bool
    ) -> frozenset[int]:
        return self.mine if able else frozenset()

    def waits(self, publisher: PublisherName) -> bool:
        return self.backup

    def report(self, publisher: PublisherName, report: SenderReport) -> None:
        if self.reports[-1:] != [report]:
            self.reports.append(report)


class Closing(FakeTarget):
    closed = 0

    async def close(self) -> None:
        self.closed += 1


@dataclass
class World:
    """A member whose engine has three shards, and what it is told."""

    agreement: Agreement | None
    all: list[FakeShard] = field(default_factory=lambda: [FakeShard() for _ in range(3)])
    sharing: FakeSharing = field(default_factory=FakeSharing)
    target: Closing = field(default_factory=Closing)
    figures: WanFigures = field(default_factory=WanFigures)
    config: WanPublisherConfig | None = CONFIG
    problem: str = ""
    whole: bool = True
    jobs: JobStore = field(default_factory=lambda: JobStore(FakeStore()))

    def shards(self) -> list[FakeShard]:
        return self.all if self.whole else []

    def job_shards(self) -> list[JobShard]:
        return [cast("JobShard", EmptyShard()) for _ in self.all]

    def begin_job(self, uuid: str) -> Job:
        job = Job(uuid, JobKind.SYNC, NAME, (), 1000, len(self.all), full=True)
        for each in self.jobs.begin_puts(job):
            each.send(self.jobs.system)
        return job

    def put(self, lane: int, key: str) -> None:
        self.all[lane].queues.add(put("orders", key, len(key)), MEMBER)

    def sent(self) -> set[str]:
        return set(self.target.keys)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World(agreement((publisher()._replace(name=NAME),)))
    parts = ReplicationParts(
        engine=made,
        figures=made.figures,
        configured=lambda _: made.config,
        transport=lambda _: made.target,
        hello=lambda *_: hello(),
        jobs=made.jobs,
        clock=asyncio.get_running_loop().time,
        problem=lambda _: made.problem,
        sharing=made.sharing,
    )
    replication = Replication(parts)
    replication.start()
    try:
        yield made
    finally:
        await replication.stop()


async def test_lanes_come_and_go() -> None:
    async with world() as made:
        made.sharing.mine = frozenset({0, 2})
        for lane in range(3):
            made.put(lane, f"first-{lane}")
        await until(lambda: made.sent() == {"first-0", "first-2"})
        await until(lambda: made.sharing.reports[-1].connected)
        assert made.sharing.reports[-1].lanes == 2
        made.sharing.mine = frozenset({1})
        await until(lambda: "first-1" in made.sent())
        made.put(0, "later-0")
        made.put(1, "later-1")
        await until(lambda: "later-1" in made.sent())
        assert "later-0" not in made.sent()
        assert not made.target.closed, "the connection stays"
        made.sharing.mine = frozenset()
        await until(lambda: made.target.closed == 1)
        await until(lambda: not made.sharing.reports[-1].connected)
        assert made.figures.publisher(NAME).lanes == 0


async def test_jobs_go_with_the_sender_of_a_shard() -> None:
    async with world() as made:
        made.sharing.mine = frozenset({0, 2})
        job = made.begin_job("first")
        await until(lambda: made.jobs.shares(job).keys() == {0, 2})
        made.sharing.mine = frozenset({1})
        await until(lambda: made.jobs.shares(job).keys() == {0, 1, 2})
        await until(lambda: all(share.ended for share in made.jobs.shares(job).values()))
        job = made.begin_job("second")
        await until(lambda: 1 in made.jobs.shares(job))
        await until(lambda: made.jobs.shares(job)[1].ended)
        assert made.jobs.shares(job).keys() == {1}, "the other shards are another member's"


async def test_only_jobs_are_carried_out_while_a_restored_cluster_waits() -> None:
    async with world() as made:
        made.sharing.mine, made.sharing.backup = frozenset({0, 1, 2}), True
        made.put(0, "waits")
        job = made.begin_job("asked-for")
        await until(lambda: len(made.jobs.shares(job)) == 3)
        await until(lambda: all(share.ended for share in made.jobs.shares(job).values()))
        assert not made.sent()
        made.sharing.backup = False
        await until(lambda: made.sent() == {"waits"})


async def test_a_member_without_credentials_says_so() -> None:
    async with world() as made:
        made.sharing.mine = frozenset({0})
        made.config = None
        made.put(0, "waits")
        await until(lambda: bool(made.sharing.reports))
        assert not made.sharing.reports[-1].able
        assert made.sharing.reports[-1].problem == NOT_CONFIGURED
        made.config = CONFIG
        await until(lambda: made.sent() == {"waits"})
        await until(lambda: made.sharing.reports[-1].able)
        assert made.sharing.reports[-1].problem == ""


async def test_a_member_whose_files_cannot_be_read_leaves_the_sending_to_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as made:
        made.sharing.mine = frozenset({0})
        made.problem = "network.wan.ssl.ca-file: there is no file"
        made.put(0, "waits")
        await until(lambda: bool(made.sharing.reports))
        told = made.sharing.reports[-1]
        assert (told.able, told.lanes, told.problem) == (False, 0, made.problem)
        made.problem = ""
        await until(lambda: made.sent() == {"waits"})
        await until(lambda: made.sharing.reports[-1].able)
        assert made.sharing.reports[-1].problem == ""
        made.problem = "another one"
        await until(lambda: not made.sharing.reports[-1].able)
        await until(lambda: made.target.closed == 1)
    warnings = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert warnings == ["cannot send", "cannot send"]


async def test_a_member_that_lacks_shards_sends_when_it_has_them() -> None:
    async with world() as made:
        made.whole = False
        made.sharing.mine = frozenset({0, 1, 2})
        made.put(1, "waits")
        await until(lambda: bool(made.sharing.reports))
        assert not made.sharing.reports[-1].able
        made.whole = True
        await until(lambda: made.sent() == {"waits"})
