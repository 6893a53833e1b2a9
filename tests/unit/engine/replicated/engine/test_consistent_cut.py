"""Cuts over the shards of three members while clients write, and designs that are none."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError, Entry, Item, Reason, Refused
from grid_member.engine.local.system import ignore
from grid_member.engine.replicated import consistent_cut
from grid_member.engine.replicated.consistent_cut import MARKER, MARKER_MS, ConsistentCuts
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.replicated.replicated_shards import CLUSTER_SHARDS
from grid_member.engine.state.operations import SystemPut, SystemRemove
from grid_member.engine.state.sharding import shard_of
from tests.unit.engine.cluster.clusters import START_S, Cluster
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable

    from grid_member.engine.shard.shard import Answer
    from grid_member.engine.state.operations import Operation
    from grid_member.engine.state.snapshot import Snapshot

SPREAD_S = 0.03
"""Between the marks of a cut, many times as long as a write takes."""
WRITERS = 6
PATIENCE_S = 60
CUTS = 6
PLANTED_CUTS = 60
"""Among so many there is one in which a design without holding fails, by far."""
FIRST, SECOND, THIRD = (
    next(name for name in (f"m{n}" for n in range(99)) if shard_of(name, CLUSTER_SHARDS) == shard)
    for shard in range(CLUSTER_SHARDS)
)
pytestmark = pytest.mark.timeout(180)


class Slow(ConsistentCuts):
    """Marks one shard long after the other."""

    def _put_markers(self, name: str) -> Iterable[Awaitable[Refused | None]]:
        return [self._marked(shard, name, place) for place, shard in enumerate(self._shards)]

    async def _marked(self, shard: ReplicatedShard, name: str, place: int) -> Refused | None:
        await asyncio.sleep(place * SPREAD_S)
        outcome: asyncio.Future[Refused | None] = asyncio.get_running_loop().create_future()
        shard.propose_system(SystemPut(name, b"", MARKER_MS), outcome.set_result)
        return await outcome


class Unheld(Slow):
    """Answers what is behind a mark at once."""

    def look(self, *, at_record: bool = True) -> None:
        super().look(at_record=at_record)
        for shard in self._shards:
            shard.release()


class SlowEngine(ClusterEngine):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._consistent_cuts = Slow()


class UnheldEngine(ClusterEngine):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._consistent_cuts = Unheld()


class Pairs:
    """Clients that write a number, then the same one elsewhere by way of another member."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.written = 0
        self._ended = False

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        writers = [asyncio.create_task(self._write(f"w{number}")) for number in range(WRITERS)]
        try:
            await self.progress()
            yield
            await self.progress()
        finally:
            self._ended = True
            await asyncio.gather(*writers)

    async def progress(self) -> None:
        wanted = self.written + 10 * WRITERS
        await until(lambda: self.written >= wanted, PATIENCE_S)

    async def _write(self, key: str) -> None:
        number = 0
        while not self._ended:
            number += 1
            one, two, three = random.sample(self._cluster.drivers, 3)
            value = b"%d" % number
            if await one.put(FIRST, key, value) is not None:
                continue
            await two.put(SECOND, key, value)
            seen = await two.value(FIRST, key)
            assert seen is not None
            await three.put(THIRD, key, seen)
            self.written += 1


def torn(snapshot: Snapshot) -> list[str]:
    """Return the clients whose second number is in the snapshot and not the first one."""
    found = {
        name: {key: int(bytes(value)) for key, value in snapshot.maps[name].entries.items()}  # type: ignore[arg-type]
        for name in (FIRST, SECOND, THIRD)
    }
    return [
        key
        for key in found[SECOND].keys() | found[THIRD].keys()
        if found[FIRST].get(key, 0) < max(found[SECOND].get(key, 0), found[THIRD].get(key, 0))
    ]


@pytest.mark.parametrize("engine", [ClusterEngine, SlowEngine], ids=["as-it-is", "late-marks"])
async def test_what_was_answered_before_something_in_a_cut_was_asked_for_is_in_it(
    engine: type[ClusterEngine],
) -> None:
    async with Cluster(3, engine=engine) as cluster, Pairs(cluster).going_on():
        for number in range(CUTS):
            (snapshot,) = await cluster.engines[number % 3].moment()
            assert len(snapshot.maps[FIRST].entries) == WRITERS
            assert torn(snapshot) == []


async def test_the_check_finds_a_design_that_holds_nothing() -> None:
    async with Cluster(3, engine=UnheldEngine) as cluster, Pairs(cluster).going_on():
        for _ in range(PLANTED_CUTS):
            (snapshot,) = await cluster.engines[0].moment()
            if torn(snapshot):
                return
    pytest.fail("no cut was torn")


async def test_a_cut_that_nobody_goes_on_with_holds_answers_for_a_while_only() -> None:
    async with Cluster(3) as cluster:
        shard = cluster.engines[0].shards[0]
        assert await cluster.drivers[1].put(FIRST, "k", b"1") is None
        shard.propose_system(SystemPut(MARKER + "left", b"", MARKER_MS), ignore)
        await seen(cluster, MARKER + "left")
        assert await cluster.drivers[1].put(FIRST, "k", b"2") is None
        assert await cluster.drivers[2].value(FIRST, "k") == b"2"
        assert not shard.state.system.items(MARKER, 0)
        (snapshot,) = await cluster.engines[2].moment()
        assert snapshot.maps[FIRST].entries == {"k": b"2"}


