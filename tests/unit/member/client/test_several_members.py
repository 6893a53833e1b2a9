"""`grid-member client` with real members: they leave from the highest ordinal on, and stay safe."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.client.deadline import Deadline
from grid_member.client.errors import FinalError
from grid_member.client.group import MemberGroup
from grid_member.client.leave import ScaleDown
from grid_member.client.wire import ConnectOptions
from tests.unit.member.client.running import AT_ONCE
from tests.unit.member.processes.processes import HttpClient, Members
from tests.unit.ports import free_ports
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.client.running import Command
    from tests.unit.member.running import RunningMember

pytestmark = pytest.mark.timeout(240)
SIZE = 4


class NamedMembers(Members):
    """Members whose hosts differ in their ordinals, as pods do, and whose ports do not."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, durable=True, size=SIZE)
        self.rest_ports = free_ports(1) * SIZE

    def host(self, number: int) -> str:
        return f"127.0.77.{number}"


async def test_members_leave_one_after_the_other(command: Command, tmp_path: Path) -> None:
    async with NamedMembers(tmp_path) as members, HttpClient(members) as client:
        url = ("--url", f"http://127.0.77.{{ordinal}}:{members.rest_ports[0]}")
        found = await command.run("wait", *url, "--size", SIZE)
        assert found.code == 0, found
        found = await command.run("check", *url, "--size", SIZE, "--map", "default")
        assert found.code == 0, found
        assert await client.put(0, "m", "k", "v")

        refused = await command.run("leave", *url, "--size", 2, "--refuse", "--allow-silence")
        assert refused.code == 1
        assert "set size to 4 again" in refused.told
        assert (await command.run("leave", *url, "--size", SIZE, "--refuse")).code == 0
        silent = ("leave", "--url", "http://127.0.77.{ordinal}:1", "--allow-silence")
        rest = ("--rest-url", url[1], *AT_ONCE)
        refused = await command.run(*silent, *rest, "--size", 2)
        assert refused.code == 1
        assert "127.0.77.3:1 has to leave and does not listen there" in refused.told
        # Where management is new nobody waits for it, as long as nobody has to leave.
        staying = await command.run(*silent, "--rest-url", url[1], "--size", SIZE)
        assert (staying.code, staying.told) == (0, "")

        await members.kill(1)
        found = await command.run("leave", *url, "--size", 2, *AT_ONCE)
        assert found.code == 1
        assert await client.size(0) >= SIZE - 1

        async def is_missed() -> bool:
            return not await client.safe(0)

        await eventually(is_missed)
        own = ("--url", f"http://{members.host(0)}:{members.rest_ports[0]}")
        drained = await command.run("drain", *own, *AT_ONCE)
        assert drained.code == 0
        assert "does not call the cluster safe" in drained.said
        draining = asyncio.create_task(command.run("drain", *own, "--timeout", 120))
        members.start(1)
        await members.ready(1)
        assert "every copy is current" in (await draining).said

        left = await command.run("leave", *url, "--size", 2, "--timeout", 150)
        assert (left.code, left.said) == (0, "2 members have left, 2 stay and are safe\n"), left
        ways = [line for line in left.told.splitlines() if line.endswith("has left")]
        assert [line.split(":")[1].strip() for line in ways] == ["127.0.77.3", "127.0.77.2"]
        for number in (3, 2):
            assert members.processes[number].end() == 0
        again = await command.run("leave", *url, "--size", 2)
        assert (again.code, again.said) == (0, "0 members have left, 2 stay and are safe\n")
        assert await client.get(1, "m", "k") == "v"


async def test_members_that_start_are_waited_for_longer(
    start_member: Callable[..., RunningMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.client.leave.SILENCE_S", 0.0)
    member = await start_member().open()
    member.member.address = f"127.0.5.1:{member.port}"
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    group = MemberGroup(f"http://127.0.{{ordinal}}.1:{member.port}", ConnectOptions(), "dev")

    def said(_: str) -> None:
        loop.call_soon_threadsafe(asked.set)

    leaving = ScaleDown(group, 2, Deadline(60.0, said), said)
    waiting = asyncio.create_task(asyncio.to_thread(leaving.refuse, may_be_silent=True))
    await asked.wait()
    await member.member.join()
    with pytest.raises(FinalError, match=r"127\.0\.5\.1:.* is a member"):
        await waiting


async def test_members_that_never_join_keep_nobody_from_mending_them(
    command: Command,
    start_member: Callable[..., RunningMember],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for time_s in ("SILENCE_S", "STARTING_S"):
        monkeypatch.setattr(f"grid_member.client.leave.{time_s}", 0.0)
    member = await start_member().open()
    words = ("leave", "--url", f"http://127.0.{{ordinal}}.1:{member.port}", "--size", 2)
    for more in (["--refuse"], []):
        found = await command.run(*words, *more, "--allow-silence")
        assert (found.code, found.said) == (0, "no member above a size of 2 is known\n")
        assert "no member tells whether one would have to leave" in found.told


async def test_nobody_has_to_leave_where_nobody_is(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grid_member.client.leave.SILENCE_S", 0.0)
    words = ("leave", "--url", "http://127.0.77.1{ordinal}:1", "--size", 3)
    for more in (["--refuse"], []):
        silent = await command.run(*words, *more, "--allow-silence")
        assert (silent.code, silent.said) == (0, "no member above a size of 3 is known\n")
        unknown = await command.run(*words, *more, *AT_ONCE)
        assert unknown.code == 1
        assert "cannot be reached: Connection refused" in unknown.told
