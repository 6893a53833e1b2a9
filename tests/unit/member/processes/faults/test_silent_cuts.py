"""A member is cut off and nobody says so: packets vanish, connections stay."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.unit.engine.cluster.load import Load, told
from tests.unit.member.processes.namespaces import Apart, Network, needs_namespaces
from tests.unit.member.processes.processes import HttpClient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.processes.processes import Members

pytestmark = pytest.mark.timeout(300)


async def refused(members: Members, number: int) -> tuple[int, str]:
    """Return the status and the reason of a write to a member."""
    url = f"http://{members.host(number)}:{members.rest_ports[number]}/grid/rest/maps/a/refused"
    async with aiohttp.ClientSession() as session, session.post(url, data="v") as answer:
        return answer.status, answer.headers.get("X-Grid-Error", "")


@needs_namespaces
async def test_nothing_is_lost_doubled_or_stale_when_packets_vanish(tmp_path: Path) -> None:
    with Network(3) as network:
        async with (
            Apart(tmp_path, network) as members,
            HttpClient(members) as client,
            Load(client, members.size) as load,
        ):
            for victim in random.sample(range(3), 3):  # so leaders, too
                await load.progress()
                others = [number for number in range(3) if number != victim]
                begun_s = time.monotonic()
                await asyncio.to_thread(network.cut, victim)
                await load.refusal(victim)
                await load.progress(*others)
                status, reason = await refused(members, victim)
                assert (status, "no quorum of members" in reason) == (503, True)
                assert not await client.healthy(victim, "ready")
                await asyncio.to_thread(network.heal, victim)
                await load.progress()
                load.crashed(victim, begun_s)
            history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)
