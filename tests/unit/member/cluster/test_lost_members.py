"""Two of three members lose their disks for good: what the third one has is served again."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.cluster.processes import PATIENCE_S, HttpClient, Members

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)
KEYS = 20
POLICY = "PARTIAL_RECOVERY_MOST_RECENT"


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not await holds():
        assert time.monotonic() < ends_s
        await asyncio.sleep(0.1)


async def test_partial_start_goes_on_with_the_data_that_is_left(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as session:

        async def asked(member: int, call: str) -> dict[str, Any]:
            url = f"http://{HOST}:{members.rest_ports[member]}/grid/rest/management/cluster/{call}"
            async with session.post(url, data="dev&", headers={"Idempotency-Key": call}) as reply:
                assert reply.status == 200, await reply.text()
                answer: dict[str, Any] = await reply.json()
                return answer

        async def waits() -> bool:
            url = f"http://{HOST}:{members.rest_ports[0]}/grid/health/ready"
            async with session.get(url) as reply:
                return "no majority of the members" in reply.headers.get("X-Grid-Error", "")

        members = Members(tmp_path, durable=True, recovery_policy=POLICY)
        async with members, HttpClient(members) as client:
            for number in range(KEYS):
                assert await client.put(number % 3, f"map{number}", "k", str(number))
            await members.kill(0, 1, 2)
            for number in (1, 2):
                shutil.rmtree(tmp_path / f"m{number}" / "data")
            for number in range(3):
                members.start(number)
                await members.logged(number, "listening")
            await until(waits)

            assert await asked(0, "partialStart") == {"status": "success"}

            await asyncio.gather(*map(members.ready, range(3)))
            for number in range(KEYS):
                assert await client.get(2, f"map{number}", "k") == str(number)
            assert (await asked(0, "partialStart")) == {"status": "success"}  # as its key says
            assert (await asked(1, "forceStart"))["status"] == "fail"
            await until(client.safe)
