"""Promise: an operator may be killed at any line while members leave for good.

As in `test_crashes.py`, but that the members are several, and no processes.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.unit.operator.crash.leavers import Leavers
from tests.unit.operator.crash.pods import SET
from tests.unit.operator.crash.scenarios import CALL, EFFECT, moments
from tests.unit.operator.crash.world import CLUSTER, KILLED, Storm, World
from tests.unit.operator.fake_api import FakeApi
from tests.unit.operator.fake_kube import cluster_object
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.unit.operator.crash.processes import Forker

SIZE = 4
FEWER = 2
WAY = ["Shrink", "Shrink", "Restart"]
MOMENTS = moments(
    Leave=("entered", *CALL),
    AwaitLeft=("entered",),
    RemovePod=("entered", *EFFECT),
    ShutDownMember=("entered",),
    End=("entered",),
)


@asynccontextmanager
async def leaving(operators: Forker, place: Path) -> AsyncIterator[tuple[World, Leavers]]:
    """Yield four members that are well."""
    api, (port,) = FakeApi(), free_ports(1)
    await api.start()
    api.objects[CLUSTER] = cluster_object(size=SIZE, persistence={"enabled": True})
    api.objects["/api/v1/namespaces/grids"] = {"kind": "Namespace", "metadata": {"name": "grids"}}
    members = Leavers(api, port)
    made = World(api, members, operators, place, port)  # type: ignore[arg-type]
    try:
        async with made.operating():
            await made.until(lambda: made.is_so("Ready") and "operation" not in made.status)
        yield made, members
    finally:
        await members.stop()
        await api.stop()


async def fewer(made: World, members: Leavers) -> None:
    """Have an operator at work until there are as few as the spec says, each done once."""
    async with made.operating():
        ended = [(kind, "Succeeded") for kind in WAY]
        await made.until(lambda: made.kinds() == ended and made.is_so("Ready"))
    assert members.begun == ["demo-3", "demo-2"], made.told()
    assert members.lost == [], made.told()
    assert members.claims() == {"data-demo-0", "data-demo-1"}
    assert made.api.objects[SET]["spec"]["replicas"] == FEWER
    restarted = members.pods_made[SIZE:]
    assert restarted == ["demo-1", "demo-0"], "each once, with the shorter list"


@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_operator_killed_while_members_leave_leaves_one_that_resumes(
    operators: Forker, tmp_path: Path, moment: str
) -> None:
    async with leaving(operators, tmp_path) as (made, members):
        first = made.operator(moment)
        made.wish({"size": FEWER}, {})
        await made.until(lambda: made.ended(first) is not None)
        assert made.ended(first) == KILLED, made.told()
        await fewer(made, members)


async def test_several_operators_at_once_let_each_leave_once(
    operators: Forker, tmp_path: Path
) -> None:
    async with leaving(operators, tmp_path) as (made, members), made.operating():
        made.wish({"size": FEWER}, {})
        await fewer(made, members)


@pytest.mark.parametrize("status", [409, 503])
async def test_a_storm_of_the_api_server_lets_nobody_leave_twice(
    operators: Forker, tmp_path: Path, status: int
) -> None:
    async with leaving(operators, tmp_path) as (made, members):
        made.api.storm = Storm(status)
        made.wish({"size": FEWER}, {})
        await fewer(made, members)
    assert made.api.storm.failed > 0
