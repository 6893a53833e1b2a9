"""All of three members were stopped, and one does not come back as it was: the others serve."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine.cluster_streams import IN_MEMORY
from tests.unit.member.cluster.processes import HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MISSING: Final = 2
THERE: Final = (0, 1)
KEYS: Final = 20
WAITS: Final = "waiting for the other members: "
pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("emptied", [False, True], ids=["away", "with an empty disk"])
async def test_a_majority_of_those_with_data_is_enough_after_a_full_stop(
    tmp_path: Path, emptied: bool
) -> None:
    async with Members(tmp_path, durable=True) as members, HttpClient(members) as client:
        for number in range(KEYS):
            assert await client.put(number % 3, f"m{number}", "k", str(number))
        await members.kill(0, 1, MISSING)
        if emptied:
            shutil.rmtree(tmp_path / f"m{MISSING}" / "data")
            members.start(MISSING)
        for number in THERE:
            members.start(number)
        for number in THERE:
            await members.logged(number, f"{WAITS}{IN_MEMORY}")
            await members.ready(number)
        for number in range(KEYS):
            assert await client.get(number % 2, f"m{number}", "k") == str(number)
        assert await client.put(0, "new", "k", "v")
        if not emptied:
            members.start(MISSING)
        await members.ready(MISSING)
        await eventually(client.safe)
        assert await client.get(MISSING, "new", "k") == "v"
