"""Nine processes that are killed and emptied, become seven and all come back: for `make soak`.

Many servers on few cores: they take minutes. CI has nine members in one process instead
(tests/unit/engine/replicated/engine/test_nine.py).
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.engine.cluster.load import Load, told
from tests.unit.member.processes.faults.test_processes import SOAK_S, rounds, safe
from tests.unit.member.processes.membership.test_growing import ended
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

NINE: Final = 9
SEVEN: Final = 7
SOME: Final = 5
"""Operations of each kind on each member."""
PATIENCE_S: Final = 240.0
"""Until all copies are current again: a new disk is copied to while nine are used."""
pytestmark = pytest.mark.timeout(900 + 3 * SOAK_S)


async def one_is_killed(
    members: Members, client: HttpClient, load: Load, directory: Path | None = None
) -> None:
    """It comes back; where its directory is to be found, on an empty disk."""
    victim = random.randrange(members.size)
    begun_s = time.monotonic()
    await members.kill(victim)
    if directory is not None:
        shutil.rmtree(directory / f"m{victim}" / "data")
    await load.progress(*(one for one in range(NINE) if one != victim), count=SOME)
    members.start(victim)
    await members.ready(victim)
    await load.progress(count=SOME)
    await eventually(client.safe, PATIENCE_S)
    for member in range(NINE):  # whose items the victim may have had in flight
        load.crashed(member, begun_s)


async def some_leave(members: Members, client: HttpClient) -> None:
    """Those behind the seventh leave for good, one after the other, and no client fails."""
    for leaving in reversed(range(SEVEN, NINE)):
        operation = await client.leave(leaving)
        assert await ended(members, leaving) == 0
        assert (await client.operation(0, operation))["stage"] == "FINISHED"
        left = range(leaving)
        await eventually(lambda left=left: client.safe(*left), PATIENCE_S)  # type: ignore[misc]
    assert client.failed == []


async def all_end(members: Members, load: Load, sent: signal.Signals) -> None:
    """The seven end at once, and come back with lists of seven."""
    begun_s = time.monotonic()
    for member in range(SEVEN):
        members.known[member] = SEVEN
        members.signal(member, sent)
    for member in range(SEVEN):
        assert await ended(members, member) == (0 if sent == signal.SIGTERM else -sent)
    for member in random.sample(range(SEVEN), SEVEN):
        members.start(member)
    await asyncio.gather(*map(members.ready, range(SEVEN)))
    for member in range(NINE):
        load.crashed(member, begun_s)
    await load.progress(count=SOME)


if SOAK_S:

    async def test_nine_members_become_seven_and_nothing_is_lost_doubled_or_stale(
        tmp_path: Path,
    ) -> None:
        async with (
            Members(tmp_path, durable=True, size=NINE) as members,
            HttpClient(members) as client,
            Load(client, NINE) as load,
        ):
            for _ in rounds():
                await load.progress(count=SOME)
                await safe(client)
                await one_is_killed(members, client, load)
                await one_is_killed(members, client, load, tmp_path)
            client.patient = True
            await load.progress(count=SOME)
            await some_leave(members, client)
            for sent in (signal.SIGTERM, signal.SIGKILL):
                await all_end(members, load, sent)
            history = await load.drained()
        faults = history.faults()
        assert not faults, told(faults)
