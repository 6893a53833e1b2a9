"""Promise: a real member is backed up under load, restored, and recovered, whatever kills it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.backed_up import damage_log, wild_value
from tests.unit.member.durable import MAP, QUEUE, READY
from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire, once

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.unit.member.durable import Start
    from tests.unit.member.running import MemberProcess
    from tests.unit.member.wire import Reply

CLUSTER = "/grid/rest/management/cluster"
ENDED = ("FINISHED", "FAILED")
RESTORED = [("restore", "FINISHED", 100, None)]
WAITS = "the store is damaged: the member waits for forceStart or partialStart"


def persistent(place: Path, **more: object) -> str:
    settings = {
        "enabled": True,
        "base-dir": str(place / "data"),
        "backup-dir": str(place / "backups"),
        **more,
    }
    return configuration(extra=f"  persistence: {json.dumps(settings)}\n")


async def ask(member: MemberProcess, action: str) -> Reply:
    return await once(member.port, "POST", f"{CLUSTER}/{action}", b"dev&")


async def operations(member: MemberProcess) -> list[dict[str, object]]:
    reply = await once(member.port, "GET", f"{CLUSTER}/operations")
    found: list[dict[str, object]] = json.loads(reply.body)
    return found


def outcomes(found: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Return what a history tells of operations that ended, but for ids and times."""
    for operation in found:
        assert 0 < int(str(operation["started"])) <= int(str(operation["finished"]))
    assert len({operation["id"] for operation in found}) == len(found)
    return [
        tuple(operation[k] for k in ("kind", "stage", "progress", "error")) for operation in found
    ]


async def ended(member: MemberProcess) -> dict[str, object]:
    async with asyncio.timeout(20):
        while (last := (await operations(member))[-1])["stage"] not in ENDED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return last


async def loaded(member: MemberProcess, entries: int = 400) -> None:
    async with await Wire.connect(member.port) as wire:
        for number in range(entries):
            reply = await wire.call("POST", f"{MAP}/k{number}", b"%d" % number * 3000)
            assert reply.status == 200
        for number in range(20):
            assert (await wire.call("POST", QUEUE, b"item %d" % number)).status == 200


@contextlib.asynccontextmanager
async def written_to(member: MemberProcess) -> AsyncIterator[None]:
    """Write two keys in turn, the same number to both, all the time."""
    over = asyncio.Event()

    async def write() -> None:
        number = 0
        async with await Wire.connect(member.port) as wire:
            while not over.is_set():
                number += 1
                for key in ("first", "second"):
                    assert (await wire.call("POST", f"{MAP}/{key}", b"%d" % number)).status == 200

    writing = asyncio.create_task(write())
    yield
    over.set()
    await writing


async def check_one_moment(member: MemberProcess) -> None:
    """All that was loaded is there, and of the two keys what was so at one moment."""
    async with await Wire.connect(member.port) as wire:
        for number in range(400):
            reply = await wire.call("GET", f"{MAP}/k{number}")
            assert reply.body == b"%d" % number * 3000
        first, second = [
            int((await wire.call("GET", f"{MAP}/{key}")).body or 0) for key in ("first", "second")
        ]
        assert first - second in (0, 1)
        assert (await wire.call("GET", f"{QUEUE}/size")).body == b"20"
        # Behind this the history is in the log.
        assert (await wire.call("DELETE", f"{MAP}/nothing")).status == 200


async def restored_by_command(backup: Path, target: Path) -> int:
    command = [sys.executable, "-m", "grid_member", "restore", str(backup), "--into", str(target)]
    return (await asyncio.to_thread(subprocess.run, command, check=False)).returncode


async def uuid_of(member: MemberProcess) -> object:
    cluster = json.loads((await once(member.port, "GET", "/grid/rest/cluster")).body)
    return cluster["members"][0]["uuid"]


async def test_a_backup_under_load_is_restored(member_process: Start, tmp_path: Path) -> None:
    member = member_process(persistent(tmp_path))
    member.wait_for("ready")
    await loaded(member)
    async with written_to(member):
        assert (await ask(member, "backup")).body == b'{"status":"success"}'
        done = await ended(member)
        assert (done["kind"], done["stage"], done["progress"]) == ("backup", "FINISHED", 100)
        assert (await ask(member, "hotBackup")).header("Deprecation") == "true"
        await ended(member)
    uuid = await uuid_of(member)
    member.kill()

    backups = tmp_path / "backups"
    assert sorted(os.listdir(backups)) == ["backup-1", "backup-2"]
    target = tmp_path / "by-command" / "data"
    # The second time it is not empty.
    assert [await restored_by_command(backups / "backup-1", target) for _ in range(2)] == [0, 3]
    by_setting = persistent(tmp_path / "by-setting", **{"restore-from": str(backups / "backup-1")})
    again = "restored before: persistence.restore-from has no effect"
    for text, messages, history in (
        (persistent(tmp_path / "by-command"), ["ready"], []),
        (by_setting, ["restored", "ready"], RESTORED),
        (by_setting, [again, "ready"], RESTORED),
    ):
        other = member_process(text)
        for message in messages:
            other.wait_for(message)
        assert await uuid_of(other) != uuid
        assert outcomes(await operations(other)) == history
        await check_one_moment(other)
        other.kill()
    another = persistent(tmp_path / "by-setting", **{"restore-from": str(backups / "backup-2")})
    refused = member_process(another)
    assert refused.end() == 3
    assert "did not begin as the backup" in refused.log[-1]["message"]


