"""Members that come and go for good while clients use the others; and one whose disk is empty."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unit.engine.cluster.load import Load, told
from tests.unit.member.processes.faults.test_readiness import figure
from tests.unit.member.processes.management.test_managed import call
from tests.unit.member.processes.processes import METRICS, HttpClient, Members
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Iterable
    from pathlib import Path

FEW, MANY = 3, 5
END_S: Final = 120.0
pytestmark = pytest.mark.timeout(400)


async def ended(members: Members, number: int) -> int:
    """Wait until a process has ended by itself; return its status."""
    return await asyncio.wait_for(asyncio.to_thread(members.processes[number].end), END_S)


def about_leaving(members: Members, number: int) -> list[dict[str, object]]:
    """Return all that a member's log says of leaving."""
    log = members.processes[number].log
    return [line for line in log if re.search("leav|left", json.dumps(line))]


async def most_at_once(client: HttpClient, operations: Iterable[str], going: Future[Any]) -> int:
    """Return how many members left at once at most, as their operations tell, until all are gone.

    One whose turn has not come is at 0 %.
    """
    most = 0
    while not going.done():
        found = [await client.operation(0, operation) for operation in operations]
        most = max(most, sum(one["progress"] != 0 and one["finished"] is None for one in found))
    return most


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
async def test_three_members_become_five_and_three_again_while_they_serve(
    durable: bool, tmp_path: Path
) -> None:
    async with (
        Members(tmp_path, durable=durable, size=FEW, most=MANY, backup_count=2) as members,
        HttpClient(members) as client,
        Load(client, FEW) as load,
    ):
        client.patient = True
        await load.progress()
        for number in range(FEW, MANY):
            members.known[number] = MANY  # the others go on with lists of three
            members.start(number)
            await members.ready(number)
        # With a backup-count of two, five members are five copies.
        await eventually(client.safe)
        assert await client.size(0) == MANY
        await load.progress()

        leaving = [await client.leave(number) for number in range(FEW, MANY)]
        assert await client.leave(FEW) == leaving[0]  # it goes on with what was begun
        going = asyncio.gather(
            *(ended(members, number) for number in range(FEW, MANY)), return_exceptions=True
        )
        assert await most_at_once(client, leaving, going) == 1
        ends = await going
        operations = [await client.operation(0, operation) for operation in leaving]
        logs = [about_leaving(members, number) for number in range(FEW, MANY)]
        assert ends == [0, 0], json.dumps([list(map(repr, ends)), operations, logs], indent=1)
        for operation in leaving:
            assert (await client.operation(0, operation))["stage"] == "FINISHED"
        for number in range(FEW):
            await eventually(lambda number=number: _has_size(client, number, FEW))  # type: ignore[misc]
        await eventually(lambda: client.safe(*range(FEW)))
        await load.progress()
        assert client.failed == []
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


async def test_no_copies_are_moved_in_a_state_that_forbids_it(tmp_path: Path) -> None:
    made = Members(tmp_path, durable=True, size=FEW, most=MANY, backup_count=2, settings=METRICS)
    async with made as members, HttpClient(members) as client:
        await eventually(lambda: client.safe(*range(FEW)))
        copies = await figure(members, "copies")
        wanted = copies / FEW * MANY

        async def lack() -> bool:
            figures = [await figure(members, name) for name in ("copies", "copies_not_current")]
            return figures == [wanted, wanted - copies]

        await is_in(members, "no_migration")
        for number in range(FEW, MANY):
            members.known[number] = MANY
            members.start(number)
            await members.ready(number)
            assert await client.put(number, "m", f"k{number}", "v")
        await eventually(lack)
        await members.restart(MANY - 1)  # in which time the copies would have been made
        await eventually(lack)

        await is_in(members, "active")
        await eventually(client.safe)
        await is_in(members, "frozen")
        leaving = await client.leave(MANY - 1)

        async def waits() -> bool:
            return "lets no copies be moved" in str((await client.operation(0, leaving))["error"])

        await eventually(waits)
        assert await client.safe()
        assert await client.get(MANY - 1, "m", f"k{FEW}") == "v"
        await is_in(members, "active")
        assert await ended(members, MANY - 1) == 0
        assert (await client.operation(0, leaving))["stage"] == "FINISHED"
        assert await client.get(0, "m", f"k{FEW}") == "v"


async def is_in(members: Members, wanted: str) -> None:
    """Bring the cluster into a state."""
    changed = await eventually(lambda: _changed(members, wanted))
    assert changed == {"status": "success", "state": wanted}


async def _changed(members: Members, wanted: str) -> object:
    reply = await call(members, 0, "rest/management/cluster/changeState", f"dev&&{wanted}")
    if reply.status == 409:  # while copies are moved
        return None
    return reply.found


async def test_a_member_with_an_empty_disk_gets_everything_anew(tmp_path: Path) -> None:
    victim = 1
    async with (
        Members(tmp_path, durable=True) as members,
        HttpClient(members) as client,
    ):
        await eventually(client.safe)
        for number in range(50):
            assert await client.put(0, f"m{number}", "k", str(number))
        await members.kill(victim)
        kept = tmp_path / "kept"
        (tmp_path / f"m{victim}" / "data").rename(kept)
        members.start(victim)
        await members.ready(victim)
        await eventually(lambda: client.healthy(victim, "ready"))
        await eventually(client.safe)
        for number in range(50):
            assert await client.get(victim, f"m{number}", "k") == str(number)

        # What it had before must not come back: the others count on what it has now.
        await members.kill(victim)
        shutil.rmtree(tmp_path / f"m{victim}" / "data")
        kept.rename(tmp_path / f"m{victim}" / "data")
        members.start(victim)
        assert await ended(members, victim) != 0
        said = " ".join(str(line) for line in members.processes[victim].log)
        assert "empty" in said
        assert "start the member again" in said

        shutil.rmtree(tmp_path / f"m{victim}" / "data")
        members.start(victim)
        await members.ready(victim)
        await eventually(client.safe)


async def _has_size(client: HttpClient, member: int, size: int) -> bool:
    return await client.size(member) == size
