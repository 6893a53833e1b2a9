"""Promise: pauses of an operator, several at once, and storms of the API server repeat nothing."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.unit.operator.crash.scenarios import SCENARIOS
from tests.unit.operator.crash.world import (
    Storm,
    check,
    fulfilled,
    is_stopped,
    settled,
    world,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.operator.crash.processes import Forker


@pytest.mark.parametrize(
    ("name", "moment"),
    [("ChangeState", "Call:before"), ("Stop", "Passive:before"), ("Restart", "DeletePod:undone")],
)
async def test_an_operator_stopped_past_its_time_does_no_harm_when_it_goes_on(
    members: Forker, operators: Forker, tmp_path: Path, name: str, moment: str
) -> None:
    scenario = SCENARIOS[name]
    async with world(members, operators, tmp_path) as made:
        await settled(made, scenario)
        first = made.operator(moment, signal.SIGSTOP)
        await made.ask(scenario)
        await made.until(lambda: is_stopped(first))
        await fulfilled(made, scenario)
        if name == "ChangeState":  # somebody wants something else by now
            made.wish({"clusterState": "Active"}, {})
            async with made.operating():
                await made.until(lambda: made.status.get("appliedClusterState") == "Active")
        before = made.carried_out(), list(made.node.pods_made)
        os.kill(first, signal.SIGCONT)
        seen = made.requests()
        await made.until(lambda: made.requests() > seen + 20)
        assert made.ended(first) is None, made.told()
        assert (made.carried_out(), made.node.pods_made) == before


@pytest.mark.parametrize("status", [409, 429, 500, 503])
@pytest.mark.parametrize("name", ["ChangeState", "Start", "Restart", "Backup"])
async def test_a_storm_of_the_api_server_repeats_nothing(
    members: Forker, operators: Forker, tmp_path: Path, name: str, status: int
) -> None:
    """Of six requests one fails, half of those after they were carried out."""
    scenario = SCENARIOS[name]
    async with world(members, operators, tmp_path) as made:
        await settled(made, scenario)
        made.api.storm = Storm(status)
        await made.ask(scenario)
        await fulfilled(made, scenario)
        check(made, scenario)
    assert made.api.storm.failed > 0


@pytest.mark.parametrize("name", sorted(SCENARIOS))
async def test_several_operators_at_once_do_everything_once(
    members: Forker, operators: Forker, tmp_path: Path, name: str
) -> None:
    scenario = SCENARIOS[name]
    async with world(members, operators, tmp_path) as made:
        await settled(made, scenario)
        async with made.operating(), made.operating():
            await made.ask(scenario)
            await fulfilled(made, scenario)
        check(made, scenario)
