"""Promise: an I/O error is a clear answer and loses nothing that was answered."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member.command import EXIT_UNCONFIRMED
from grid_member.command.member import THREADS_GRACE_S
from grid_member.engine.local.engine import UNKNOWN_GRACE_S
from grid_member.start.handle import BACKUP_GRACE_S, DISK_GRACE_S, HURRY_DISK_GRACE_S
from tests.unit.engine.drive import condition
from tests.unit.member.durable import MAP, QUEUE, READY, DurableMember, durable, is_refusal
from tests.unit.member.running import configuration
from tests.unit.member.wire import Reply, Wire, once

if TYPE_CHECKING:
    from tests.unit.member.durable import Start

UNKNOWN = (
    "the log of shard 0 cannot take writes: it cannot be read back: "
    "mdb_txn_commit: Input/output error"
)
UNDECIDED = (
    "the log of shard 0 cannot take writes: it cannot be read back: [Errno 5] Input/output error"
)
UNCONFIRMED = (
    "the disk did not confirm the last commit in time and is waited for no more: what it did not "
    "confirm was never answered"
)
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the tests of I/O errors need a C compiler: install gcc"
    library = tmp_path_factory.mktemp("shim") / "faultshim.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "faultshim.c")]
    subprocess.run([*command, "-ldl"], check=True, capture_output=True)
    return library


@pytest.fixture
def faults(shim: Path, tmp_path: Path) -> tuple[dict[str, str], Path]:
    """The environment of a member whose disk fails, and the file that makes it fail."""
    switch = tmp_path / "switch"
    environment = {
        "LD_PRELOAD": str(shim),
        "FAULT_ROOT": str(tmp_path / "data"),
        "FAULT_SWITCH": str(switch),
    }
    return environment, switch


async def loaded(member: DurableMember) -> None:
    for number in range(20):
        assert (await member.put(f"k{number}", b"%d" % number)).status == 200
        assert (await member.offer(b"%d" % number)).status == 200


@pytest.mark.parametrize("what", ["w", "r", "ws"])
async def test_io_errors(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path], what: str
) -> None:
    environment, switch = faults
    async with DurableMember(member_process, tmp_path / "data", environment) as member:
        await loaded(member)
        switch.write_text(what)
        for number in range(5):
            member.entries[f"more{number}"] = None
            assert is_refusal(await member.put(f"more{number}", b"v"))
            assert is_refusal(await member.put("k0", b"new"))
            assert is_refusal(await member.offer(b"v"))
        assert is_refusal(await member.call("DELETE", f"{MAP}/k0"))
        assert is_refusal(await member.call("DELETE", f"{QUEUE}/0"))
        assert (await member.call("GET", READY)).status == 200
        await member.check()
        switch.unlink()
        await goes_on(member)


async def goes_on(member: DurableMember) -> None:
    """Write, remove and poll, and find all of that behind a crash."""
    assert (await member.put("after", b"v")).status == 200
    await member.remove("k1")
    await member.poll()
    await member.crash()
    await member.poll_all()


async def test_syncs_that_fail(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path]
) -> None:
    """What was written may be on the disk: who asked waits until it is not, the others do not."""
    environment, switch = faults
    async with DurableMember(member_process, tmp_path / "data", environment) as member:
        await loaded(member)
        switch.write_text("s")
        port = member.process.port
        waiting = asyncio.create_task(once(port, "POST", f"{MAP}/k0", b"new"))
        await member.says(UNDECIDED)
        for method, path in (("POST", f"{MAP}/l"), ("DELETE", f"{MAP}/k1"), ("POST", QUEUE)):
            assert is_refusal(await once(port, method, path, b"v"))
        assert (await once(port, "GET", READY)).status == 200
        await member.check()
        assert not waiting.done()
        switch.unlink()
        assert is_refusal(await waiting)
        await goes_on(member)


async def test_a_commit_of_unknown_outcome(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path]
) -> None:
    """The root page is written, its writer hears of an error: the answer waits for certainty."""
    environment, switch = faults
    async with DurableMember(member_process, tmp_path / "data", environment) as member:
        assert (await member.put("k", b"old")).status == 200
        switch.write_text("R")
        waiting = asyncio.create_task(member.put("k", b"new"))
        await member.says(UNKNOWN)
        port = member.process.port
        for method, path in (("POST", f"{MAP}/l"), ("DELETE", f"{MAP}/k"), ("POST", QUEUE)):
            assert is_refusal(await once(port, method, path, b"v"))
        assert not waiting.done()
        assert (await once(port, "GET", f"{MAP}/k")).body == b"old"
        switch.unlink()
        assert (await waiting).status == 200
        assert (await member.offer(b"v")).status == 200
        member.entries["l"] = None
        await member.crash()


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_stop_ends_before_the_outcome_of_a_commit_is_known(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path], signals: int
) -> None:
    environment, switch = faults
    async with DurableMember(member_process, tmp_path / "data", environment) as member:
        assert (await member.put("k", b"old")).status == 200
        switch.write_text("R")
        waiting = asyncio.create_task(once(member.process.port, "POST", f"{MAP}/k", b"new"))
        await member.says(UNKNOWN)
        process = member.process.process
        process.terminate()
        if signals == 2:
            await member.says("stopping")
            process.terminate()
        # A second one waits no more: less than what the first one gives the disk.
        async with asyncio.timeout(UNKNOWN_GRACE_S * (2 if signals == 1 else 0.8)):
            assert await asyncio.to_thread(member.process.end) == 0
        # Said once, however often it was tried.
        assert [line["message"] for line in member.process.log].count(UNKNOWN) == 1
        outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
        if signals == 1:
            assert isinstance(outcome, Reply)
            assert is_refusal(outcome)
        switch.unlink()
        member.process = member_process(member.text, environment)
        await member.says("ready")
        value = (await once(member.process.port, "GET", f"{MAP}/k")).body
        assert value in (b"old", b"new")


@pytest.mark.parametrize("how", ["SIGTERM", "twice", "REST"])
async def test_a_stop_ends_although_a_sync_never_returns(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path], how: str
) -> None:
    environment, switch = faults
    async with DurableMember(member_process, tmp_path / "data", environment) as member:
        await loaded(member)
        switch.write_text("h")
        port, process = member.process.port, member.process.process
        waiting = asyncio.create_task(once(port, "POST", f"{MAP}/k0", b"new"))
        await condition(switch.with_suffix(".hanging").exists)
        assert (await once(port, "GET", f"{MAP}/k0")).body == b"0"
        grace_s = HURRY_DISK_GRACE_S
        if how == "REST":
            stop = "/grid/rest/management/cluster/memberShutdown"
            assert (await once(port, "POST", stop, b"dev&")).status == 200
        else:
            process.terminate()
        await member.says("stopping")
        if how == "twice":
            process.terminate()
        else:
            grace_s += DISK_GRACE_S
        async with asyncio.timeout(grace_s + 3):
            assert await asyncio.to_thread(member.process.end) == EXIT_UNCONFIRMED
        assert [line["message"] for line in member.process.log].count(UNCONFIRMED) == 1
        assert member.process.log[-1]["message"] == UNCONFIRMED
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], Exception)
        switch.unlink()
        member.process = member_process(member.text, environment)
        await member.says("ready")
        assert (await once(member.process.port, "GET", f"{MAP}/k0")).body in (b"0", b"new")
        del member.entries["k0"]
        await member.__aexit__()
        await member.__aenter__()
        await member.check()


async def test_threads_that_hang_do_not_keep_a_member_that_has_stopped(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path]
) -> None:
    environment, switch = faults
    async with DurableMember(member_process, tmp_path / "data", environment) as member:
        assert (await member.put("k", b"v")).status == 200
        switch.write_text("u")
        usage = "/grid/rest/management/cluster/usage"
        waiting = asyncio.create_task(once(member.process.port, "GET", usage))
        await condition(switch.with_suffix(".hanging").exists)
        member.process.process.terminate()
        await member.says("stopping")
        member.process.process.terminate()
        async with asyncio.timeout(HURRY_DISK_GRACE_S + THREADS_GRACE_S + 3):
            assert await asyncio.to_thread(member.process.end) == 0
        assert member.process.log[-1]["message"] == "stopped"
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], Exception)


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_backup_that_hangs_does_not_keep_the_data_from_being_closed(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path], signals: int
) -> None:
    environment, switch = faults
    backups = tmp_path / "backups"
    environment["FAULT_ROOT"] = str(backups / ".creating")
    settings = {"enabled": True, "base-dir": str(tmp_path / "data"), "backup-dir": str(backups)}
    extra = f"  persistence: {json.dumps(settings)}\n"
    member = member_process(configuration(extra=extra), environment)
    await asyncio.to_thread(member.wait_for, "ready")
    assert (await once(member.port, "POST", f"{MAP}/k", b"v")).status == 200
    switch.write_text("h")
    backup = "/grid/rest/management/cluster/backup"
    assert (await once(member.port, "POST", backup, b"dev&")).status == 200
    await condition(switch.with_suffix(".hanging").exists)
    for message in ("stopping", "the backup does not end and is waited for no more")[:signals]:
        member.process.terminate()
        await asyncio.to_thread(member.wait_for, message)
    async with asyncio.timeout(BACKUP_GRACE_S + THREADS_GRACE_S + 5):
        assert await asyncio.to_thread(member.end) == 0
    assert member.log[-1]["message"] == "stopped"


async def test_a_start_that_hangs_ends_at_the_second_signal(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path]
) -> None:
    environment, switch = faults
    switch.write_text("h")
    process = member_process(durable(tmp_path / "data"), environment)
    await asyncio.to_thread(process.wait_for, "listening")
    await condition(switch.with_suffix(".hanging").exists)
    process.process.terminate()
    await asyncio.to_thread(process.wait_for, "stopping")
    process.process.terminate()
    async with asyncio.timeout(HURRY_DISK_GRACE_S + 3):
        assert await asyncio.to_thread(process.end) == EXIT_UNCONFIRMED
    assert process.log[-1]["message"] == "the start did not end in time and is waited for no more"


async def test_errors_that_come_and_go(
    member_process: Start, tmp_path: Path, faults: tuple[dict[str, str], Path]
) -> None:
    """Whatever was answered is there after a crash in the middle of it."""
    environment, switch = faults
    taken = 0

    async def write(key: str) -> None:
        nonlocal taken
        async with await Wire.connect(member.process.port) as wire:
            while not disturbing.done():
                value = b"%d" % taken
                reply = await wire.call("POST", f"{MAP}/{key}", value)
                assert reply.status == 200 or is_refusal(reply)
                if reply.status == 200:
                    taken += 1
                    member.entries[key] = value

    async def disturb() -> None:
        for what in "wsr" * 10:
            switch.write_text(what)
            await asyncio.sleep(0.01)
            switch.unlink()
            before = taken
            await condition(lambda before=before: taken > before)  # type: ignore[misc]

    async with DurableMember(member_process, tmp_path / "data", environment) as member:
        disturbing = asyncio.create_task(disturb())
        await asyncio.gather(disturbing, *(write(f"k{number}") for number in range(8)))
        assert taken >= 30
        await member.crash()
