"""Of five members two lose their disks while the one that holds something is cut off."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Item, MapSettings, Refused
from grid_member.engine.local import engine as engine_module
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.admin.streams import copies_of
from grid_member.engine.replicas import watch
from grid_member.engine.replicated.replicated_shards import CLUSTER_SHARDS
from grid_member.engine.state.sharding import shard_of
from tests.unit.engine.cluster.clusters import HOST, Cluster
from tests.unit.engine.cluster.faults import EngineClient
from tests.unit.engine.cluster.load import Load, told
from tests.unit.engine.drive import Driver, FixedStructures
from tests.unit.engine.replicated.faults.test_never_stale import MAP
from tests.unit.engine.replicated.faults.test_rescue import MAPS, name_of, until_told, until_waiting
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from grid_member.engine.replicated.engine import ClusterEngine

SIZE = 5
STEP_S = 60.0
MEMORY = "memory"
"""A map that is on no disk."""
HELD, ENDED = (
    next(
        name for name in (f"held{n}" for n in range(99)) if shard_of(name, CLUSTER_SHARDS) == shard
    )
    for shard in (1, 2)
)
"""Queues of which one item each is in flight: it is confirmed in the end, or its life is ended."""
SHARD = "shard-1"
IN_SHARD = next(name for name in MAPS if shard_of(name, CLUSTER_SHARDS) == 1)
pytestmark = pytest.mark.timeout(240)


@contextlib.asynccontextmanager
async def emptied(
    cluster: Cluster, directory: Path, *lost: int
) -> AsyncIterator[Sequence[asyncio.Future[None]]]:
    """Stop members and start them with nothing on their disks; give their starts."""
    await asyncio.gather(*(cluster.engines[number].stop() for number in lost))
    for number in lost:
        shutil.rmtree(directory / f"m{number}")
        cluster.engines[number] = cluster.made(number)
        cluster.drivers[number] = Driver(cluster.engines[number])
    new = [cluster.engines[number] for number in lost]
    starts = [asyncio.ensure_future(engine.start()) for engine in new]
    try:
        yield starts
    finally:
        for engine in new:
            engine.end_waiting()
        await asyncio.gather(*starts, return_exceptions=True)


async def all_copied(cluster: Cluster) -> None:
    """Wait until every member has a current copy of everything."""
    client, streams = cluster.engines[0].client, cluster.engines[0]._cluster.all_streams

    async def copied() -> bool:
        copies = [await copies_of(client, stream.name) for stream in streams]
        return all(len(one.current) == cluster.size for one in copies)

    await eventually(copied)


async def taken(driver: Driver, queue: str) -> Item:
    """Have an item in flight."""
    item = await driver.poll(queue)
    assert isinstance(item, Item)
    return item


def end_incarnations(engine: ClusterEngine, *members: str) -> None:
    """Give back what these have in flight, as a member does that sees them gone."""
    for taker in engine.takers():
        if taker.member in members:
            engine.end_incarnation(taker)


async def until_told_who_is_missing(cluster: Cluster, number: int, missing: int) -> None:
    """Wait until a start says that it waits for a majority, and who does not answer."""
    await until_waiting(cluster.engines[number], "no majority of the members that hold the data")
    address = f"{HOST}:{cluster._lines[number, missing].port}"
    await until_waiting(cluster.engines[number], f"(no answer from {address}; there: ")


async def test_two_lose_their_disks_while_the_one_that_leads_and_holds_items_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "UNKNOWN_GRACE_S", 0.5)  # they end as crashes would
    structures = FixedStructures(maps={MEMORY: MapSettings(persistent=False)})
    async with Cluster(SIZE, tmp_path, structures=structures, backup_count=2) as cluster:
        await all_copied(cluster)
        cut_off = await cluster.leader_of(MAP)
        first, second, *left = [member for member in range(SIZE) if member != cut_off]
        taker, engine = cluster.drivers[cut_off], cluster.engines[cut_off]
        for queue in (HELD, ENDED):
            assert await taker.offer(queue, b"item") is True
        held, ended = [await taken(taker, queue) for queue in (HELD, ENDED)]
        async with Load(EngineClient(cluster), SIZE) as load:
            await load.progress()
            cluster.isolate(cut_off)
            await load.progress(first, second, *left)
            assert await cluster.drivers[first].put(MEMORY, "k", b"v") is None
            gone = [cluster.engines[number].member_uuid for number in (first, second)]
            begun_s = time.monotonic()
            async with emptied(cluster, tmp_path, first, second) as starts:
                for number in (first, second):
                    await until_told_who_is_missing(cluster, number, cut_off)
                for number in (cut_off, *left):
                    await load.refusal(number)
                assert not any(start.done() for start in starts)
                cluster.heal()
                await asyncio.wait_for(asyncio.gather(*starts), STEP_S)
            for number in (first, second):
                load.crashed(number, begun_s)
            await until(lambda: all(one.in_contact for one in cluster.engines), STEP_S)
            end_incarnations(cluster.engines[left[0]], *gone)
            engine.queue_confirm(held)
            await load.progress()
            history = await load.drained()
        faults = history.faults()
        assert not faults, told(faults)
        for driver in cluster.drivers:
            assert await driver.value(MEMORY, "k") == b"v"
            assert [await driver.take(queue) for queue in (HELD, ENDED)] == [None, None]
        end_incarnations(cluster.engines[left[0]], engine.member_uuid)
        assert await cluster.drivers[first].take(ENDED, STEP_S) == b"item"
        engine.queue_return(ended)  # which is not its own any more
        for driver in cluster.drivers:
            assert [await driver.take(queue) for queue in (HELD, ENDED)] == [None, None]


async def test_two_lose_their_disks_while_the_one_with_the_last_copy_of_a_log_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "UNKNOWN_GRACE_S", 0.5)
    monkeypatch.setattr(watch, "LEADERLESS_S", 2.0)
    async with Cluster(SIZE, tmp_path) as cluster:
        for name in MAPS:
            assert await cluster.drivers[0].put(name, "k", name.encode()) is None
        copies = await copies_of(cluster.engines[0].client, SHARD)
        ids = [peer_id(name_of(engine)) for engine in cluster.engines]
        cut_off = ids.index(copies.leader)
        lost = [ids.index(peer) for peer in copies.servers - {copies.leader}]
        assert await cluster.drivers[cut_off].offer(HELD, b"item") is True
        held = await taken(cluster.drivers[cut_off], HELD)
        cluster.isolate(cut_off)
        async with emptied(cluster, tmp_path, *lost) as starts:
            told = (until_told_who_is_missing(cluster, number, cut_off) for number in lost)
            await asyncio.gather(nobody_shows(cluster, IN_SHARD), *told)
            cluster.heal()
            names = [f"m{number}" for number in lost]
            await until_told(cluster.engines[cut_off], SHARD, *names, "partialStart")
            await nobody_shows(cluster, IN_SHARD)
            assert not any(start.done() for start in starts)
            asked = cluster.engines[lost[0]]
            # A log may have had a leader for a moment when the line was mended.
            await until(lambda: asked.waiting is not None, STEP_S)
            await asked.rescue(wipe=False)
            await asyncio.wait_for(asyncio.gather(*starts), STEP_S)
        for driver in cluster.drivers:
            for name in MAPS:
                assert await driver.value(name, "k") == name.encode()
        cluster.engines[cut_off].queue_return(held)
        assert await cluster.drivers[lost[0]].take(HELD, STEP_S) == b"item"


async def nobody_shows(cluster: Cluster, name: str) -> None:
    """See that each member says it does not know what is in a map."""
    seen = await asyncio.gather(*(driver.get(name, "k") for driver in cluster.drivers))
    assert [isinstance(one, Refused) for one in seen] == [True] * SIZE