async def test_who_waits_for_a_cut_that_does_not_end_is_told_that_nobody_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    propose = ReplicatedShard.propose_system

    def keep_marks(
        self: ReplicatedShard, operation: Operation, answer: Answer, size_bytes: int = 0
    ) -> None:
        if not isinstance(operation, SystemRemove) or not operation.key.startswith(MARKER):
            propose(self, operation, answer, size_bytes)

    async with Cluster(3) as cluster:
        _, second, third = cluster.drivers
        assert await second.offer(FIRST, b"item") is True
        monkeypatch.setattr(consistent_cut, "PATIENCE_S", 0.2)
        monkeypatch.setattr(consistent_cut, "GIVE_UP_LOOKS", 1)
        monkeypatch.setattr(ReplicatedShard, "propose_system", keep_marks)
        shard = cluster.engines[0].shards[0]
        shard.propose_system(SystemPut(MARKER + "left", b"", MARKER_MS), ignore)
        await seen(cluster, MARKER + "left")
        outcomes = [
            await second.put(FIRST, "k", b"1"),
            await second.poll(FIRST),
            await second.get(FIRST, "k"),
        ]
        reasons = [one.reason for one in outcomes if isinstance(one, Refused)]
        assert reasons == [Reason.UNAVAILABLE] * 3
        monkeypatch.undo()

        async def read() -> bytes | None:
            entry = await third.get(FIRST, "k")  # refused while that one waits for the cut yet
            return entry.value if isinstance(entry, Entry) else None

        # What nobody knew was done, but for the item, which nobody got.
        assert await eventually(read) == b"1"
        assert await third.take(FIRST, 20) == b"item"


async def test_a_cut_is_none_when_somebody_could_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistent_cut, "PATIENCE_S", SPREAD_S / 3)
    monkeypatch.setattr(consistent_cut, "RETRY_S", 0)
    async with Cluster(3, engine=SlowEngine) as cluster, Pairs(cluster).going_on():
        with pytest.raises(EngineError, match="no moment could be had"):
            await cluster.engines[0].moment()


async def test_a_member_that_starts_in_a_cut_holds_its_answers_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster(3) as cluster:
        await cluster.engines[2].stop()
        monkeypatch.setattr(consistent_cut, "PATIENCE_S", 60)
        for engine in cluster.engines[:2]:
            engine.shards[0].propose_system(SystemPut(MARKER + "open", b"", MARKER_MS), ignore)
        await seen(cluster, MARKER + "open")
        former = cluster.engines[2]
        restarting = asyncio.create_task(cluster.restart(2))
        await until(lambda: holds_answers(cluster.engines[2], former), START_S)
        assert not restarting.done()
        for shard in cluster.engines[0].shards[1:]:
            shard.propose_system(SystemPut(MARKER + "open", b"", MARKER_MS), ignore)
        await restarting
        assert await cluster.drivers[2].put(FIRST, "k", b"1") is None
        shards = [
            shard for engine in cluster.engines for shard in engine._cluster.replicated_shards
        ]
        # A member that is left alone in a cut holds its answers for as long as its patience.
        await until(lambda: all(shard.held_records is None for shard in shards), START_S)


async def test_an_item_that_came_in_a_cut_is_for_who_waited_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The take found nothing, and that was held: nobody was known to wait as the item came."""
    async with Cluster(3) as cluster:
        monkeypatch.setattr(consistent_cut, "PATIENCE_S", 60)
        shards = cluster.engines[1]._cluster.replicated_shards
        shard = shards[cluster.shard_of(FIRST)]
        cluster.engines[0].shards[shard.shard].propose_system(
            SystemPut(MARKER + "open", b"", MARKER_MS), ignore
        )
        await until(lambda: shard.held_records is not None)
        poll = asyncio.create_task(cluster.drivers[1].poll(FIRST, 10 * START_S))
        await until(lambda: any(record.operations for record, _ in shard.held_records or ()))
        offer = asyncio.create_task(cluster.drivers[2].offer(FIRST, b"item"))
        await until(lambda: shard.state.queue_size(FIRST) == 1)
        for other in cluster.engines[0]._cluster.replicated_shards:
            if other.shard != shard.shard:
                other.propose_system(SystemPut(MARKER + "open", b"", MARKER_MS), ignore)
        assert await offer is True
        await until(poll.done)
        item = await poll
        assert isinstance(item, Item)
        assert item.value == b"item"


def holds_answers(engine: ClusterEngine, former: ClusterEngine) -> bool:
    return engine is not former and any(
        shard.held_records for shard in engine._cluster.replicated_shards
    )


async def seen(cluster: Cluster, mark: str) -> None:
    """Wait until every member that runs has seen the mark."""
    async with asyncio.timeout(20):
        for engine in cluster.engines:
            if not engine.ready:
                continue
            while mark not in engine.shards[0].state.system.by_key:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
