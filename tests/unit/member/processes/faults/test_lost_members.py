"""Two of three members lose their disks for good: what the third one has is served again."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)
KEYS = 20
POLICY = "PARTIAL_RECOVERY_MOST_RECENT"


class Bereft(Members):
    """Three members with data, of which two have lost their disks."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, durable=True, recovery_policy=POLICY)

    async def lose(self, client: HttpClient) -> None:
        """Write to all, end them, and begin with the first one and its data."""
        for number in range(KEYS):
            assert await client.put(number % 3, f"map{number}", "k", str(number))
        await self.kill(0, 1, 2)
        for number in (1, 2):
            shutil.rmtree(self._directory / f"m{number}" / "data")
        self.start(0)
        await self.logged(0, "listening")

    async def has_all(self, client: HttpClient, member: int) -> bool:
        values = [await client.get(member, f"map{number}", "k") for number in range(KEYS)]
        return values == list(map(str, range(KEYS)))

    async def waits(self, reason: str) -> bool:
        """Return whether the one with data says that it waits for that."""
        url = f"http://{HOST}:{self.rest_ports[0]}/grid/health/ready"
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            return reason in reply.headers.get("X-Grid-Error", "")


async def test_partial_start_goes_on_with_the_data_that_is_left(tmp_path: Path) -> None:
    members = Bereft(tmp_path)
    async with members, HttpClient(members) as client:
        await members.lose(client)
        await eventually(lambda: members.waits("the other members are not there"))
        for number in (1, 2):
            members.start(number)
            await members.logged(number, "listening")
        await eventually(lambda: members.waits("no majority of the members"))

        assert await members.asked(0, "partialStart") == {"status": "success"}

        await asyncio.gather(*map(members.ready, range(3)))
        assert await members.has_all(client, 2)
        assert await members.asked(0, "partialStart") == {"status": "success"}  # as its key says
        assert (await members.asked(1, "forceStart"))["status"] == "fail"
        await eventually(client.safe)


async def test_a_member_that_is_alone_goes_on_with_its_data(tmp_path: Path) -> None:
    members = Bereft(tmp_path)
    async with members, HttpClient(members) as client:
        await members.lose(client)

        # At once: it does not know yet that it will wait.
        assert await members.asked(0, "partialStart") == {"status": "success"}

        await members.ready(0)
        assert await members.has_all(client, 0)
        assert await client.put(0, "new", "k", "v")
        await members.restart(0)  # nobody is there still
        assert await client.get(0, "new", "k") == "v"
        os.kill(members.server_of(0), signal.SIGKILL)  # which is started again, alone

        async def answers() -> bool:
            return await client.put(0, "new", "k", "v") is True

        await eventually(answers)
        assert not await client.safe(0)
        for number in (1, 2):
            members.start(number)
        await asyncio.gather(*map(members.ready, (1, 2)))
        await eventually(client.safe)
        await members.kill(0)
        client.patient = True
        assert await client.get(1, "new", "k") == "v"
        assert await members.has_all(client, 2)


async def test_a_member_that_is_alone_begins_with_nothing_when_forced(tmp_path: Path) -> None:
    members = Bereft(tmp_path)
    async with members, HttpClient(members) as client:
        await members.lose(client)
        await eventually(lambda: members.waits("the other members are not there"))

        assert await members.asked(0, "forceStart") == {"status": "success"}

        await members.ready(0)
        assert await client.get(0, "map0", "k") == ""
        assert await client.put(0, "new", "k", "v")
        assert await client.get(0, "new", "k") == "v"
