"""Members that are killed, stand still and are restarted while clients use all of them.

With GRID_SOAK_SECONDS it goes on for so many seconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

from tests.unit.engine.cluster.checker import NOTHING
from tests.unit.engine.cluster.load import Load, told
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOAK_S: Final = float(os.environ.get("GRID_SOAK_SECONDS", "0"))
PATIENCE_S: Final = 40.0
LARGE: Final = "x" * (7 << 20)
"""Does not fit into the buffers of a connection that nobody reads."""
Step: TypeAlias = Callable[[Members, HttpClient, Load], Awaitable[None]]
pytestmark = pytest.mark.timeout(180 + 2 * SOAK_S)


def rounds() -> Iterator[None]:
    """Give one round, or as many as the time allows."""
    begun_s = time.monotonic()
    yield
    while time.monotonic() - begun_s < SOAK_S:
        yield


async def known(client: HttpClient, asked: int, count: int) -> None:
    """Wait until a member knows so many members."""

    async def knows() -> bool:
        return await client.size(asked) == count

    await eventually(knows)


async def safe(client: HttpClient) -> None:
    """Wait until every member says that all copies are current."""
    await eventually(client.safe)


async def taken(client: HttpClient, member: int, queue: str) -> str:
    """Poll until there is an item."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            item = await client.poll(member, queue, 2)
            if item:
                return item


def held_item(members: Members, member: int, queue: str) -> socket.socket:
    """Poll an item and do not read it: it stays in flight on that member."""
    taker = socket.socket()
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    taker.settimeout(PATIENCE_S)
    taker.connect((members.host(member), members.rest_ports[member]))
    taker.sendall(f"DELETE /grid/rest/queues/{queue}/20 HTTP/1.1\r\nHost: grid\r\n\r\n".encode())
    assert taker.recv(12) == b"HTTP/1.1 200"
    return taker


async def one_is_killed(members: Members, client: HttpClient, load: Load) -> None:
    """What it had taken and not handed over is taken by another one; it comes back."""
    victim, *others = sample(members)
    assert await client.offer(others[0], "large", LARGE)
    with await asyncio.to_thread(held_item, members, victim, "large"):
        begun_s = time.monotonic()
        await members.kill(victim)
    assert await taken(client, others[0], "large") == LARGE
    await load.progress(*others)
    members.start(victim)
    await members.ready(victim)
    load.crashed(victim, begun_s)


async def one_stands_still(members: Members, client: HttpClient, load: Load) -> None:
    """It is taken for gone, and begins anew when it wakes up."""
    victim, *others = sample(members)
    assert await client.offer(others[0], "large", LARGE)
    with await asyncio.to_thread(held_item, members, victim, "large"):
        begun_s = time.monotonic()
        members.signal(victim, signal.SIGSTOP)
        try:
            await known(client, others[0], members.size - 1)
            assert await taken(client, others[1], "large") == LARGE
            await load.progress(*others)
        finally:
            members.signal(victim, signal.SIGCONT)
        await known(client, victim, members.size)
        load.crashed(victim, begun_s)
    await load.progress()
    assert await client.poll(others[0], "large", 0) == NOTHING


async def all_are_killed(members: Members, client: HttpClient, load: Load) -> None:
    """They come back in any order with everything that was answered."""
    begun_s = time.monotonic()
    await members.kill(*range(members.size))
    for member in sample(members):
        members.start(member)
    for member in range(members.size):
        await members.ready(member)
        load.crashed(member, begun_s)


async def all_are_restarted(members: Members, client: HttpClient, load: Load) -> None:
    """Clients that try again fail never, and nothing is excused."""
    client.patient, client.failed, client.tried_again = True, [], 0
    for member in range(members.size):
        # As whoever restarts members is told to: not the next one before this is so.
        await safe(client)
        await members.restart(member)
    await load.progress()
    assert client.failed == []
    assert client.tried_again > 0, "no member was away"
    client.patient = False


def sample(members: Members) -> list[int]:
    return random.sample(range(members.size), members.size)


@pytest.mark.parametrize(
    ("durable", "steps"),
    [
        (False, [all_are_restarted, one_is_killed]),
        (True, [all_are_restarted, all_are_killed, one_stands_still]),
    ],
    ids=["memory", "disk"],
)
async def test_nothing_is_lost_doubled_or_stale_whatever_befalls_members(
    durable: bool, steps: list[Step], tmp_path: Path
) -> None:
    async with (
        Members(tmp_path, durable=durable) as members,
        HttpClient(members) as client,
        Load(client, members.size) as load,
    ):
        for _ in rounds():
            for step in steps:
                await load.progress()
                await step(members, client, load)
        await load.progress()
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)
