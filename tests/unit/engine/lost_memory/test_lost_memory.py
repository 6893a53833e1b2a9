"""Servers that end and lose what they had in memory, while the members that hold it all live.

With GRID_SOAK_SECONDS one server is killed every two seconds for so long.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine.api import Refused
from grid_member.engine.lost_memory import own_copies
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.cluster.faults import EngineClient, kill_servers, server_of
from tests.unit.engine.cluster.load import MAPS, Load, told
from tests.unit.engine.drive import condition
from tests.unit.engine.replicated.faults.test_faults import SOAK_S, answered, filled

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_S: Final = 2.0
"""Faster than a copy is made again after the leader ended: an election takes 4 to 9 s."""
KILLS: Final = 7
HEALED_S: Final = 120.0
pytestmark = pytest.mark.timeout(240 + 2 * SOAK_S)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cluster.load", "replicated.faults.test_faults"):
        monkeypatch.setattr(f"tests.unit.engine.{module}.PATIENCE_S", HEALED_S)


async def test_what_members_hold_is_there_after_all_servers_died_at_once() -> None:
    async with Cluster(3) as cluster:
        client = EngineClient(cluster)
        names = await filled(client)
        await kill_servers(cluster, 0, 1, 2)
        for name, key in names:
            for member in range(cluster.size):
                assert await answered(client.get, member, name, key) == "before"
        await cluster.engines[0].stop()
        await cluster.restart(0)  # which knows nothing but what the servers have
        for name, key in names:
            assert await answered(client.get, 0, name, key) == "before"


async def test_nothing_is_lost_doubled_or_stale_when_all_servers_die_at_once_under_load() -> None:
    async with Cluster(3) as cluster, Load(EngineClient(cluster), cluster.size) as load:
        await load.progress()
        for _ in range(2):
            await kill_servers(cluster, 0, 1, 2)
            await load.progress()
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


async def test_what_a_member_out_of_sight_may_hold_is_waited_for_by_name() -> None:
    async with Cluster(3) as cluster:
        client = EngineClient(cluster)
        assert await client.put(2, MAPS[0], "k", "before")
        cluster.isolate(2)
        await answered(client.put, 0, MAPS[0], "later", "before")
        await kill_servers(cluster, 0, 1)

        def named() -> bool:
            told = cluster.engines[0].replication().trouble
            return told is not None and "m2" in told and "in its place" in told

        await condition(named, HEALED_S)
        assert isinstance(await cluster.drivers[0].get(MAPS[0], "k"), Refused)
        assert isinstance(await cluster.drivers[1].put(MAPS[0], "k", b"after"), Refused)
        cluster.heal()
        for member in range(cluster.size):
            assert await answered(client.get, member, MAPS[0], "k") == "before"
            assert await answered(client.get, member, MAPS[0], "later") == "before"


@pytest.mark.parametrize(
    ("ended", "killed"),
    [((1,), (0, 2)), ((1, 2), (0,)), ((1, 2), ())],
    ids=["one", "all-but-one", "all-but-one-whose-server-lives"],
)
async def test_members_that_live_write_back_what_they_hold_when_others_end_with_the_servers(
    ended: tuple[int, ...], killed: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_copies, "LEADERLESS_S", 4.0)
    names = [(name, f"k{number}") for name in MAPS for number in range(20)]
    async with Cluster(3) as cluster:
        client = EngineClient(cluster)
        for name, key in names:
            assert await client.put(1, name, key, "before")
        for name in MAPS:
            assert await client.get(0, name, "k0") == "before"  # so it has all that was answered
        await asyncio.gather(*(cluster.engines[member].stop() for member in ended))
        await kill_servers(cluster, *killed)
        await asyncio.gather(*map(cluster.restart, ended))
        for member in range(cluster.size):
            for name, key in names:
                assert await answered(client.get, member, name, key) == "before"
        assert await answered(client.put, 0, MAPS[0], "k0", "after")


def victims(dice: random.Random) -> Iterator[int]:
    """Give whose server is killed next: each in turn, in another order every time."""
    begun_s = time.monotonic()
    for number in itertools.count():
        if number * 3 >= KILLS and time.monotonic() - begun_s >= SOAK_S:
            return
        yield from dice.sample(range(3), 3)


async def test_nothing_is_lost_doubled_or_stale_when_servers_die_one_after_the_other() -> None:
    async with Cluster(3) as cluster, Load(EngineClient(cluster), cluster.size) as load:
        await load.progress()
        next_s = time.monotonic()
        for member in victims(random.Random(int(os.environ.get("GRID_SEED", "7")))):
            pid = server_of(cluster, member).process_id
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            next_s += EVERY_S
            await asyncio.sleep(next_s - time.monotonic())
        await load.progress()
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)
