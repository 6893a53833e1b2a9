"""Promise: clusters of several members replicate whatever member is asked, killed or restarted."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.unit.member.processes.processes import HttpClient
from tests.unit.member.processes.wan.sites import MAPS, Site, entries, job, pair, start
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]
LITE = 3
KEYS = 2000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sites(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Site, Site]]:
    """Tokyo has three members with data and a lite one, London three, all in memory."""
    both = pair(
        tmp_path_factory.mktemp("wan"),
        {"size": 4, "most": 4, "lite": (LITE,)},
        {"size": 3, "most": 4},
    )
    try:
        await start(*both)
        yield both
    finally:
        for site in both:
            await site.__aexit__()


async def test_every_member_takes_and_gives(sites: tuple[Site, Site]) -> None:
    tokyo, london = sites
    for name in MAPS:
        for number in range(4):
            await tokyo.put(number, name, f"t{number}", b"1")
        for number in range(3):
            await london.put(number, name, f"l{number}", b"2")
        for number in range(4):
            await london.until_value(number % 3, name, f"t{number}", b"1")
        for number in range(3):
            await tokyo.until_value(3 - number, name, f"l{number}", b"2")
        await london.remove(1, name, "t3")
        await tokyo.until_value(LITE, name, "t3", None)
        await tokyo.remove(LITE, name, "l0")
        await london.until_value(2, name, "l0", None)
    await asyncio.gather(*(site.quiet() for site in sites))
    await london.connected(1)
    assert (await london.publisher(1))["problem"] == ""
    await tokyo.connected(LITE)
    assert len((await tokyo.publisher(LITE))["members"]) == 4


async def test_a_member_is_paused_alone(sites: tuple[Site, Site]) -> None:
    tokyo, london = sites
    reply = await tokyo.call(1, "pausePublisher")
    assert reply.status == 200, reply
    await tokyo.put(1, "orders", "waits", b"w")
    await tokyo.put(0, "orders", "goes", b"g")
    await london.until_value(0, "orders", "goes", b"g")

    async def only_one_waits() -> bool:
        members = (await tokyo.publisher(0))["members"]
        states = {each["state"]: each["queued"] for each in members}
        return states == {"PAUSED": 1, "REPLICATING": 0}

    await eventually(only_one_waits)
    assert await london.get(0, "orders", "waits") is None
    assert (await tokyo.call(1, "resumePublisher")).status == 200
    await london.until_value(0, "orders", "waits", b"w")
    assert (await tokyo.call(LITE, "clearWanQueues")).status == 200


async def test_any_member_begins_jobs(sites: tuple[Site, Site]) -> None:
    """The lite member holds nothing; the members with data do the work of their shards."""
    tokyo, _ = sites
    for name in MAPS:
        await tokyo.put(0, name, "compared", b"c")
    await asyncio.gather(*(site.quiet() for site in sites))
    synced = await job(tokyo, LITE, "sync/allmaps")
    checked = await job(tokyo, LITE, "consistencyCheck/map", "cities")
    assert (set(synced), set(checked)) == (set(MAPS), {"cities"})
    for found in (*synced.values(), *checked.values()):
        assert (found["error"], found["entries"] > 0) == ("", True)
    differences = ("missing", "extra", "older", "newer", "removed", "ambiguous")
    assert [checked["cities"][each] for each in differences] == [0] * 6


async def test_nothing_is_lost_when_members_are_killed(sites: tuple[Site, Site]) -> None:
    """Each member with data sends one of the shards: the killed one sends one as it is killed."""
    tokyo, london = sites
    keys = [f"k{number}" for number in range(KEYS)]
    async with HttpClient(tokyo) as client:
        client.patient = True
        begun: list[str] = []

        async def write(lane: int) -> None:
            for number in range(lane, KEYS, 8):
                begun.append(keys[number])
                assert await client.put(number % 4, MAPS[number % 3], keys[number], "v" * 20)

        writing = asyncio.gather(*map(write, range(8)))
        await eventually(partial(_begun, begun, KEYS // 4))
        await tokyo.kill(0)
        await writing
    tokyo.start(0)
    await tokyo.ready(0)
    await tokyo.quiet(1)
    for name in MAPS:
        wanted = [key for number, key in enumerate(keys) if MAPS[number % 3] == name]
        found = await entries(london, 1, name, wanted)
        assert [key for key, value in found.items() if value != b"v" * 20] == []


async def test_a_rolling_restart_of_both_sides(sites: tuple[Site, Site]) -> None:
    tokyo, london = sites
    for turn in range(3):
        # A member that left, or that has just come back, may count as a copy that is not there yet.
        await asyncio.gather(tokyo.safe(), london.safe())
        await asyncio.gather(tokyo.restart(turn), london.restart(turn))
        for site, other in ((tokyo, london), (london, tokyo)):
            await site.put(turn, "cities", f"{site.name}{turn}", b"r")
            await other.until_value(turn, "cities", f"{site.name}{turn}", b"r")
    await asyncio.gather(tokyo.quiet(), london.quiet())


async def test_a_member_that_joins_takes_its_part(sites: tuple[Site, Site]) -> None:
    tokyo, london = sites
    await london.safe()
    london.known[3] = 4
    london.start(3)
    await london.ready(3)
    await london.put(3, "orders", "new", b"n")
    await tokyo.until_value(LITE, "orders", "new", b"n")
    await tokyo.put(LITE, "orders", "back", b"b")
    await london.until_value(3, "orders", "back", b"b")
    os.kill(london.processes[3].process.pid, signal.SIGTERM)
    await asyncio.to_thread(london.processes[3].end)
    await london.put(0, "orders", "new", b"m")
    await tokyo.until_value(0, "orders", "new", b"m")


async def _begun(keys: list[str], count: int) -> bool:
    return len(keys) >= count