@pytest.mark.parametrize("seed", range(6))
async def test_a_kill_in_the_middle_of_a_backup(
    member_process: Start, tmp_path: Path, seed: int
) -> None:
    member = member_process(persistent(tmp_path))
    member.wait_for("ready")
    await loaded(member)
    assert (await ask(member, "backup")).status == 200
    await asyncio.sleep(random.Random(seed).random() * 0.05)
    member.kill()
    left = os.listdir(tmp_path / "backups")
    assert len(left) == 1
    again = member_process(persistent(tmp_path))
    again.wait_for("ready")
    complete = [name for name in left if name == "backup-1"]
    assert os.listdir(tmp_path / "backups") == complete
    (operation,) = await operations(again)
    assert operation["stage"] in (("FINISHED", "FAILED") if complete else ("FAILED",))
    assert (await ask(again, "backup")).status == 200
    assert (await ended(again))["stage"] == "FINISHED"


async def damaged(member_process: Start, tmp_path: Path) -> None:
    member = member_process(persistent(tmp_path))
    member.wait_for("ready")
    await loaded(member, 30)
    member.kill()
    damage_log(tmp_path / "data/store/shard-0", b"item 12")


@pytest.mark.parametrize("action", ["partialStart", "forceStart/"])
async def test_a_damaged_store_waits(member_process: Start, tmp_path: Path, action: str) -> None:
    await damaged(member_process, tmp_path)
    policy = {"cluster-data-recovery-policy": "PARTIAL_RECOVERY_MOST_RECENT"}
    member = member_process(persistent(tmp_path, **policy))
    member.wait_for(WAITS)
    ready = await once(member.port, "GET", READY)
    assert (ready.status, ready.body) == (503, b"")
    assert "is missing in its tail" in (ready.header("X-Grid-Error") or "")
    assert (await once(member.port, "GET", "/grid/health/node-state")).body == b'"STARTING"'
    assert (await once(member.port, "GET", f"{MAP}/k1")).status == 503
    assert (await ask(member, "backup")).status == 409
    assert (await ask(member, action)).body == b'{"status":"success"}'
    member.wait_for("ready")
    forced = action == "forceStart/"
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == (b"0" if forced else b"12")
    assert (await once(member.port, "GET", f"{MAP}/k1")).status == (204 if forced else 200)
    assert (tmp_path / "data" / "store.damaged-1").exists() is not forced
    again = json.loads((await ask(member, action)).body)
    assert (again["status"], "healthy" in again["message"]) == ("fail", True)
    history = [(action.rstrip("/"), "FINISHED", 100, None)]
    assert outcomes(await operations(member)) == history
    # Behind this the history is in the log.
    assert (await once(member.port, "POST", f"{MAP}/after", b"v")).status == 200
    member.kill()
    member = member_process(persistent(tmp_path))
    member.wait_for("ready")
    assert outcomes(await operations(member)) == history


async def test_damage_that_ends_the_process(member_process: Start, tmp_path: Path) -> None:
    """The first start dies of it, those after that one say so; what is left can be used."""
    member = member_process(persistent(tmp_path))
    member.wait_for("ready")
    await loaded(member, 30)
    member.process.terminate()
    assert member.end() == 0
    (tmp_path / "data/store/shard-0/tail").unlink()  # it still has what is lost here
    log = tmp_path / "data/store/shard-0/data.mdb"
    data, sequence = wild_value(log.read_bytes())
    log.write_bytes(data)
    assert member_process(persistent(tmp_path)).end() < 0
    silent = member_process(persistent(tmp_path, **{"validation-timeout-seconds": 0}))
    assert silent.end() == 3
    assert "its pages contradict each other, first at page" in silent.log[-1]["message"]
    assert log.read_bytes() == data
    policy = {"cluster-data-recovery-policy": "PARTIAL_RECOVERY_MOST_COMPLETE"}
    member = member_process(persistent(tmp_path, **policy))
    member.wait_for("the last start died while it opened the store: every page is checked first")
    member.wait_for(WAITS)
    ready = await once(member.port, "GET", READY)
    assert "its pages contradict each other" in (ready.header("X-Grid-Error") or "")
    assert (await ask(member, "partialStart")).body == b'{"status":"success"}'
    member.wait_for("ready")
    found = [(await once(member.port, "GET", f"{MAP}/k{number}")).body for number in range(30)]
    left = sum(body != b"" for body in found)
    assert 0 < left < sequence
    assert found == [b"%d" % number * 3000 for number in range(left)] + [b""] * (30 - left)
    assert not (tmp_path / "data/store/opening").exists()


async def test_nobody_says_what_to_do(member_process: Start, tmp_path: Path) -> None:
    await damaged(member_process, tmp_path)
    before = (tmp_path / "data/store/shard-0/data.mdb").read_bytes()
    member = member_process(persistent(tmp_path, **{"validation-timeout-seconds": 1}))
    member.wait_for(WAITS)
    refused = json.loads((await ask(member, "partialStart")).body)
    assert "persistence.cluster-data-recovery-policy" in refused["message"]
    assert member.end() == 3
    assert (tmp_path / "data/store/shard-0/data.mdb").read_bytes() == before


async def test_a_stop_while_it_waits(member_process: Start, tmp_path: Path) -> None:
    await damaged(member_process, tmp_path)
    member = member_process(persistent(tmp_path))
    member.wait_for(WAITS)
    member.process.terminate()
    assert member.end() == 0
    shutil.rmtree(tmp_path / "data")
