"""Rolling restarts under clients with a connection for each request: none of these fails.

They ask a HAProxy that repeats no request.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.member.processes.balancers.balancers import balancing, printed, replaced
from tests.unit.member.processes.balancers.test_load_balancers import left_in_queue, loaded, worked
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.ports import HOST
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.processes.balancers.test_load_balancers import Load

DRAIN: Final = "  shutdown: {drain-seconds: 5}\n"


def unrepeated() -> str:
    """Return the printed configuration without what repeats a request, or keeps a connection."""
    text = re.sub(r"    retry-on .*\n", "", printed("haproxy"))
    never = "    retries 0\n    http-reuse never\n"
    return replaced(text, ("    retries 3\n    option redispatch 1\n", never))


async def restart(members: Members, number: int) -> None:
    """Stop a member by each of the ways in turn, and start it again."""
    if number % 2:
        await members.asked(number, "memberShutdown")
        await members.logged(number, "draining")
    members.signal(number, signal.SIGTERM)
    assert await asyncio.to_thread(members.processes[number].end) == 0
    members.start(number)
    await members.ready(number)


async def roll(members: Members, client: HttpClient, load: Load) -> None:
    for number in range(members.size):
        await restart(members, number)
        await eventually(client.safe)
        await worked(load)


@pytest.mark.timeout(240)
async def test_no_request_fails_that_is_not_repeated(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        members = await stack.enter_async_context(Members(tmp_path, durable=False, settings=DRAIN))
        client = await stack.enter_async_context(HttpClient(members))
        await eventually(client.safe)
        balancer = balancing("haproxy", unrepeated(), members.rest_ports, tmp_path / "haproxy")
        url = await stack.enter_async_context(balancer)
        async with loaded(url, "drain", kept=False) as load:
            await roll(members, client, load)
        left = await left_in_queue(f"http://{HOST}:{members.rest_ports[0]}/grid")
    assert (load.failed, load.failed_offers) == ([], [])
    assert sorted(load.offered) == sorted(itertools.chain(load.polled, left))
