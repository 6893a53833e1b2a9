"""All of three members were stopped, and one does not come back as it was: the others serve."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member.engine.lost_memory.empty_logs import describe_wait
from tests.unit.engine.cluster.checker import NOTHING
from tests.unit.member.processes.namespaces import Apart, Network, needs_namespaces
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MISSING: Final = 2
THERE: Final = (0, 1)
KEYS: Final = 20
WAITS: Final = "waiting for the other members: "
LONG_S: Final = 3600
SHORT_S: Final = 10
PARTIAL: Final = "PARTIAL_RECOVERY_MOST_RECENT"
IN_MEMORY: Final = ', "memory*": {data-persistence: {enabled: false}}'
pytestmark = pytest.mark.timeout(240)


def waiting_for(seconds: int) -> str:
    """Return how the members wait that are there for those that may have what was in memory."""
    return f", validation-timeout-seconds: {seconds}"


@pytest.mark.parametrize("emptied", [False, True], ids=["away", "with an empty disk"])
async def test_a_majority_of_those_with_data_is_enough_after_a_full_stop(
    tmp_path: Path, emptied: bool
) -> None:
    patience = waiting_for(SHORT_S)
    async with (
        Members(tmp_path, durable=True, persistence=patience) as members,
        HttpClient(members) as client,
    ):
        for number in range(KEYS):
            assert await client.put(number % 3, f"m{number}", "k", str(number))
        await members.kill(0, 1, MISSING)
        if emptied:
            shutil.rmtree(tmp_path / f"m{MISSING}" / "data")
            members.start(MISSING)
        for number in THERE:
            members.start(number)
        for number in THERE:
            await members.logged(number, f"{WAITS}{describe_wait(SHORT_S)}")
            await members.ready(number)
        for number in range(KEYS):
            assert await client.get(number % 2, f"m{number}", "k") == str(number)
        assert await client.put(0, "new", "k", "v")
        if not emptied:
            members.start(MISSING)
        await members.ready(MISSING)
        await eventually(client.safe)
        assert await client.get(MISSING, "new", "k") == "v"


async def test_partial_start_does_not_wait_for_what_was_in_memory(tmp_path: Path) -> None:
    patience = waiting_for(LONG_S)
    async with (
        Members(tmp_path, durable=True, persistence=patience, recovery_policy=PARTIAL) as members,
        HttpClient(members) as client,
    ):
        assert await client.put(0, "disk", "k", "v")
        await members.kill(0, 1, MISSING)
        for number in THERE:
            members.start(number)
        for number in THERE:
            await members.logged(number, f"{WAITS}{describe_wait(LONG_S)}")

        assert await members.asked(0, "partialStart") == {"status": "success"}

        for number in THERE:
            await members.ready(number)
            assert await client.get(number, "disk", "k") == "v"


async def emptied_but_one(members: Members, client: HttpClient, network: Network) -> None:
    """Write to all, and let one that is cut off be the only one that has it in memory."""
    assert await client.put(0, "memory", "k", "v")
    assert await client.put(1, "disk", "k", "v")
    await eventually(client.safe)
    network.cut(MISSING)
    await members.kill(*THERE)
    for number in THERE:
        members.start(number)


async def answers(client: HttpClient, member: int, name: str, value: str) -> None:
    """Wait for an answer of a member that may have a leader to hear of: it is that, always."""

    async def found() -> bool:
        answer = await client.get(member, name, "k")
        assert answer in {None, value}
        return answer is not None

    await eventually(found)


@needs_namespaces
async def test_what_one_that_is_cut_off_has_in_memory_is_waited_for(tmp_path: Path) -> None:
    with Network(3) as network:
        settings: dict[str, Any] = {"persistence": waiting_for(LONG_S), "maps": IN_MEMORY}
        async with (
            Apart(tmp_path, network, **settings) as members,
            HttpClient(members) as client,
        ):
            await emptied_but_one(members, client, network)
            for number in THERE:
                await members.logged(number, f"{WAITS}{describe_wait(LONG_S)}")
            network.heal(MISSING)
            for number in THERE:
                await members.ready(number)
            for number in (*THERE, MISSING):
                await answers(client, number, "memory", "v")
            await eventually(client.safe)


@needs_namespaces
async def test_who_is_back_too_late_goes_on_with_what_the_others_have(tmp_path: Path) -> None:
    with Network(3) as network:
        settings: dict[str, Any] = {"persistence": waiting_for(0), "maps": IN_MEMORY}
        async with (
            Apart(tmp_path, network, **settings) as members,
            HttpClient(members) as client,
        ):
            await emptied_but_one(members, client, network)
            for number in THERE:
                await members.ready(number)
            assert await client.get(0, "memory", "k") == NOTHING
            assert await client.put(1, "memory", "k", "new")
            network.heal(MISSING)
            await answers(client, MISSING, "memory", "new")  # never what was
            await answers(client, MISSING, "disk", "v")
            await eventually(client.safe)
