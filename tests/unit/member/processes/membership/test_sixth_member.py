"""Six processes: five hold everything, and the sixth asks them for what it lacks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.command.restore import restore
from grid_member.engine.cluster_settings import MAX_FULL_REPLICAS
from tests.unit.engine.cluster.load import MAPS, Load, told
from tests.unit.member.durable import durable as durable_configuration
from tests.unit.member.processes.faults.test_processes import all_are_restarted, known, safe
from tests.unit.member.processes.management.test_backups import asked, ended, persistence
from tests.unit.member.processes.membership.test_lite_members import FORWARDED, host_of
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.member.running import MemberProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SIZE: Final = MAX_FULL_REPLICAS + 1
pytestmark = pytest.mark.timeout(240)


@contextlib.asynccontextmanager
async def six(
    directory: Path, *, durable: bool, more: str = ""
) -> AsyncIterator[tuple[Members, HttpClient]]:
    """Give members that are ready, and all copies current."""
    members = Members(directory, durable=durable, size=SIZE, persistence=more)
    async with members, HttpClient(members) as client:
        await safe(client)
        yield members, client


def asking(members: Members) -> int:
    """Return the one member that asked another one before it was ready."""
    (found,) = (
        number
        for number, process in members.processes.items()
        if any(str(entry["message"]).startswith(FORWARDED) for entry in process.log)
    )
    return found


async def test_six_serve_while_holders_are_killed(tmp_path: Path) -> None:
    async with (
        six(tmp_path, durable=False) as (members, client),
        Load(client, SIZE) as load,
    ):
        await load.progress()
        sixth = asking(members)
        victim = await host_of(members, client, asker=sixth)
        begun_s = time.monotonic()
        await members.kill(victim)
        await load.progress(*(member for member in range(SIZE) if member != victim))
        members.start(victim)
        await members.ready(victim)
        await known(client, sixth, SIZE)
        await safe(client)
        for crashed in (victim, sixth):  # whose items the victim had in flight
            load.crashed(crashed, begun_s)
        await load.progress()
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


async def test_six_serve_while_all_are_restarted(tmp_path: Path) -> None:
    async with (
        six(tmp_path, durable=True) as (members, client),
        Load(client, SIZE) as load,
    ):
        await load.progress()
        await all_are_restarted(members, client, load)
        await load.progress()
        history = await load.drained()
    faults = history.faults()
    assert not faults, told(faults)


async def test_the_sixth_makes_a_backup_of_everything(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    async with six(tmp_path, durable=True, more=persistence(backups)) as (members, client):
        for number, name in enumerate(MAPS):
            assert await client.put(number, name, "k", name)
        sixth = asking(members)
        port = members.rest_ports[sixth]
        assert await asked(port, "backup") == (200, {"status": "success"})
        done = await ended(port)
        assert (done["kind"], done["stage"], done["error"]) == ("backup", "FINISHED", None)
        for name in MAPS:
            assert await client.get(sixth, name, "k") == name
    assert restore(backups / "backup-1", tmp_path / "alone") == 0
    alone = MemberProcess(durable_configuration(tmp_path / "alone"), tmp_path / "alone-config")
    try:
        await asyncio.to_thread(alone.wait_for, "ready")
        members.rest_ports = [alone.port]
        async with HttpClient(members) as client:
            for name in MAPS:
                assert await client.get(0, name, "k") == name
    finally:
        await asyncio.to_thread(alone.kill)
