"""What a member does whose directory is taken away while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from grid_member.command import EXIT_START
from tests.unit.engine.volume import MIB, needs_volumes, privilege, volume
from tests.unit.member.durable import MAP, QUEUE, READY, durable
from tests.unit.member.wire import Wire
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.unit.member.durable import Start
    from tests.unit.member.running import MemberProcess
    from tests.unit.member.wire import Reply

SAFE = "/grid/health/cluster-safe"


class Member:
    """A member with data in a directory that a test takes away."""

    def __init__(self, process: MemberProcess, wire: Wire, base: Path) -> None:
        self.process, self.wire, self.base = process, wire, base

    async def call(self, method: str, path: str, body: bytes | None = None) -> Reply:
        return await self.wire.call(method, path, body)

    async def put(self, key: str) -> int:
        return (await self.call("POST", f"{MAP}/{key}", key.encode())).status

    async def refuses(self, path: str, method: str = "GET", body: bytes | None = None) -> bool:
        """Tell whether a call is 503 and names the directory."""
        reply = await self.call(method, path, body)
        return reply.status == 503 and str(self.base) in (reply.header("X-Grid-Error") or "")

    async def without_ground(self) -> None:
        """Wait until it is known without a write, then see what is refused and what is read."""
        await eventually(lambda: self.refuses(READY))
        assert await self.refuses(SAFE)
        assert await self.refuses(f"{MAP}/more", "POST", b"v")
        assert await self.refuses(f"{MAP}/kept", "DELETE")
        assert await self.refuses(QUEUE, "POST", b"v")
        assert await self.refuses(f"{QUEUE}/0", "DELETE")
        assert (await self.call("GET", f"{MAP}/kept")).body == b"kept"
        await asyncio.to_thread(self.said)

    def said(self) -> None:
        """Wait until the log names the directory."""
        with contextlib.closing(self.process._entries()) as entries:
            assert any(
                str(self.base) in entry["message"] and entry["level"] == "error"
                for entry in entries
            )


@contextlib.asynccontextmanager
async def running(start: Start, base: Path) -> AsyncIterator[Member]:
    process = start(durable(base))
    process.wait_for("ready")
    wire = await Wire.connect(process.port)
    try:
        member = Member(process, wire, base)
        assert await member.put("kept") == 200
        assert (await member.call("POST", QUEUE, b"item")).status == 200
        yield member
    finally:
        await wire.close()


def removed(base: Path) -> None:
    shutil.rmtree(base)


def moved(base: Path) -> None:
    base.rename(base.with_name("elsewhere"))


def made_anew(base: Path) -> None:
    moved(base)
    base.mkdir()


def linked(base: Path) -> None:
    moved(base)
    shutil.copytree(base.with_name("elsewhere"), base.with_name("copy"))
    base.symlink_to(base.with_name("copy"))


def unlocked(base: Path) -> None:
    (base / "lock").unlink()


def without_data(base: Path) -> None:
    (base / "store" / "shard-0" / "data.mdb").unlink()


def without_tail(base: Path) -> None:
    (base / "store" / "shard-0" / "tail").unlink()


@pytest.mark.parametrize(
    "taken_away", [removed, moved, made_anew, linked, unlocked, without_data, without_tail]
)
async def test_a_member_whose_directory_goes_is_not_ready_and_takes_nothing(
    member_process: Start, tmp_path: Path, taken_away: Callable[[Path], None]
) -> None:
    async with running(member_process, tmp_path / "data") as member:
        taken_away(member.base)
        await member.without_ground()


async def test_nothing_is_answered_that_no_disk_has(member_process: Start, tmp_path: Path) -> None:
    base = tmp_path / "data"
    async with running(member_process, base) as member:
        answered: list[str] = []
        gone = asyncio.Event()

        async def write() -> None:
            for number in range(10**6):
                if await member.put(f"k{number}") != 200:
                    return
                answered.append(f"k{number}")
                if number == 200:
                    gone.set()

        writing = asyncio.ensure_future(write())
        await gone.wait()
        await asyncio.to_thread(moved, base)
        at_once = set(answered)
        await asyncio.wait_for(writing, 20)
        member.process.kill()
    # The last of them may have come before the look at the path, and before the move.
    moved_to = base.with_name("elsewhere")
    async with running(member_process, moved_to) as member:
        for key in answered:
            assert (await member.call("GET", f"{MAP}/{key}")).body == key.encode()
    assert at_once <= set(answered)


async def test_what_comes_back_as_it_was_is_gone_on_with(
    member_process: Start, tmp_path: Path
) -> None:
    async with running(member_process, tmp_path / "data") as member:
        moved(member.base)
        await member.without_ground()
        member.base.with_name("elsewhere").rename(member.base)

        async def ready() -> bool:
            return (await member.call("GET", READY)).status == 200

        await eventually(ready)

        async def written() -> bool:
            return await member.put("later") == 200

        await eventually(written)
        member.process.kill()
    async with running(member_process, tmp_path / "data") as member:
        assert (await member.call("GET", f"{MAP}/later")).body == b"later"


@needs_volumes
async def test_a_volume_that_is_unmounted(member_process: Start, tmp_path: Path) -> None:
    with volume(tmp_path / "disk", 40 * MIB) as disk, volume(tmp_path / "spare", MIB):
        async with running(member_process, disk / "data") as member:
            unmounted = [*privilege(), "umount", "--lazy", str(disk)]
            await asyncio.to_thread(subprocess.run, unmounted, check=True)
            await member.without_ground()
            # So that the end of the block finds something to unmount.
            mounted = [*privilege(), "mount", "-t", "tmpfs", "tmpfs", str(disk)]
            await asyncio.to_thread(subprocess.run, mounted, check=True)
            assert await member.refuses(READY)


async def test_a_second_member_is_refused_though_the_lock_was_removed(
    member_process: Start, tmp_path: Path
) -> None:
    async with running(member_process, tmp_path / "data") as member:
        unlocked(member.base)
        second = member_process(durable(member.base))
        assert second.end() == EXIT_START
        said = second.log[-1]["message"]
        assert all(part in said for part in (str(member.base), "in use", "was removed"))
