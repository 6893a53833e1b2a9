"""Groups of servers are on exactly the servers that they are to be on, whoever is there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.admin.streams import ask
from grid_member.engine.nats.client.errors import NatsError
from tests.unit.engine.cluster.clusters import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.nats.admin.groups import ServerGroup, ServerGroups

PATIENCE_S = 40.0
pytestmark = pytest.mark.timeout(180)
GROUPS = ("cp-a", "cp-b", "cp-c")


async def brought(groups: ServerGroups, stream: str, servers: Iterable[str]) -> ServerGroup:
    """Go on until the group is on the servers."""
    wanted = frozenset(servers)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if await groups.step(stream, wanted):
                    break
            except NatsError:
                pass  # nobody leads the servers yet
            await asyncio.sleep(0.1)
    found = await groups.group(stream)
    assert found is not None
    assert found.servers == wanted
    assert found.leader in wanted
    return found


async def test_a_group_is_where_it_is_to_be() -> None:
    async with Cluster(4) as cluster:
        groups = cluster.engines[0].groups()
        first, *others = [peer_id(engine.server_name or "") for engine in cluster.engines]
        assert (await groups.meta()).servers == {first, *others}
        assert await groups.group("cp-a") is None
        await asyncio.gather(*(brought(groups, name, others) for name in GROUPS))
        moved = await brought(groups, "cp-a", [first, *others[1:]])
        assert moved.current == moved.servers
        await brought(groups, "cp-a", [first, others[0]])
        back = await brought(groups, "cp-a", others)
        # Where it is is no rule for servers that leave.
        info = await ask(cluster.engines[0].client, "STREAM.INFO.cp-a")
        assert "placement" not in info["config"]
        cluster.isolate(3)
        # What is taken off is the one that is away; with another one a group had no majority.
        kept = await asyncio.gather(*(brought(groups, name, others[:2]) for name in GROUPS))
        assert all(found.current == set(others[:2]) for found in kept)
        assert (kept[0].log_index or 0) > (back.log_index or 0)
        await brought(groups, "cp-a", [first, *others[:2]])
        for _ in range(2):
            assert await groups.remove("cp-b")
        assert await groups.group("cp-b") is None
