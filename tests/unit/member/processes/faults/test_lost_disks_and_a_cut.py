"""Two of five processes lose their disks while the one with an item in flight is cut off.

For `make soak`; CI has the same in one process, where nobody has a lease that runs out
(tests/unit/engine/replicated/faults/test_lost_disks.py).
"""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from tests.unit.engine.cluster.load import Load, told
from tests.unit.member.processes.faults.test_processes import LARGE, SOAK_S, held_item, safe, taken
from tests.unit.member.processes.namespaces import Apart, Network, needs_namespaces
from tests.unit.member.processes.processes import HttpClient
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.processes.processes import Members

SIZE: Final = 5
LOST: Final = (0, 1)
LEFT: Final = (2, 3)
CUT_OFF: Final = 4
SOME: Final = 5
PATIENCE_S: Final = 120.0
pytestmark = pytest.mark.timeout(600)


async def waits_for_a_majority(members: Members, number: int) -> bool:
    """Return whether a member that starts says so to whoever asks."""
    url = f"http://{members.host(number)}:{members.rest_ports[number]}/grid/health/ready"
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            reason = reply.headers.get("X-Grid-Error", "")
    except aiohttp.ClientError:
        return False
    return reply.status == 503 and reason.startswith(
        "no majority of the members that hold the data"
    )


if SOAK_S:

    @needs_namespaces
    async def test_what_was_answered_and_what_was_in_flight_is_there_once_the_cut_is_healed(
        tmp_path: Path,
    ) -> None:
        with Network(SIZE) as network:
            async with (
                Apart(tmp_path, network, size=SIZE, backup_count=2) as members,
                HttpClient(members) as client,
            ):
                await safe(client)
                assert await client.offer(LEFT[0], "large", LARGE)
                async with Load(client, SIZE) as load:
                    await load.progress(count=SOME)
                    with await asyncio.to_thread(held_item, members, CUT_OFF, "large"):
                        begun_s = time.monotonic()
                        await asyncio.to_thread(network.cut, CUT_OFF)
                        await load.progress(*LOST, *LEFT, count=SOME)
                        await members.kill(*LOST)
                        for number in LOST:
                            shutil.rmtree(tmp_path / f"m{number}" / "data")
                            members.start(number)
                        for number in (*LEFT, CUT_OFF):
                            await load.refusal(number)
                        for number in LOST:
                            await eventually(
                                lambda number=number: waits_for_a_majority(members, number),  # type: ignore[misc]
                                PATIENCE_S,
                            )
                        await asyncio.to_thread(network.heal, CUT_OFF)
                        await asyncio.gather(*map(members.ready, LOST))
                        await load.progress(count=SOME)
                        for number in range(SIZE):
                            load.crashed(number, begun_s)
                        # Nobody heard of it for longer than its lease.
                        assert await taken(client, LOST[0], "large") == LARGE
                    await safe(client)
                    history = await load.drained()
        faults = history.faults()
        assert not faults, told(faults)
