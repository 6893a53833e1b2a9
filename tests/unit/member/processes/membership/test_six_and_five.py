"""Five processes become six and five again while clients go on: five hold everything in the end."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine.cluster_settings import MAX_FULL_REPLICAS
from tests.unit.engine.cluster.clusters import HOST
from tests.unit.engine.cluster.load import MAPS, Load, told
from tests.unit.member.processes.membership.test_growing import ended
from tests.unit.member.processes.membership.test_lite_members import host_of
from tests.unit.member.processes.membership.test_sixth_member import asking
from tests.unit.member.processes.processes import METRICS, HttpClient, Members, metrics
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FIVE: Final = MAX_FULL_REPLICAS
SIX: Final = FIVE + 1
WHOLE: Final = "this member holds all of the data from now on"
PLACE_S: Final = 90.0
"""A place is free 20 s after its member is gone, is taken 10 s later, and then data is read."""
_MAP: Final = re.compile(r'^grid_structure_entries\{kind="map",name="([^"]+)"\}', re.MULTILINE)
pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"]),
]


@contextlib.asynccontextmanager
async def used(
    directory: Path, *, durable: bool, size: int
) -> AsyncIterator[tuple[Members, HttpClient, Load]]:
    """Give members of six at most, and clients of all six that try another one for an answer."""
    members = Members(directory, durable=durable, size=size, most=SIX, settings=METRICS)
    async with members, HttpClient(members) as client:
        await eventually(lambda: client.safe(*range(size)))
        client.patient = True
        async with Load(client, SIX) as load:
            await load.progress()
            yield members, client, load


def others_of(number: int) -> list[int]:
    return [other for other in range(SIX) if other != number]


async def joins(members: Members, client: HttpClient, number: int) -> None:
    """Start the sixth, with a list of all."""
    members.known[number] = SIX
    members.start(number)
    await members.ready(number)
    await eventually(client.safe)
    await are_shown(members, client, list(range(SIX)))


async def leaves(members: Members, client: HttpClient, leaving: int) -> None:
    """Have one leave for good, and wait until the others are whole."""
    left = others_of(leaving)
    operation = await client.leave(leaving)
    assert await ended(members, leaving) == 0
    assert (await client.operation(left[0], operation))["stage"] == "FINISHED"
    await are_shown(members, client, left)
    await eventually(lambda: client.safe(*left))


async def takes_the_place(members: Members, number: int) -> None:
    """Wait until a member that asked others has everything itself."""
    members.processes[number].patience_s = PLACE_S
    await members.logged(number, WHOLE)


async def there(client: HttpClient, asked: int) -> set[str]:
    """Return the addresses of the members as one of them shows the cluster."""
    answer = await client._ask(asked, "GET", "/cluster")
    return {str(one["address"]) for one in json.loads(answer or '{"members": []}')["members"]}


async def maps_in(members: Members, number: int) -> set[str]:
    """Return the maps that a member has in its own memory, as its metrics tell."""
    return set(_MAP.findall(await metrics(members, number)))


async def all_hold_everything(members: Members, numbers: list[int]) -> None:
    assert [await maps_in(members, number) for number in numbers] == [set(MAPS)] * len(numbers)


async def are_shown(members: Members, client: HttpClient, all_of: list[int]) -> None:
    """Wait until all of them show each other and nobody else."""
    addresses = {f"{HOST}:{members.rest_ports[number]}" for number in all_of}

    async def shown() -> bool:
        return all([await there(client, number) == addresses for number in all_of])

    await eventually(shown)


async def test_a_sixth_joins_members_that_know_of_five_and_leaves_for_good(
    durable: bool, tmp_path: Path
) -> None:
    sixth = FIVE
    async with used(tmp_path, durable=durable, size=FIVE) as (members, client, load):
        await joins(members, client, sixth)
        await load.progress()
        await leaves(members, client, sixth)
        await load.progress()
        assert client.failed == []
        await all_hold_everything(members, others_of(sixth))
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


async def test_the_sixth_leaves_and_another_one_takes_the_place_of_a_holder_that_leaves(
    durable: bool, tmp_path: Path
) -> None:
    async with used(tmp_path, durable=durable, size=SIX) as (members, client, load):
        sixth = asking(members)
        assert await maps_in(members, sixth) < set(MAPS)
        await leaves(members, client, sixth)
        await load.progress()

        if durable:  # what it had is of no use any more
            shutil.rmtree(tmp_path / f"m{sixth}" / "data")
        await joins(members, client, sixth)
        leaving = await host_of(members, client, asker=sixth)
        assert await maps_in(members, sixth) < set(MAPS)
        await load.progress()
        await leaves(members, client, leaving)
        await takes_the_place(members, sixth)
        await load.progress()
        assert client.failed == []
        await all_hold_everything(members, others_of(leaving))
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


async def test_the_sixth_takes_the_place_of_a_holder_that_is_killed(
    durable: bool, tmp_path: Path
) -> None:
    async with used(tmp_path, durable=durable, size=SIX) as (members, client, load):
        client.patient = False
        sixth = asking(members)
        victim = await host_of(members, client, asker=sixth)
        left = others_of(victim)
        begun_s = time.monotonic()
        await members.kill(victim)
        await load.progress(*left)
        await are_shown(members, client, left)
        for crashed in (victim, sixth):  # whose items the victim had in flight
            load.crashed(crashed, begun_s)
        await takes_the_place(members, sixth)
        await load.progress(*left)
        await all_hold_everything(members, left)
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)
