"""Whether members are ready while a leader is elected, and when there is no majority."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from tests.unit.engine.cluster.load import Load, told
from tests.unit.member.cluster.processes import HttpClient, Members
from tests.unit.member.cluster.test_processes import safe
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LOOK_S: Final = 0.02
WAITING: Final = ("put", "get", "offer")
"""What waits for a leader. Polls are refused earlier: they need a lease."""
pytestmark = pytest.mark.timeout(300)


async def why_not(members: Members, member: int) -> str:
    """Return why a member is not ready, empty when it is."""
    url = f"http://{members.host(member)}:{members.rest_ports[member]}/grid/health/ready"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return "" if answer.status == 200 else answer.headers["X-Grid-Error"]


@contextlib.asynccontextmanager
async def watched(members: Members, *watch: int) -> AsyncIterator[dict[int, set[str]]]:
    """Look often whether members are ready; give for each why it was not."""
    seen: dict[int, set[str]] = {member: set() for member in watch}

    async def look(member: int) -> None:
        while True:
            seen[member].add(await why_not(members, member))
            await asyncio.sleep(LOOK_S)

    looking = [asyncio.ensure_future(look(member)) for member in watch]
    try:
        yield seen
    finally:
        for task in looking:
            task.cancel()
        for ended in await asyncio.gather(*looking, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                raise AssertionError(f"readiness could not be watched: {ended!r}")


async def test_members_are_ready_as_long_as_what_waits_for_a_leader_is_not_refused(
    tmp_path: Path,
) -> None:
    async with (
        Members(tmp_path, durable=False) as members,
        HttpClient(members) as client,
        Load(client, members.size) as load,
    ):
        for victim in range(members.size):  # one of them leads most logs
            await safe(client)
            await load.progress()
            others = [member for member in range(members.size) if member != victim]
            refused = Counter(load.refused)
            async with watched(members, *others) as seen:
                await members.kill(victim)
                await load.progress(*others)
            for member in others:
                waited = any(load.refused[member, kind] > refused[member, kind] for kind in WAITING)
                assert waited or seen[member] == {""}, told(seen[member])
            members.start(victim)
            await members.ready(victim)


async def test_a_member_without_a_majority_is_not_ready_until_there_is_one(tmp_path: Path) -> None:
    async with Members(tmp_path, durable=True) as members, HttpClient(members) as client:
        await safe(client)
        await members.kill(1, 2)
        await eventually(lambda: _says(members, "no majority"))
        assert not await client.healthy(0, "cluster-safe")
        for member in (1, 2):
            members.start(member)
        await eventually(lambda: client.healthy(0, "ready"))
        assert await client.put(0, "a", "k", "v")


async def _says(members: Members, reason: str) -> bool:
    return reason in await why_not(members, 0)
