"""A member that stops hands over what its server leads: nobody waits for an election then."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.nats.admin.peers import meta_cluster
from grid_member.engine.nats.admin.streams import all_copies, ask_successfully
from grid_member.engine.nats.client.errors import NatsError
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 3
ASK_AGAIN_S = 0.3
"""A question that is put while leaders change is lost."""
ELECTION_S = 3.9
"""A server that hears of no leader waits for 4 s at least until it wants to be elected."""


async def leaders(cluster: Cluster, asked: int) -> dict[str, str]:
    """Return who leads each stream, and the servers, as far as a member is told soon."""
    engine = cluster.engines[asked]
    found = {}
    with contextlib.suppress(NatsError, TimeoutError):
        async with asyncio.timeout(ASK_AGAIN_S):
            found[""] = str((await meta_cluster(engine._cluster.system))["leader"])
    for stream in engine._cluster.streams:
        with contextlib.suppress(NatsError, KeyError):
            call = f"STREAM.INFO.{stream.name}"
            info = await ask_successfully(engine.client, call, timeout_s=ASK_AGAIN_S)
            found[stream.name] = str(info["cluster"]["leader"])
    return found


async def whole(cluster: Cluster) -> bool:
    streams = [stream.name for stream in cluster.engines[0]._cluster.streams]
    copies = (await all_copies(cluster.engines[0].client, streams)).values()
    return all(len(one.current) == SIZE and not one.moving for one in copies)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
async def test_what_a_member_led_has_another_leader_when_it_has_stopped(
    durable: bool, tmp_path: Path
) -> None:
    async with Cluster(SIZE, tmp_path if durable else None) as cluster:
        await eventually(lambda: whole(cluster))
        before = await leaders(cluster, 0)
        assert len(before) == 1 + len(cluster.engines[0]._cluster.streams)
        (busiest, _), *_ = Counter(before.values()).most_common()
        names = [engine.server_name for engine in cluster.engines]
        stopped = names.index(busiest)

        await cluster.engines[stopped].stop()

        async def all_are_led() -> bool:
            after = await leaders(cluster, (stopped + 1) % SIZE)
            return after.keys() == before.keys() and busiest not in after.values()

        await eventually(all_are_led, ELECTION_S)
