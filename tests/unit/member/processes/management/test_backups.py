"""What three processes backed up begins a cluster of others, and a member that is alone."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import pytest

from grid_member.command import EXIT_START
from grid_member.command.restore import restore
from grid_member.engine.replicated.import_backup import IMPORT
from grid_member.engine.storage.store import CLUSTER
from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.durable import durable
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.member.running import MemberProcess

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S: Final = 60.0
ENTRIES: Final = 120
VALUE: Final = "v" * (64 << 10)
"""All of them together take a while to be imported."""
ROUNDS: Final = ((3, 0.0), (5, 0.3), (7, 0.9))
"""How many members begin with the backup, of seven some hold a part only; and how long after it
began the importer is killed: while it copies, while it writes, when it is done or nearly so."""
pytestmark = pytest.mark.timeout(300)


def persistence(backups: Path, restored: Path | None = None) -> str:
    more = "" if restored is None else f", restore-from: {restored}"
    return f", backup-dir: {backups}{more}"


async def filled(client: HttpClient) -> None:
    for number in range(ENTRIES):
        assert await client.put(number % 3, f"map{number % 9}", f"k{number}", f"{number}{VALUE}")
        assert await client.offer(number % 3, f"queue{number % 4}", f"{number}")


async def check(client: HttpClient, members: int) -> None:
    """Read all that `filled` wrote, and take some of it in its order."""
    for number in range(ENTRIES):
        found = await client.get(number % members, f"map{number % 9}", f"k{number}")
        assert found == f"{number}{VALUE}"
    for number in range(ENTRIES):
        assert await client.poll(number % members, f"queue{number % 4}", 0) == f"{number}"


async def asked(port: int, call: str) -> tuple[int, Any]:
    url = f"http://{HOST}:{port}/grid/rest/management/cluster/{call}"
    method = "GET" if call == "operations" else "POST"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=None if method == "GET" else b"dev&") as response,
    ):
        return response.status, json.loads(await response.text())


async def ended(port: int) -> dict[str, Any]:
    """Wait for the end of the operation that a member shows, and return it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status, found = await asked(port, "operations")
            if status == 200 and found and found[-1]["finished"] is not None:
                return dict(found[-1])
            await asyncio.sleep(0.05)


async def importer(directory: Path, size: int) -> int:
    """Wait until a member has the backup's copy; return which."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            copying = await asyncio.to_thread(
                lambda: [
                    number
                    for number in range(size)
                    if (directory / f"m{number}" / "data" / CLUSTER / IMPORT).exists()
                ]
            )
            if copying:
                return copying[0]
            await asyncio.sleep(0.01)


async def test_a_backup_of_three_begins_others_whose_importer_is_killed(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    (tmp_path / "first").mkdir()
    first = Members(tmp_path / "first", durable=True, persistence=persistence(backups))
    async with first, HttpClient(first) as client:
        await filled(client)
        assert await asked(first.rest_ports[1], "backup") == (200, {"status": "success"})
        for port in first.rest_ports:
            done = await ended(port)
            assert (done["kind"], done["stage"], done["error"]) == ("backup", "FINISHED", None)
    assert os.listdir(backups) == ["backup-1"]
    for size, delay_s in ROUNDS:
        directory = tmp_path / f"next{size}"
        directory.mkdir()
        await imported(directory, size, persistence(backups, backups / "backup-1"), delay_s)
    await prepared(tmp_path / "prepared", backups)
    assert restore(backups / "backup-1", tmp_path / "alone") == 0
    alone = MemberProcess(durable(tmp_path / "alone"), tmp_path / "alone-config")
    try:
        await asyncio.to_thread(alone.wait_for, "ready")
        first.rest_ports = [alone.port]
        async with HttpClient(first) as client:
            await check(client, 1)
    finally:
        await asyncio.to_thread(alone.kill)


async def prepared(directory: Path, backups: Path) -> None:
    """Start members of which one has the backup in its directory; the others know that it has."""
    base = directory / "m1" / "data"
    for _ in range(2):
        assert restore(backups, base, newest=True, once=True, several=True) == 0
    text = persistence(backups, backups / "not-on-this-machine")
    members = Members(directory, durable=True, persistence=text)
    async with members, HttpClient(members) as client:
        found = (await asked(members.rest_ports[1], "operations"))[1]
        assert [one["kind"] for one in found] == ["restore"]
        await check(client, 3)
    assert restore(backups, base, newest=True, once=True, several=True) == EXIT_START


async def imported(directory: Path, size: int, text: str, delay_s: float) -> None:
    """Start members with a backup and kill the one that imports it; check what they have then."""
    members = Members(directory, durable=True, size=size, persistence=text)
    try:
        for number in range(size):
            members.start(number)
        victim = await importer(directory, size)
        await asyncio.sleep(delay_s)
        await members.kill(victim)
        members.start(victim)
        for number in range(size):
            await members.ready(number)
        async with HttpClient(members) as client:
            await check(client, size)
    finally:
        await members.__aexit__()


async def test_a_backup_that_a_lite_member_was_asked_for_is_made_by_one_with_data(
    tmp_path: Path,
) -> None:
    lite, backups = 2, tmp_path / "backups"
    more = persistence(backups)
    async with (
        Members(tmp_path, durable=True, lite=(lite,), persistence=more) as members,
        HttpClient(members) as client,
    ):
        assert await client.put(lite, "m", "k", "v")
        port = members.rest_ports[lite]
        assert await asked(port, "backup") == (200, {"status": "success"})
        done = await ended(port)
        assert (done["kind"], done["stage"], done["error"]) == ("backup", "FINISHED", None)
        assert await asked(port, "backupInterrupt") == (200, {"status": "success"})
    assert restore(backups / "backup-1", tmp_path / "alone") == 0
