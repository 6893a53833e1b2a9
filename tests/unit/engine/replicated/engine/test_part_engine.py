"""More than five members: who has no place holds a part of the data, and serves all of it."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, EngineError, Entry, Item, Reason, Refused
from grid_member.engine.cluster_settings import MAX_FULL_REPLICAS
from grid_member.engine.forward import client
from grid_member.engine.io.ending import STOPPING
from grid_member.engine.jetstream.log import JetStreamLog
from grid_member.engine.local import deliveries
from grid_member.engine.replicated import full_replicas
from grid_member.engine.replicated.full_replicas import SEAT_PREFIX
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.replicated.replicated_shards import CLUSTER_SHARDS
from grid_member.engine.state.sharding import shard_of
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.cluster.faults import (
    EngineClient,
    kill_servers,
    servers_settled,
    stopped_server,
)
from tests.unit.engine.cluster.load import MAPS, QUEUES, Load, told
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from grid_member.engine.state.operations import Committed
    from grid_member.engine.state.snapshot import Part

SIZE = 6
LONG_S = 600.0
PATIENCE_S = 30.0
pytestmark = pytest.mark.timeout(180)


def engines_of(cluster: Cluster) -> list[PartEngine]:
    found = [engine for engine in cluster.engines if isinstance(engine, PartEngine)]
    assert len(found) == cluster.size
    return found


def holders_of(cluster: Cluster) -> list[int]:
    engines = engines_of(cluster)
    return [number for number, engine in enumerate(engines) if engine._cluster.whole]


def part_of(cluster: Cluster) -> int:
    """Return the one member that holds a part."""
    (found,) = set(range(cluster.size)) - set(holders_of(cluster))
    return found


def known(engine: PartEngine) -> set[str]:
    """Return the structures that are in the member's memory."""
    return {name for _, name in engine.held_structures()}


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
async def test_the_sixth_member_serves_what_it_does_not_hold(durable: bool, tmp_path: Path) -> None:
    async with Cluster(SIZE, tmp_path if durable else None) as cluster:
        assert len(holders_of(cluster)) == MAX_FULL_REPLICAS
        number = part_of(cluster)
        engine, part = engines_of(cluster)[number], cluster.drivers[number]
        other = cluster.drivers[holders_of(cluster)[0]]
        await condition(lambda: engine.in_contact, PATIENCE_S)
        for name in MAPS:
            assert await part.put(name, "k", b"v") is None
            assert await other.put(name, "other", b"o", "text/plain") is None
            assert await part.get(name, "other") == Entry(b"o", "text/plain")
            assert await other.value(name, "k") == b"v"
        for name in QUEUES:
            assert await part.offer(name, b"1") is True
            assert await other.offer(name, b"2") is True
            assert await part.size(name) == 2
            assert [await part.take(name), await other.take(name)] == [b"1", b"2"]
        first = {name for name in MAPS if cluster.shard_of(name) == 0}
        assert known(engine) & set(MAPS) == first
        assert known(engines_of(cluster)[holders_of(cluster)[0]]) >= set(MAPS)
        usage = await engine.cluster_usage()
        assert not isinstance(usage, Refused)
        assert {one.name for one in usage} >= set(MAPS)
        await the_backup_is_whole(cluster)
        assert known(engine) & set(MAPS) == first
        await the_state_is_everywhere(cluster)


async def the_backup_is_whole(cluster: Cluster) -> None:
    """Have the member make a backup that holds a part of the data."""
    number = part_of(cluster)
    engine = engines_of(cluster)[number]
    before = len(engine.client._subscriptions)
    (snapshot,) = await engine.moment()
    # Of what was read for it nothing is left; a question may be under way at either moment.
    await condition(lambda: len(engine.client._subscriptions) <= before, PATIENCE_S)
    for name in MAPS:
        assert snapshot.maps[name].entries["k"] == b"v"
    # What was read for it is given up, and what is answered meanwhile and later is not held.
    assert number not in holders_of(cluster)
    assert engine._cluster.damage.watermarks._read.keys() <= {"shard-0"}
    for name in MAPS:
        assert await cluster.drivers[number].put(name, "k", b"later") is None
        assert snapshot.maps[name].entries["k"] == b"v"


