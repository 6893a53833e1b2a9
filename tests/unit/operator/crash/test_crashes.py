"""Promise: an operator may be killed at any line of an operation.

Another one resumes it, nothing is done twice, and the end is right. The operator is a process that
kills itself with SIGKILL at the given moment, the API server is in this process, and the member is
a real one. A second operator process then goes on. What was done is counted in the member's own
audit log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.operator.crash.scenarios import CALL, SCENARIOS, moments
from tests.unit.operator.crash.world import (
    CLUSTER,
    KILLED,
    check,
    check_restored,
    fulfilled,
    settled,
    world,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.operator.crash.processes import Forker

CASES = [(name, moment) for name, scenario in SCENARIOS.items() for moment in scenario.moments]


@pytest.mark.parametrize(("name", "moment"), CASES)
async def test_an_operator_killed_at_any_line_leaves_one_that_resumes(
    members: Forker, operators: Forker, tmp_path: Path, name: str, moment: str
) -> None:
    scenario = SCENARIOS[name]
    async with world(members, operators, tmp_path) as made:
        await settled(made, scenario)
        first = made.operator(moment)
        await made.ask(scenario)
        await made.until(lambda: made.ended(first) is not None)
        assert made.ended(first) == KILLED, made.told()
        await fulfilled(made, scenario)
        check(made, scenario)
        if scenario.restored:
            await check_restored(made)


@pytest.mark.parametrize(
    "moment", moments(Passive=("entered", *CALL), Shutdown=("entered", *CALL), End=("entered",))
)
async def test_an_operator_killed_while_a_cluster_is_deleted(
    members: Forker, operators: Forker, tmp_path: Path, moment: str
) -> None:
    async with world(members, operators, tmp_path) as made:
        made.serves_all = True
        made.clock_speed = 2  # the deletion has a minute
        await settled(made, SCENARIOS["Stop"])
        live = made.api.objects[CLUSTER]
        assert live["metadata"]["finalizers"] == ["gridcluster.io/shutdown"]
        first = made.operator(moment)
        gone = {**live["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        made.api.put(CLUSTER, {**live, "metadata": gone})
        await made.until(lambda: made.ended(first) is not None)
        assert made.ended(first) == KILLED, made.told()
        async with made.operating():
            await made.until(lambda: CLUSTER not in made.api.objects)
        calls = made.carried_out()
        assert (calls["changeState"], calls["clusterShutdown"]) == (1, 1)
