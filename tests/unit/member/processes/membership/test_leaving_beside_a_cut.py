"""A member is asked to leave for good while another one is cut off: nobody goes until all are seen.

Whoever is left would else be too few: the one that is cut off may be lost, and one of the others
with its copies gone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.cluster.load import Load, told
from tests.unit.member.processes.membership.test_growing import ended
from tests.unit.member.processes.namespaces import Apart, Network, needs_namespaces
from tests.unit.member.processes.processes import HttpClient
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

SIZE, LEAVING, CUT_OFF = 4, 2, 3
STAYING = (0, 1, CUT_OFF)
ROUNDS = 5
pytestmark = pytest.mark.timeout(300)


@needs_namespaces
async def test_nobody_leaves_during_a_cut(tmp_path: Path) -> None:
    with Network(SIZE) as network:
        async with (
            Apart(tmp_path, network, size=SIZE) as members,
            HttpClient(members) as client,
            Load(client, SIZE) as load,
        ):
            await eventually(client.safe)
            await load.progress()
            await asyncio.to_thread(network.cut, CUT_OFF)
            await load.refusal(CUT_OFF)
            leaving = await client.leave(LEAVING)

            async def waits() -> bool:
                return "silent" in str((await client.operation(0, leaving))["error"])

            await eventually(waits)
            for _ in range(ROUNDS):
                await load.progress(0, 1, LEAVING, count=200)  # in which time it would be gone
                assert members.processes[LEAVING].process.poll() is None
                assert await waits()

            await asyncio.to_thread(network.heal, CUT_OFF)
            assert await ended(members, LEAVING) == 0
            assert (await client.operation(0, leaving))["stage"] == "FINISHED"
            await eventually(lambda: client.safe(*STAYING))
            await load.progress(*STAYING)
            history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)