async def the_state_is_everywhere(cluster: Cluster) -> None:
    """Change the cluster state over the member that holds a part of the data."""
    number = part_of(cluster)
    part, engine = cluster.drivers[number], cluster.engines[number]
    waiting = asyncio.ensure_future(asyncio.wait_for(part.poll(QUEUES[1], LONG_S), PATIENCE_S))
    assert await part.change_state(ClusterState.PASSIVE) is True
    for other in holders_of(cluster):
        shards = engines_of(cluster)[other]._cluster.replicated_shards
        for shard in shards:
            await engines_of(cluster)[other]._catch_up(shard)
        states = {shard.state.cluster_state for shard in shards}
        assert states == {ClusterState.PASSIVE}
    await condition(lambda: engine.agreed, PATIENCE_S)
    for name in MAPS:
        refused = await part.put(name, "k", b"v")
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.PASSIVE
    told_passive = await waiting
    assert isinstance(told_passive, Refused)
    assert told_passive.reason is Reason.PASSIVE
    assert await part.change_state(ClusterState.ACTIVE) is True
    assert await part.put(MAPS[1], "k", b"v") is None


async def test_a_cut_has_what_a_member_that_holds_a_part_was_answered() -> None:
    async with Cluster(SIZE) as cluster:
        number = part_of(cluster)
        engine, part = engines_of(cluster)[number], cluster.drivers[number]
        await condition(lambda: engine.in_contact, PATIENCE_S)
        answered = 0
        ended = False

        async def write() -> None:
            nonlocal answered
            for value in range(1, 1_000_000):
                for name in MAPS:
                    assert await part.put(name, "k", b"%d" % value) is None
                answered = value
                if ended:
                    return

        writer = asyncio.ensure_future(write())
        await condition(lambda: answered > 0)
        for taker in (number, holders_of(cluster)[0]) * 3:
            before = answered
            (snapshot,) = await cluster.engines[taker].moment()
            values = [snapshot.maps[name].entries["k"] for name in MAPS]
            numbers = [int(value) for value in values if isinstance(value, bytes)]
            # Each was written when the one before it had been answered.
            assert len(numbers) == len(MAPS)
            assert numbers[0] >= numbers[1] >= numbers[2] >= max(before, numbers[0] - 1)
        ended = True
        await writer


async def test_who_gets_a_place_holds_everything_and_serves_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_replicas, "FREE_SEAT_S", 0.0)
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)
    monkeypatch.setattr(client, "FORGET_S", 10.0)
    queue = next(name for name in ("w", "x", "y", "z") if shard_of(name, CLUSTER_SHARDS) > 0)
    async with Cluster(SIZE, tmp_path) as cluster:
        former, leaving = part_of(cluster), holders_of(cluster)[0]
        engine, part = engines_of(cluster)[former], cluster.drivers[former]
        left = cluster.engines[leaving]
        await condition(lambda: engine.in_contact, PATIENCE_S)
        assert await part.offer(queue, b"taken") is True
        assert await part.offer(queue, b"kept") is True
        assert isinstance(await cluster.drivers[leaving].poll(queue), Item)
        item = await part.poll(queue)
        assert isinstance(item, Item)
        empty = next(name for name in ("e", "f", "g", "h") if shard_of(name, CLUSTER_SHARDS) > 0)
        waiting = asyncio.ensure_future(part.poll(empty, LONG_S))
        async with Load(EngineClient(cluster), SIZE) as load:
            await load.progress()
            await left.stop()
            others = [number for number in range(SIZE) if number != leaving]
            await condition(lambda: former in holders_of(cluster), PATIENCE_S)
            await load.progress(*others)
            assert leaving not in await places_of(cluster, former)
            # It comes back to five that hold everything; what it had in flight goes back.
            await cluster.restart(leaving)
            assert part_of(cluster) == leaving
            await condition(lambda: cluster.engines[leaving].in_contact, PATIENCE_S)
            assert await asyncio.wait_for(part.take(queue, LONG_S), PATIENCE_S) == b"taken"
            engine.queue_return(item)
            assert await asyncio.wait_for(part.take(queue, LONG_S), PATIENCE_S) == b"kept"
            assert await part.offer(empty, b"come") is True
            found = await asyncio.wait_for(waiting, PATIENCE_S)
            assert isinstance(found, Item)
            engine.queue_confirm(found)
            await condition(lambda: engine._forward_client is None, PATIENCE_S)
            await load.progress()
            history = await load.drained()
        faults = history.faults()
        assert not faults, told(faults)


