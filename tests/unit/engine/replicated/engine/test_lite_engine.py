"""A member that holds no data: it serves everything, whatever befalls those that do."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, EngineError, Entry, Item, Reason, Refused
from grid_member.engine.local.engine import LocalEngine
from grid_member.engine.replicated.part_engine import PartEngine
from grid_member.engine.shard.answers import FAILED
from tests.unit.engine.cleaned import compact_always
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
    from pathlib import Path

    from grid_member.engine.shard.shard import Shard

LITE = 3
OF_DATA = (0, 1, 2)
LONG_S = 600.0
PATIENCE_S = 30.0
pytestmark = pytest.mark.timeout(180)


def lite_of(cluster: Cluster) -> PartEngine:
    engine = cluster.engines[LITE]
    assert isinstance(engine, PartEngine)
    return engine


async def host_of(cluster: Cluster) -> int:
    """Return the member that the lite one asks, once there is one."""
    await condition(lambda: in_contact(cluster), PATIENCE_S)
    forwarding = lite_of(cluster)._forward_client
    assert forwarding is not None
    found = [member for member, host in forwarding._servers.items() if host is forwarding._server]
    return [uuid.UUID(one.member_uuid).bytes for one in cluster.engines].index(found[0])


def in_contact(cluster: Cluster) -> bool:
    return lite_of(cluster).in_contact


def holds_data(shard: Shard) -> bool:
    state = shard.state
    return bool(state.maps.by_name or state.queues.by_name or state.maps.live_bytes
                or state.queues.live_bytes)  # fmt: skip


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
async def test_a_lite_member_serves_what_it_does_not_hold(
    durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact_always(monkeypatch)
    async with Cluster(4, tmp_path if durable else None, lite=(LITE,)) as cluster:
        drivers, lite = cluster.drivers, cluster.drivers[LITE]
        for name in MAPS:
            puts = (lite.put(name, f"k{number}", b"x" * 1000) for number in range(200))
            assert set(await asyncio.gather(*puts)) == {None}
            assert await drivers[0].put(name, "other", b"o", "text/plain") is None
            assert await lite.get(name, "other") == Entry(b"o", "text/plain")
            assert await drivers[1].value(name, "k7") == b"x" * 1000
        for name in QUEUES:
            assert await lite.offer(name, b"1") is True
            assert await drivers[2].offer(name, b"2") is True
            assert await lite.size(name) == 2
            assert [await lite.take(name), await drivers[0].take(name)] == [b"1", b"2"]
            assert await drivers[0].offer(name, b"stays") is True
        assert await lite.system("key", b"value") is None
        for _ in range(2):
            engine = lite_of(cluster)
            assert [holds_data(shard) for shard in engine.shards] == [False]
            assert engine.system_get("key") == b"value"
            assert engine.structure_usage() == []
            told = await engine.cluster_usage()
            assert not isinstance(told, Refused)
            assert sorted(told) == sorted(cluster.engines[0].structure_usage())
            await engine.stop()
            await cluster.restart(LITE)  # which reads a snapshot of everything
        with pytest.raises(EngineError, match="lite"):
            await lite_of(cluster).moment()
        await the_state_is_everywhere(cluster)


async def the_state_is_everywhere(cluster: Cluster) -> None:
    """Change the cluster state over the lite member."""
    lite = cluster.drivers[LITE]
    waiting = asyncio.ensure_future(lite.poll("empty", LONG_S))
    assert await lite.change_state(ClusterState.PASSIVE) is True
    for number in OF_DATA:
        assert await cluster.engines[number].current()
        states = {shard.state.cluster_state for shard in cluster.engines[number].shards}
        assert states == {ClusterState.PASSIVE}
    for refused in (await lite.put("m", "k", b"v"), await asyncio.wait_for(waiting, PATIENCE_S)):
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.PASSIVE
    assert await lite.change_state(ClusterState.ACTIVE) is True
    assert await lite.put("m", "k", b"v") is None


async def test_polls_wait_and_items_return_over_a_lite_member() -> None:
    async with Cluster(4, lite=(LITE,)) as cluster:
        lite, other = cluster.drivers[LITE], cluster.drivers[0]
        waiting = [asyncio.ensure_future(lite.poll("q", LONG_S)) for _ in range(3)]
        forward_server = cluster.engines[await host_of(cluster)]
        await condition(lambda: bool(forward_server._polls))
        for value in (b"1", b"2"):
            assert await other.offer("q", value) is True
        first, second = [await asyncio.wait_for(one, PATIENCE_S) for one in waiting[:2]]
        assert isinstance(first, Item)
        assert isinstance(second, Item)
        lite.engine.queue_return(second)
        third = await asyncio.wait_for(waiting[2], PATIENCE_S)
        assert isinstance(third, Item)
        assert third.value == b"2"
        lite.engine.queue_confirm(first)
        last = asyncio.ensure_future(lite.poll("q", LONG_S))
        # Its host stops: it waits on at another one, and what is out is landed before.
        stopping = asyncio.ensure_future(forward_server.stop())
        lite.engine.queue_return(third)
        again = await asyncio.wait_for(last, PATIENCE_S)
        assert isinstance(again, Item)
        assert again.value == b"2"
        await stopping
        # It ends, and what it has goes back at once.
        await asyncio.wait_for(lite.engine.stop(), PATIENCE_S)
        left = cluster.drivers[next(n for n in OF_DATA if cluster.engines[n] is not forward_server)]
        assert await asyncio.wait_for(left.take("q", LONG_S), PATIENCE_S) == b"2"


async def test_a_cut_is_taken_while_a_lite_member_writes() -> None:
    async with Cluster(4, lite=(LITE,)) as cluster:
        lite = cluster.drivers[LITE]
        answered: dict[str, int] = {}
        ended = False

        async def write(name: str) -> None:
            number = 0
            while not ended:
                number += 1
                assert await lite.put(name, "k", b"%d" % number) is None
                assert await lite.system(f"of/{name}", b"%d" % number) is None
                answered[name] = number

        writers = [asyncio.ensure_future(write(name)) for name in MAPS]
        await condition(lambda: len(answered) == len(MAPS))
        for _ in range(5):
            before = dict(answered)
            (snapshot,) = await cluster.engines[0].moment()
            for name in MAPS:
                stored = snapshot.maps[name].entries["k"]
                noted = snapshot.system[f"of/{name}"][0]
                assert isinstance(stored, bytes)
                # Whoever has the note has what it is about.
                assert before[name] <= int(noted) <= int(stored)
        ended = True
        await asyncio.gather(*writers)


async def test_nothing_is_lost_doubled_or_stale_over_a_lite_member(tmp_path: Path) -> None:
    async with (
        Cluster(4, lite=(LITE,)) as cluster,
        Load(EngineClient(cluster), cluster.size) as load,
    ):
        await load.progress()
        await kill_servers(cluster, await host_of(cluster))
        await load.progress()
        await servers_settled(cluster)
        frozen = await host_of(cluster)
        with stopped_server(cluster, frozen):
            await load.progress(*others_of(frozen))
        await load.progress()
        cut_off = await host_of(cluster)
        cluster.isolate(cut_off)
        await load.progress(*others_of(cut_off))
        cluster.heal()
        await load.progress()
        cluster.isolate(LITE)
        await condition(lambda: not in_contact(cluster))
        await load.progress(*OF_DATA)
        cluster.heal()
        await load.progress()
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


def others_of(member: int) -> list[int]:
    return [other for other in range(LITE + 1) if other != member]


async def test_a_read_that_fails_behind_its_barrier_is_told_on_all_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a failure")

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with Cluster(4, lite=(LITE,)) as cluster:
        await host_of(cluster)
        monkeypatch.setattr(LocalEngine, "map_read", fail)
        monkeypatch.setattr(LocalEngine, "queue_size", fail)
        for driver in cluster.drivers[LITE], cluster.drivers[0]:
            reads = asyncio.gather(driver.get("m", "k"), driver.size("q"))
            assert set(await asyncio.wait_for(reads, PATIENCE_S)) == {FAILED}
