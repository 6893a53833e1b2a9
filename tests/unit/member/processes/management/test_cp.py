"""The CP subsystem of three processes: its group goes on and is changed when one is killed."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.processes.processes import HttpClient, Members

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE_S = 60.0
SETTINGS = "  cp-subsystem: {cp-member-count: 3}\n"
DEFAULT = "cp-subsystem/groups/default"
pytestmark = pytest.mark.timeout(240)


class Caller:
    """Sends calls to the members."""

    def __init__(self, members: Members, session: aiohttp.ClientSession) -> None:
        self._members = members
        self._session = session

    async def ask(self, number: int, path: str) -> tuple[int, Any]:
        async with self._session.get(self._url(number, path)) as response:
            body = await response.read()
            return response.status, json.loads(body) if body else None

    async def send(self, number: int, path: str, body: bytes = b"dev&") -> tuple[int, bytes]:
        """Send until it is answered something else than 503."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                async with self._session.post(self._url(number, path), data=body) as response:
                    content = await response.read()
                if response.status != 503:
                    return response.status, content
                await asyncio.sleep(0.1)

    async def until(self, number: int, path: str, shown: Callable[[int, Any], bool]) -> Any:
        """Ask until it is shown what is to be; return it."""
        status, content = 0, None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    status, content = await self.ask(number, path)
                    if shown(status, content):
                        return content
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError((number, path, status, content)) from None

    def _url(self, number: int, path: str) -> str:
        return f"http://{HOST}:{self._members.rest_ports[number]}/grid/rest/{path}"


def complete(status: int, group: Any) -> bool:
    return status == 200 and len(group["members"]) == len(group["current"]) == 3


def places(group: Any) -> list[str]:
    return sorted(one["address"] for one in group["members"])


async def is_changed_and_reset(members: Members, caller: Caller) -> None:
    for number in range(3):
        begun = await caller.until(number, DEFAULT, complete)
    assert (await caller.send(0, "maps/default/k", b"1"))[0] == 200
    _, everybody = await caller.ask(0, "cp-subsystem/members")
    assert sorted(one["uuid"] for one in begun["members"]) == sorted(
        one["uuid"] for one in everybody
    )
    metadata = await caller.until(1, "cp-subsystem/groups/METADATA", complete)
    assert metadata["leader"] in metadata["current"]
    ports = [f"[{HOST}]:{port}" for port in members.rest_ports]
    victim = {one["uuid"]: ports.index(one["address"]) for one in everybody}[begun["leader"]]
    one, other = (number for number in range(3) if number != victim)

    await members.kill(victim)
    led = await caller.until(
        one,
        DEFAULT,
        lambda status, found: (
            status == 200
            and found["leader"] in found["current"]
            and found["leader"] != begun["leader"]
        ),
    )
    assert len(led["members"]) == 3
    removal = f"cp-subsystem/members/{begun['leader']}/remove"
    assert await caller.send(one, removal) == (200, b"")
    rest = [found for found in everybody if found["uuid"] != begun["leader"]]
    for number in (one, other):
        assert await caller.ask(number, "cp-subsystem/members") == (200, rest)
        _, shown = await caller.ask(number, DEFAULT)
        assert sorted(shown["current"]) == sorted(found["uuid"] for found in rest)
    status, said = await caller.send(other, f"cp-subsystem/members/{rest[0]['uuid']}/remove")
    assert (status, b"are needed" in said) == (409, True)
    assert (await caller.ask(one, DEFAULT))[1]["members"] == shown["members"]

    members.start(victim)
    await members.ready(victim)
    assert (await caller.ask(victim, "cp-subsystem/members/local"))[0] == 404
    assert await caller.send(victim, "cp-subsystem/members") == (200, b"")
    for number in range(3):
        _, promoted = await caller.ask(number, "cp-subsystem/members")
        assert [found["address"] for found in promoted][2:] == [ports[victim]]
        await caller.until(number, DEFAULT, complete)

    assert (await caller.send(other, "cp-subsystem/reset"))[0] == 200
    for number in range(3):
        anew = await caller.until(number, DEFAULT, complete)
        assert anew["id"]["id"] == begun["id"]["id"] + 1
        assert not {*anew["current"]} & {found["uuid"] for found in promoted}
    assert await caller.ask(one, "maps/default/k") == (200, 1)


@pytest.mark.parametrize("durable", [False, True])
async def test_the_group_outlives_a_member(tmp_path: Path, durable: bool) -> None:
    async with (
        Members(tmp_path, durable=durable, settings=SETTINGS) as members,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session,
    ):
        await is_changed_and_reset(members, Caller(members, session))


async def test_a_member_that_leaves_for_good_hands_its_place_over(tmp_path: Path) -> None:
    async with (
        Members(tmp_path, durable=False, size=4, settings=SETTINGS) as members,
        HttpClient(members) as client,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session,
    ):
        caller = Caller(members, session)
        begun = await caller.until(0, DEFAULT, complete)
        ports = [f"[{HOST}]:{port}" for port in members.rest_ports]
        going = ports.index(begun["members"][0]["address"])
        stays = (going + 1) % 4
        await client.leave(going)
        process = members.processes[going]
        assert await asyncio.to_thread(process.process.wait, PATIENCE_S) == 0, process.log
        rest = sorted(ports[number] for number in range(4) if number != going)
        await caller.until(
            stays, DEFAULT, lambda status, found: complete(status, found) and places(found) == rest
        )
        assert await caller.send(stays, f"{DEFAULT}/remove") == (200, b"")
