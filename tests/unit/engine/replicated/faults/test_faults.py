"""Servers that die, freeze and lose sight of each other while clients use every member.

With GRID_SOAK_SECONDS faults go on, longer ones and in any order, for so many seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias, TypeVar

import pytest

from grid_member.engine.nats.client.errors import NatsError
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.cluster.faults import (
    EngineClient,
    kill_servers,
    meta_leader,
    servers_settled,
    stopped_server,
)
from tests.unit.engine.cluster.load import MAPS, PATIENCE_S, Load, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOAK_S: Final = float(os.environ.get("GRID_SOAK_SECONDS", "0"))
SHORT_S: Final = 3.0
LONG_S: Final = 15.0
log: Final = logging.getLogger(__name__)
T = TypeVar("T")
P = ParamSpec("P")
pytestmark = pytest.mark.timeout(120 + 2 * SOAK_S)

Fault: TypeAlias = Callable[[Cluster, Load, int, float], Awaitable[None]]
"""Befalls the member for some seconds."""


async def dies(cluster: Cluster, load: Load, member: int, seconds: float) -> None:
    """Its server is killed and started again."""
    await kill_servers(cluster, member)
    await load.progress(*others_of(cluster, member))


async def freezes(cluster: Cluster, load: Load, member: int, seconds: float) -> None:
    """Its server stands still and goes on as if nothing had been."""
    await servers_settled(cluster)
    with stopped_server(cluster, member) as begun_s:
        await load.progress(*others_of(cluster, member))
        await asyncio.sleep(begun_s + seconds - time.monotonic())


async def is_cut_off(cluster: Cluster, load: Load, member: int, seconds: float) -> None:
    """Its server sees none of the others."""
    await servers_settled(cluster)
    begun_s = time.monotonic()
    cluster.isolate(member)
    await load.progress(*others_of(cluster, member))
    await asyncio.sleep(begun_s + seconds - time.monotonic())
    cluster.heal()


async def loses_a_line(cluster: Cluster, load: Load, member: int, seconds: float) -> None:
    """Its server sees one of the others only."""
    await servers_settled(cluster)
    begun_s = time.monotonic()
    cluster.part(member, others_of(cluster, member)[0])
    await load.progress(others_of(cluster, member)[1])
    await asyncio.sleep(begun_s + seconds - time.monotonic())
    cluster.heal()


def others_of(cluster: Cluster, member: int) -> list[int]:
    return [other for other in range(cluster.size) if other != member]


async def elected(look: Callable[[], Awaitable[int]]) -> int:
    """Look until there is a leader: for a moment after a fault there may be none."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(KeyError, ValueError, NatsError):
                return await look()
            await asyncio.sleep(0.05)


async def leader(cluster: Cluster) -> int:
    return await elected(lambda: cluster.leader_of(MAPS[0]))


async def follower(cluster: Cluster) -> int:
    return others_of(cluster, await leader(cluster))[-1]


async def leader_of_servers(cluster: Cluster) -> int:
    return await elected(lambda: asyncio.to_thread(meta_leader, cluster))


ROLES = [leader, follower, leader_of_servers]
FAULTS: list[Fault] = [dies, freezes, is_cut_off, loses_a_line]
SCRIPTS: dict[bool, list[tuple[Fault, Callable[[Cluster], Awaitable[int]]]]] = {
    False: [(dies, leader), (freezes, leader_of_servers), (is_cut_off, follower)],
    True: [(freezes, leader), (loses_a_line, leader), (dies, follower)],
}


def plan(
    durable: bool,
) -> Iterator[tuple[Fault, Callable[[Cluster], Awaitable[int]], float]]:
    """Give what befalls whom for how long."""
    for fault, role in SCRIPTS[durable]:
        yield fault, role, SHORT_S
    dice, begun_s = random.Random(), time.monotonic()
    while time.monotonic() - begun_s < SOAK_S:
        yield dice.choice(FAULTS), dice.choice(ROLES), dice.choice([0.5, SHORT_S, LONG_S])


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
async def test_nothing_is_lost_doubled_or_stale_whatever_befalls_servers(
    durable: bool, tmp_path: Path
) -> None:
    async with (
        Cluster(3, tmp_path if durable else None) as cluster,
        Load(EngineClient(cluster), cluster.size) as load,
    ):
        await load.progress()
        for fault, role, seconds in plan(durable):
            member = await role(cluster)
            # Shown by a failure between the warnings of members, which it explains.
            log.warning("m%d, the %s, %s for %s s", member, role.__name__, fault.__name__, seconds)
            await fault(cluster, load, member, seconds)
            await load.progress()
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


async def test_members_agree_after_every_server_lost_what_it_had_in_memory() -> None:
    async with Cluster(3) as cluster:
        client = EngineClient(cluster)
        names = await filled(client)
        await kill_servers(cluster, 0, 1, 2)
        for member in range(cluster.size):
            for name in MAPS:
                await answered(client.put, member, name, "k0", f"after {member}")
        await cluster.engines[0].stop()
        await cluster.restart(0)  # which knows nothing but what the servers have
        for name, key in names:
            seen = [await answered(client.get, member, name, key) for member in range(3)]
            assert seen == [seen[0]] * cluster.size, (name, key)
            if key == "k0":
                assert seen[0] == "after 2"


async def filled(client: EngineClient) -> list[tuple[str, str]]:
    """Put `before` under forty keys of each map; return map and key of each."""
    names = [(name, f"k{number}") for name in MAPS for number in range(40)]
    for name, key in names:
        assert await client.put(0, name, key, "before")
    return names


async def answered(call: Callable[P, Awaitable[T | None]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call until there is an answer."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await call(*args, **kwargs)
            if answer is not None:
                return answer
            await asyncio.sleep(0.05)
