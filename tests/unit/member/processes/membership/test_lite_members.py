"""Members with data that are killed and restarted under a lite member, which goes on serving."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Final

import pytest

from tests.unit.engine.cluster.load import Load, told
from tests.unit.engine.replicated.faults.test_faults import answered
from tests.unit.member.processes.faults.test_processes import held_item, known, safe, taken
from tests.unit.member.processes.processes import HttpClient, Members

LITE: Final = 3
OF_DATA: Final = (0, 1, 2)
FORWARDED: Final = "requests are forwarded to the member "
MIB: Final = 1 << 20
VALUES: Final = 48
"""Of a MiB each; a third of them is in the shard that the lite member has, too."""
pytestmark = pytest.mark.timeout(240)


async def host_of(
    members: Members, client: HttpClient, known_before: int = 0, asker: int = LITE
) -> int:
    """Return the member that the lite one asks; it was told of so many before."""
    uuid = await asyncio.to_thread(_forwarded_to, members, asker, known_before)
    document = json.loads(await client._ask(asker, "GET", "/cluster") or "")
    address = next(one["address"] for one in document["members"] if one["uuid"] == uuid)
    return members.rest_ports.index(int(address.rpartition(":")[2]))


def _forwarded_to(members: Members, asker: int, known_before: int) -> str:
    """Read on in the log of the member that asks until it tells of one more."""
    process = members.processes[asker]
    with contextlib.closing(process._entries()) as entries:
        while True:
            said = [entry["message"] for entry in process.log]
            found = [str(one) for one in said if one.startswith(FORWARDED)]
            if len(found) > known_before:
                return found[-1].removeprefix(FORWARDED)
            next(entries)


def resident_bytes(members: Members, member: int) -> int:
    pid = members.processes[member].process.pid
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


async def test_a_lite_member_has_not_the_memory_that_data_takes(tmp_path: Path) -> None:
    async with Members(tmp_path, durable=False, size=4, lite=(LITE,)) as members:
        async with HttpClient(members) as client:
            before = [resident_bytes(members, member) for member in range(members.size)]
            names = [f"map{number}" for number in range(VALUES)]
            for name in names:
                assert await client.put(LITE, name, "k", "x" * MIB)
            for member in (0, LITE):
                assert await client.get(member, names[0], "k") == "x" * MIB
            await client.get(LITE, names[-1], "k")
            grown = [
                resident_bytes(members, member) - before[member] for member in range(members.size)
            ]
        assert min(grown[member] for member in OF_DATA) > VALUES * MIB * 3 // 4, grown
        assert grown[LITE] < VALUES * MIB // 3, grown


async def test_a_lite_member_goes_on_when_its_host_is_killed(tmp_path: Path) -> None:
    async with (
        Members(tmp_path, durable=False, size=4, lite=(LITE,)) as members,
        HttpClient(members) as client,
        Load(client, members.size) as load,
    ):
        for turn in range(2):
            await load.progress()
            victim = await host_of(members, client, turn)
            others = [member for member in range(members.size) if member != victim]
            begun_s = time.monotonic()
            await members.kill(victim)
            await load.progress(*others)
            members.start(victim)
            await members.ready(victim)
            await known(client, LITE, members.size)
            await safe(client)
            for crashed in (victim, LITE):  # whose items the victim had in flight
                load.crashed(crashed, begun_s)
        await load.progress()
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


async def test_a_lite_member_hands_over_when_its_host_is_restarted(tmp_path: Path) -> None:
    async with (
        Members(tmp_path, durable=True, size=4, lite=(LITE,)) as members,
        HttpClient(members) as client,
    ):
        ended = False

        async def use(number: int) -> None:
            turn = 0
            while not ended:
                turn += 1
                await answered(client.put, LITE, f"m{number}", "k", f"{turn}")
                assert await answered(client.get, LITE, f"m{number}", "k") == f"{turn}"

        users = [asyncio.ensure_future(use(number)) for number in range(6)]
        waiting = asyncio.ensure_future(taken(client, LITE, "q"))
        await members.restart(await host_of(members, client))
        await safe(client)
        assert await client.offer(0, "q", "item")
        assert await waiting == "item"
        ended = True
        await asyncio.gather(*users)


async def test_items_return_when_a_lite_member_is_killed(tmp_path: Path) -> None:
    async with (
        Members(tmp_path, durable=False, size=4, lite=(LITE,)) as members,
        HttpClient(members) as client,
    ):
        assert await client.offer(LITE, "q", "x" * (7 * MIB))
        with await asyncio.to_thread(held_item, members, LITE, "q"):
            await members.kill(LITE)
            assert len(await taken(client, 0, "q")) == 7 * MIB
