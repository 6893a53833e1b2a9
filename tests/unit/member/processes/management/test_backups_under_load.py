"""Backups of three processes that somebody writes to, and that somebody else interrupts."""

from __future__ import annotations

import asyncio
import os
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member.command.restore import restore
from tests.unit.member.durable import durable
from tests.unit.member.processes.management.test_backups import asked, ended, persistence
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.member.running import MemberProcess
from tests.unit.waiting import eventually, until

if TYPE_CHECKING:
    from pathlib import Path

WRITERS: Final = 6
MAPS: Final = ("a", "s", "map0", "map1")
"""Of several shards, each of which has a log of its own."""
BEFORE: Final = 50
BIG: Final = "v" * (1 << 20)
BIG_ENTRIES: Final = 200
"""A backup of them takes long enough for somebody else to interrupt it."""
pytestmark = pytest.mark.timeout(300)


class Writers:
    """Each counts up in one map after the other; a number is written when the last is answered."""

    def __init__(self, client: HttpClient) -> None:
        self.reached = [0] * WRITERS
        self.ends = False
        self._client = client

    async def write(self, writer: int) -> None:
        for number in count(1):
            if self.ends:
                return
            name = MAPS[number % len(MAPS)]
            assert await self._client.put(writer % 3, name, f"w{writer}", str(number))
            self.reached[writer] = number


async def kept(client: HttpClient, writer: int) -> list[int]:
    """Return the last numbers of a writer in the order in which they were written."""
    values = [await client.get(0, name, f"w{writer}") for name in MAPS]
    return sorted(int(value) for value in values if value)


async def test_a_backup_that_is_made_while_all_write_is_of_one_moment(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    first = Members(tmp_path, durable=True, persistence=persistence(backups))
    async with first, HttpClient(first) as client:
        await eventually(client.safe)
        writers = Writers(client)
        tasks = [asyncio.ensure_future(writers.write(writer)) for writer in range(WRITERS)]
        await until(lambda: min(writers.reached) > BEFORE or any(one.done() for one in tasks))
        asked_at = list(writers.reached)
        assert await asked(first.rest_ports[1], "backup") == (200, {"status": "success"})
        done = await ended(first.rest_ports[2])
        assert (done["stage"], done["error"]) == ("FINISHED", None)
        answered_at = list(writers.reached)
        await until(lambda: min(writers.reached) > max(answered_at) + BEFORE)
        writers.ends = True
        await asyncio.gather(*tasks)
    assert restore(backups / "backup-1", tmp_path / "alone") == 0
    alone = MemberProcess(durable(tmp_path / "alone"), tmp_path / "alone-config")
    try:
        await asyncio.to_thread(alone.wait_for, "ready")
        first.rest_ports = [alone.port]
        async with HttpClient(first) as client:
            for writer in range(WRITERS):
                numbers = await kept(client, writer)
                assert numbers == list(range(numbers[-1] - len(MAPS) + 1, numbers[-1] + 1))
                assert asked_at[writer] <= numbers[-1] <= answered_at[writer] + 1
    finally:
        await asyncio.to_thread(alone.kill)


async def test_another_member_interrupts_a_backup(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    made = Members(tmp_path, durable=True, persistence=persistence(backups))
    async with made as members, HttpClient(members) as client:
        await eventually(client.safe)
        for number in range(BIG_ENTRIES):
            assert await client.put(number % 3, f"map{number % 9}", f"k{number}", BIG)
        making, other, third = members.rest_ports[:3]

        async def under_way() -> Any:
            _, found = await asked(other, "operations")
            return [one for one in found if one["stage"] in {"STARTED", "IN_PROGRESS"}]

        begun = asyncio.ensure_future(asked(making, "backup"))
        assert await eventually(under_way)
        assert await asked(other, "backupInterrupt") == (200, {"status": "success"})
        assert await begun == (200, {"status": "success"})
        done = await ended(third)
        assert (done["stage"], done["error"]) == ("FAILED", "the backup was interrupted")
        assert os.listdir(backups) == []
        assert await asked(third, "backup") == (200, {"status": "success"})
        done = await ended(other)
        assert (done["stage"], done["error"]) == ("FINISHED", None)
        assert os.listdir(backups) == ["backup-1"]
