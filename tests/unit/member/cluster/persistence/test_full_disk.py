"""Promise: a full disk is a clear answer, loses nothing, and is over when there is room again."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.volume import MIB, fill, needs_volumes, volume
from tests.unit.member.cluster.persistence.test_actions import CLUSTER, ask, ended, persistent
from tests.unit.member.durable import MAP, READY, DurableMember, durable, is_refusal
from tests.unit.member.wire import Wire, once

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.member.durable import Start

VALUE = b"v" * 100_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with volume(tmp_path / "disk", 40 * MIB) as place:
        yield place


@needs_volumes
async def test_a_disk_that_others_fill(member_process: Start, disk: Path) -> None:
    async with DurableMember(member_process, disk / "data") as member:
        for number in range(30):
            assert (await member.put(f"first{number}", VALUE)).status == 200
            assert (await member.offer(b"item %d" % number)).status == 200
        fill(disk / "ballast")
        assert is_refusal(await member.fill("more", VALUE))
        assert is_refusal(await member.offer(b"another"))
        assert (await member.call("GET", READY)).status == 200
        await member.check()
        for number in range(10):
            await member.remove(f"first{number}")
            await member.poll()
        assert is_refusal(await member.put("first0", VALUE))
        await member.check()

        await member.crash()
        await member.remove("first20")
        await member.poll()
        assert is_refusal(await member.put("first0", VALUE))
        (disk / "ballast").unlink()
        await member.recover(VALUE)
        assert (await member.offer(b"last")).status == 200

        await member.crash()
        await member.poll_all()


@needs_volumes
async def test_what_is_removed_makes_room(member_process: Start, disk: Path) -> None:
    async with DurableMember(member_process, disk / "data") as member:
        assert is_refusal(await member.fill("k", VALUE))
        # The rest of the disk is for cleaning: removals would make no room without it.
        there = [key for key, value in member.entries.items() if value is not None]
        assert len(there) * len(VALUE) > 12 * MIB
        for key in there[::2]:
            await member.remove(key)
        await member.recover(VALUE)
        assert is_refusal(await member.fill("l", VALUE))
        await member.check()
        await member.crash()


@needs_volumes
async def test_what_an_operator_does_about_it(
    member_process: Start, disk: Path, tmp_path: Path
) -> None:
    process = member_process(persistent(tmp_path, **{"base-dir": str(disk / "data")}))
    process.wait_for("ready")

    async def change(state: str, key: str) -> bytes | None:
        path, headers = f"{CLUSTER}/changeState", {"Idempotency-Key": key}
        reply = await once(process.port, "POST", path, f"dev&&{state}".encode(), **headers)
        assert reply.status == 200
        return reply.body

    async with await Wire.connect(process.port) as wire:
        number = 0
        while (await wire.call("POST", f"{MAP}/k{number}", VALUE)).status == 200:
            number += 1
    fill(disk / "ballast")
    first = await change("frozen", "a")
    assert first == b'{"status":"success","state":"frozen"}'
    await change("active", "b")
    assert await change("frozen", "a") == first
    state = (await ask(process, "state")).body
    assert state == b'{"status":"success","state":"active"}'
    assert (await ask(process, "backup")).body == b'{"status":"success"}'
    assert (await ended(process))["stage"] == "FINISHED"
    assert (tmp_path / "backups" / "backup-1").is_dir()


@needs_volumes
def test_a_new_directory_on_a_full_disk(member_process: Start, disk: Path) -> None:
    fill(disk / "ballast")
    process = member_process(durable(disk / "data"))
    assert process.end() == 3
    assert "No space left on device" in process.log[-1]["message"]
    (disk / "ballast").unlink()
    member_process(durable(disk / "data")).wait_for("ready")


async def test_a_limit_of_the_file_size(member_process: Start, tmp_path: Path) -> None:
    """What fills is the one file; any user may try this."""
    async with DurableMember(member_process, tmp_path / "data") as member:
        for number in range(20):
            assert (await member.put(f"first{number}", VALUE)).status == 200
        pid = member.process.process.pid
        size_bytes = (tmp_path / "data/store/shard-0/data.mdb").stat().st_size
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes + 1_000_000, hard))
        assert is_refusal(await member.fill("more", VALUE))
        assert (await member.call("GET", READY)).status == 200
        await member.check()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        await member.recover(VALUE)
        await member.crash()
