"""The power fails under members with persistence: nothing that was answered is lost.

Each has a disk that keeps what was synced and, at a cut, no more, or any part of the rest
(tests/unit/power). With GRID_SOAK_SECONDS it goes on for so many seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.engine.cluster.load import told
from tests.unit.member.processes.faults.powered import Answered, Powered, Writing, check
from tests.unit.member.processes.processes import HttpClient
from tests.unit.power.machines import Machines, machines_work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SOAK_S: Final = float(os.environ.get("GRID_SOAK_SECONDS", "0"))
EVERYBODY: Final = (0, 1, 2)
FEW: Final = 1
SOME: Final = 200
"""Writes of each member."""
UNSYNCED: Final = (sys.executable, "-m", "tests.unit.member.processes.faults.unsynced")
pytestmark = pytest.mark.timeout(300 + 2 * SOAK_S)


@contextlib.asynccontextmanager
async def powered(
    directory: Path, before: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Powered, HttpClient]]:
    """Have members on machines of their own, and a client."""
    with Machines(Powered.places(directory)) as machines:
        async with (
            Powered(directory, machines, before=before) as members,
            HttpClient(members) as client,
        ):
            yield members, client


async def fail_again_and_again(directory: Path, chance: random.Random) -> Answered:
    """Have the power of all fail when little was written, much, and while they come back."""
    answered = Answered()
    async with powered(directory) as (members, client):
        for number, (count, seeded) in enumerate(((FEW, False), (SOME, True), (SOME, False))):
            async with Writing(client, members.size, answered, f"c{number}") as writing:
                await writing.progress(count)
                seed = chance.randrange(1 << 32) if seeded else None
                lost = await members.fail(*EVERYBODY, seed=seed)
            assert all(one.syncs for one in lost)
            if seeded:
                await fail_at_the_start(members, chance)
            await members.back(*chance.sample(EVERYBODY, members.size))
            await check(client, EVERYBODY, answered)
            assert not answered.faults, told(answered.faults[:10])
    return answered


async def fail_at_the_start(members: Powered, chance: random.Random) -> None:
    """Have the power fail once more at any moment before all members serve."""
    for number in EVERYBODY:
        members.start(number)
    serving = asyncio.gather(*(members.ready(number) for number in EVERYBODY))
    await asyncio.wait([serving], timeout=chance.uniform(1, 10))
    await members.fail(*EVERYBODY, seed=chance.randrange(1 << 32))
    await asyncio.gather(serving, return_exceptions=True)


async def fail_one_by_one(members: Powered, client: HttpClient, answered: Answered) -> None:
    """Have one fail and come back, then fail again, and the two others before it is back."""
    one, witness, other = random.sample(EVERYBODY, 3)
    async with Writing(client, members.size, answered, "c") as writing:
        await writing.progress(SOME)
        await members.fail(one)
        await writing.progress(SOME, witness, other)
        await members.back(one)
        await writing.progress(SOME)
        await members.fail(one)
        await writing.progress(SOME, witness, other)
        await members.fail(witness, other)
    # What was answered since the one was gone is on the witness's disk alone.
    await members.back(one, witness)
    await check(client, (one, witness), answered)
    await members.back(other)
    await check(client, EVERYBODY, answered)


if machines_work():

    async def test_nothing_answered_is_lost_when_the_power_of_all_fails(tmp_path: Path) -> None:
        begun_s = time.monotonic()
        for number in itertools.count():
            seed = random.randrange(1 << 32)
            print(f"seed {seed}")  # noqa: T201 - to have the same cuts once more
            answered = await fail_again_and_again(tmp_path / f"{number}", random.Random(seed))
            print(f"{answered.done.total()} writes answered")  # noqa: T201
            if time.monotonic() - begun_s >= SOAK_S:
                break

    async def test_the_others_go_on_when_the_power_of_one_fails(tmp_path: Path) -> None:
        answered = Answered()
        async with powered(tmp_path) as (members, client):
            await fail_one_by_one(members, client, answered)
        assert not answered.faults, told(answered.faults[:10])

    async def test_servers_that_sync_now_and_then_are_caught(tmp_path: Path) -> None:
        answered = Answered()
        async with powered(tmp_path, UNSYNCED) as (members, client):
            async with Writing(client, members.size, answered, "c") as writing:
                await writing.progress(SOME)
                await members.fail(*EVERYBODY)
            await members.back(*EVERYBODY)
            await check(client, EVERYBODY, answered)
        assert answered.faults
