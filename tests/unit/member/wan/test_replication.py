"""Promise: each publisher that the members agreed on sends, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from grid_member.config.build_wan import MAX_PUBLISHERS, MAX_REPLICATIONS
from grid_member.config.model.wan import WanPublisherConfig
from grid_member.engine.wan.agreement import (
    AgreedPublisher,
    Agreement,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.wan.figures import MAX_SHOWN, WanFigures
from grid_member.wan.replication import Replication, ReplicationParts
from tests.unit.member.wan.batches import SOURCE
from tests.unit.member.wan.fakes import FakeTarget, hello
from tests.unit.member.wan.pairs import until

if TYPE_CHECKING:
    from grid_member.wan.jobs.lane import JobShard
    from grid_member.wan.replication import CloseableTransport, ShardQueues

FAILS: Final = PublisherName("rep", "fails")
SENDS: Final = PublisherName("rep", "sends")


class Line(FakeTarget):
    async def close(self) -> None:
        """Have nothing to close."""


class NoQueues:
    """A shard in which nothing waits."""

    def epoch(self) -> int:
        return 0

    def sendable(self, publisher: PublisherName) -> dict[tuple[str, bytes], int]:
        return {}

    def queued_maps(self, publisher: PublisherName) -> set[str]:
        return set()

    def changed(self) -> bool:
        return False


class FakeEngine:
    def __init__(self, *names: PublisherName) -> None:
        full, state = WhenQueueFull.DISCARD_AFTER_MUTATION, PublisherState.REPLICATING
        publishers = tuple(AgreedPublisher(name, "london", 100, full, state) for name in names)
        self.agreement = Agreement(1, SOURCE, (), publishers, 0, 0, 60_000)
        self._shards = [NoQueues()]

    def shards(self) -> list[ShardQueues]:
        return self._shards  # type: ignore[return-value]

    def job_shards(self) -> list[JobShard]:
        raise AssertionError("there are no jobs")


def transport(config: WanPublisherConfig) -> CloseableTransport:
    if config.publisher_id == FAILS.publisher:
        raise OSError("its files cannot be read")
    return Line()


async def test_one_that_cannot_begin_holds_up_no_other() -> None:
    figures = WanFigures()
    replication = Replication(
        ReplicationParts(
            engine=FakeEngine(FAILS, SENDS),
            figures=figures,
            configured=lambda name: WanPublisherConfig(
                name.publisher, "london", (("127.0.0.1", 5705),)
            ),
            transport=transport,
            hello=lambda agreed, agreement: hello(),
            jobs=None,
            clock=time.monotonic,
        )
    )
    replication.start()
    try:
        await until(lambda: figures.of(SENDS).connected, "the other is connected")
        assert not figures.of(FAILS).connected
    finally:
        await asyncio.wait_for(replication.stop(), 10)


def test_each_publisher_has_figures_and_metrics_tell_of_a_part() -> None:
    """By them a publisher is connected: else no comparison would begin after a full queue."""
    figures = WanFigures()
    names = [PublisherName("r", f"p{n:03}") for n in range(MAX_PUBLISHERS * MAX_REPLICATIONS)]
    for name in names:
        figures.publisher(name).connected = True
    assert all(figures.report(name).connected for name in names)
    assert [name for name, _ in figures.shown()] == names[:MAX_SHOWN]
    figures.keep(names[:2])
    assert [name for name, _ in figures.shown()] == names[:2]