async def test_nothing_is_lost_doubled_or_stale_over_a_part(tmp_path: Path) -> None:
    async with Cluster(SIZE) as cluster:
        part = part_of(cluster)
        engine = engines_of(cluster)[part]
        async with Load(EngineClient(cluster), SIZE) as load:
            await load.progress()
            await kill_servers(cluster, await holder_asked_by(cluster, engine))
            await load.progress()
            await servers_settled(cluster)
            frozen = await holder_asked_by(cluster, engine)
            with stopped_server(cluster, frozen):
                await load.progress(*others_of(frozen))
            await load.progress()
            cut_off = await holder_asked_by(cluster, engine)
            cluster.isolate(cut_off)
            await load.progress(*others_of(cut_off))
            cluster.heal()
            await load.progress()
            cluster.isolate(part)
            await condition(lambda: not engine.in_contact, PATIENCE_S)
            await load.progress(*others_of(part))
            cluster.heal()
            await load.progress()
            history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


@pytest.mark.parametrize("ends", ["with the member", "with the backup"])
async def test_a_stop_waits_for_no_shard_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    # Or the member without one may take the place that is left, and read for good in its stead.
    monkeypatch.setattr(full_replicas, "FREE_SEAT_S", LONG_S)
    reading, left, enough = threading.Event(), threading.Event(), threading.Event()
    replay = JetStreamLog.replay

    def endless(log: JetStreamLog) -> Iterator[Committed | Sequence[Part]]:
        if log.shard in {0, CLUSTER_SHARDS}:
            yield from replay(log)
            return
        reading.set()
        try:
            while not enough.is_set():
                yield ()
        finally:
            left.set()

    async with Cluster(SIZE, tmp_path) as cluster:
        number, other = part_of(cluster), holders_of(cluster)[0]
        if ends == "with the member":
            number, other = other, holders_of(cluster)[1]
            await cluster.engines[number].stop()
            cluster.engines[number] = cluster.made(number)
        engine = engines_of(cluster)[number]
        monkeypatch.setattr(JetStreamLog, "replay", endless)
        begin = engine.start() if ends == "with the member" else engine.moment()
        begun = asyncio.ensure_future(begin)
        try:
            await condition(reading.is_set, PATIENCE_S)
            engine.end_waiting()
            with pytest.raises(EngineError, match=STOPPING):
                await asyncio.wait_for(begun, PATIENCE_S)
            await condition(left.is_set, PATIENCE_S)  # which the process would wait for
            await asyncio.wait_for(engine.stop(), PATIENCE_S)
        finally:
            enough.set()
        assert number not in await places_of(cluster, other)


async def places_of(cluster: Cluster, seen_by: int) -> list[int]:
    """Return the members that have places, by what one of them knows."""
    engine = cluster.engines[seen_by]
    assert await engine.current()
    uuids = [one.member_uuid for one in cluster.engines]
    return [
        uuids.index(key.removeprefix(SEAT_PREFIX)) for key, _ in engine.system_items(SEAT_PREFIX)
    ]


async def holder_asked_by(cluster: Cluster, engine: PartEngine) -> int:
    """Return the member that another one asks, once there is one."""
    await condition(lambda: engine.in_contact, PATIENCE_S)
    asking = engine._forward_client
    assert asking is not None
    found = [member for member, host in asking._servers.items() if host is asking._server]
    return [uuid.UUID(one.member_uuid).bytes for one in cluster.engines].index(found[0])


def others_of(member: int) -> list[int]:
    return [other for other in range(SIZE) if other != member]
