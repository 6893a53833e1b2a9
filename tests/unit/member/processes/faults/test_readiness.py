"""Whether members are ready while a leader is elected, and when there is no majority."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from tests.unit.engine.cluster.load import MAPS, Load, told
from tests.unit.member.processes.faults.test_processes import safe
from tests.unit.member.processes.management.test_managed import CP
from tests.unit.member.processes.processes import METRICS, HttpClient, Members, metrics
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence
    from pathlib import Path

LOOK_S: Final = 0.02
COMMITS: Final = "store_commit_duration_seconds_count"
_MANAGED: Final = "management/cluster"
ASKED: Final = (
    ("POST", "maps/a/k", "v"),
    ("GET", "maps/a/k", ""),
    ("HEAD", "maps/a/k", ""),
    ("DELETE", "maps/a/k", ""),
    ("DELETE", "maps/a", ""),
    ("POST", "queues/waits", "v"),
    ("DELETE", "queues/waits/0", ""),
    ("DELETE", "queues/waits/2", ""),
    ("DELETE", "queues/empty/2", ""),
    ("GET", "queues/waits/size", ""),
    ("HEAD", "queues/waits/size", ""),
    *(("GET", path, "") for path in ("license", "config/tcp-ip/member-list")),
    *(("GET", f"{_MANAGED}/{name}", "") for name in ("version", "operations", "usage")),
    *(("POST", f"{_MANAGED}/{name}", "dev&") for name in (
        "state", "nodes", "clusterShutdown", "backup", "hotBackup", "backupInterrupt",
    )),
    *(("POST", f"{_MANAGED}/{call}", f"dev&&{value}") for call, value in (
        ("changeState", "active"), ("version", "1.0"),
    )),
    ("POST", "license", "dev&&key"),
    ("POST", "config/tcp-ip/member-list", "dev&&127.0.0.1:1"),
    ("POST", "config/upload", "dev&&grid: {queue: {more: {max-size: 1}}}"),
    ("GET", "cp-subsystem/groups", ""),
    ("GET", "cp-subsystem/members", ""),
    ("GET", "cp-subsystem/members/local", ""),
)  # fmt: skip
"""What a member without a majority cannot know: an answer of any other kind would be a guess."""
OF_DATA: Final = [one for one in ASKED if one[1].startswith(("maps/", "queues/", "cp-"))]
"""What a ready member refuses only when it waited for a leader in vain."""
pytestmark = pytest.mark.timeout(300)


async def why_not(members: Members, member: int, check: str = "ready") -> str:
    """Return why a member does not pass a health check, empty when it does."""
    url = f"http://{members.host(member)}:{members.rest_ports[member]}/grid/health/{check}"
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

    async with _repeated(*(look(member) for member in watch)):
        yield seen


@contextlib.asynccontextmanager
async def asked(client: HttpClient, *members: int) -> AsyncIterator[Counter[int]]:
    """Read all the time in every shard of members; count what each of them refuses.

    Any shard may be the one that waited too long, and a load waits in one at a time. Reads wait for
    a leader as writes do.
    """
    refused: Counter[int] = Counter()

    async def ask(member: int, name: str) -> None:
        while True:
            refused[member] += await client.get(member, name, "shared") is None
            await asyncio.sleep(LOOK_S)

    async with _repeated(*(ask(member, name) for member in members for name in MAPS)):
        yield refused


@contextlib.asynccontextmanager
async def _repeated(*endless: Coroutine[None, None, None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one) for one in endless]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                raise AssertionError(f"what was to be repeated ended: {ended!r}")


async def test_members_are_ready_as_long_as_what_waits_for_a_leader_is_not_refused(
    tmp_path: Path,
) -> None:
    async with (
        Members(tmp_path, durable=False) as members,
        HttpClient(members) as client,
        Load(client, members.size) as load,
    ):
        held_to_it = 0
        for victim in range(members.size):  # one of them leads most logs
            await safe(client)
            await load.progress()
            others = [member for member in range(members.size) if member != victim]
            async with asked(client, *others) as refused, watched(members, *others) as seen:
                await members.kill(victim)
                await load.progress(*others)
            for member in others:
                assert refused[member] or seen[member] == {""}, told(seen[member])
                held_to_it += not refused[member]
            members.start(victim)
            await members.ready(victim)
        assert held_to_it, "something was refused by all in each round: nothing was looked at"


async def test_a_member_without_a_majority_is_not_ready_until_there_is_one(tmp_path: Path) -> None:
    made = Members(tmp_path, durable=True, settings=METRICS + CP)
    async with made as members, HttpClient(members) as client:
        await safe(client)
        copies, behind = await figure(members, "copies"), "copies_not_current"
        safe_now = {"cluster_safe": 1, "majority": 1, behind: 0, "cluster_members": 3, "ready": 1}
        assert {name: await figure(members, name) for name in safe_now} == safe_now
        commits = await figure(members, COMMITS)
        assert await client.put(0, "a", "k", "v")
        assert await client.offer(0, "waits", "item")
        assert await figure(members, COMMITS) > commits
        await members.kill(2)
        await eventually(lambda: _says(members, "no word from m2", "cluster-safe"))
        await members.kill(1)
        await eventually(lambda: _says(members, "no majority"))
        assert not await client.healthy(0, "cluster-safe")

        async def noticed() -> bool:
            return await figure(members, behind) > copies / 3  # which is looked at once a second

        await eventually(noticed)
        assert await _answers(members) == dict.fromkeys(ASKED, 503)
        alone = {"cluster_safe": 0, "majority": 0, "copies": copies, "ready": 0}
        assert {name: await figure(members, name) for name in alone} == alone
        for member in (1, 2):
            members.start(member)
        await eventually(lambda: client.healthy(0, "ready"))
        assert await client.put(0, "a", "k", "v")
        assert await client.poll(0, "waits", 0) == "item"
        back = await _answers(members, OF_DATA)
        refused = [request for request, status in back.items() if status == 503]
        assert not refused or await why_not(members, 0), refused
        await safe(client)
        assert {name: await figure(members, name) for name in safe_now} == safe_now


async def _answers(
    members: Members, requests: Sequence[tuple[str, str, str]] = ASKED
) -> dict[tuple[str, str, str], int]:
    """Return the status of each answer of the first member, all of them asked at once."""

    async def ask(method: str, path: str, body: str) -> int:
        url = f"http://{members.host(0)}:{members.rest_ports[0]}/grid/rest/{path}"
        async with session.request(method, url, data=body or None) as answer:
            assert answer.status != 503 or answer.headers["X-Grid-Error"], path
            return answer.status

    async with aiohttp.ClientSession() as session:
        statuses = await asyncio.gather(*(ask(*one) for one in requests))
        return dict(zip(requests, statuses, strict=True))


async def figure(members: Members, name: str) -> float:
    """Return a figure that the first member's metrics tell."""
    text = await metrics(members, 0)
    return float(text.rpartition(f"\ngrid_{name} ")[2].partition("\n")[0])


async def _says(members: Members, reason: str, check: str = "ready") -> bool:
    return reason in await why_not(members, 0, check)
