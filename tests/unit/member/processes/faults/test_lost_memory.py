"""Processes in memory whose nats-servers are killed, alone and together with members."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.engine.cluster import load as load_module
from tests.unit.engine.cluster.load import MAPS, Load, told
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HEALED_S: Final = 120.0
KEYS: Final = 30
pytestmark = pytest.mark.timeout(480)


def kill_servers(members: Members, numbers: Iterable[int]) -> None:
    for pid in [members.server_of(number) for number in numbers]:
        os.kill(pid, signal.SIGKILL)


async def test_what_living_members_hold_outlives_all_servers_and_members_that_end_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "PATIENCE_S", HEALED_S)
    names = [(name, f"k{number}") for name in MAPS for number in range(KEYS)]

    async def has_all(client: HttpClient, member: int) -> bool:
        for name, key in names:
            if await client.get(member, name, key) != "kept":
                return False
        return True

    async def kept(client: HttpClient, member: int, name: tuple[str, str]) -> bool:
        # A member may read a log that was written back later than another one does.
        return bool(await client.put(member, *name, "kept"))

    async with Members(tmp_path, durable=False) as members, HttpClient(members) as client:
        async with Load(client, members.size) as load:
            await load.progress()
            kill_servers(members, range(members.size))
            await load.progress()
            history = await load.drained()
        faults = history.faults()
        assert not faults, told(faults)
        for ended in ([1], [0, 2]):  # one, then most of them
            living = [member for member in range(members.size) if member not in ended]
            for name in names:
                await eventually(partial(kept, client, ended[0], name), HEALED_S)
            assert await has_all(client, living[0])
            kill_servers(members, living)
            await members.kill(*ended)
            for member in ended:
                await asyncio.to_thread(members.start, member)
            for member in range(members.size):
                await eventually(partial(has_all, client, member), HEALED_S)
