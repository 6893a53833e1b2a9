"""Members note how far they have read on disks that are full, or answer nothing."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.engine.integrity import watermarks
from grid_member.engine.integrity.watermarks import Watermarks
from grid_member.engine.io.files import replace_file
from tests.unit.engine.integrity.notes import (
    FIRST,
    MEMBER,
    Servers,
    add,
    begin,
    check,
    log_of,
    noted,
)
from tests.unit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.state.machine import State

DEADLINE_S = 20.0
LOOKS = 5


class Disk:
    """What notes are written to."""

    def __init__(self) -> None:
        self.tries = 0
        self.full = False
        self.hangs_at = 0
        """Which write waits, from the first one on."""
        self.answers = threading.Event()

    def replace(self, path: Path, text: str) -> None:
        self.tries += 1
        if self.tries == self.hangs_at:
            assert self.answers.wait(DEADLINE_S)
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace_file(path, text)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(watermarks, "replace_file", disk.replace)
    return disk


async def reading(servers: Servers, directory: Path) -> tuple[Watermarks, State]:
    """Return a member that has read a log, and is about to note how far."""
    one, state = Watermarks(directory), log_of()
    begin(one, servers)
    await check(one, servers, state)
    add(state, MEMBER, FIRST, 1)
    return one, state


async def looked(servers: Servers) -> None:
    asked = servers.asked
    await until(lambda: servers.asked > asked + LOOKS)


async def test_a_full_disk_is_tried_now_and_then_and_told_once(
    servers: Servers,
    directory: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk.full = True
    one, state = await reading(servers, directory)
    await until(lambda: disk.tries)
    await looked(servers)
    assert disk.tries == 1
    monkeypatch.setattr(watermarks, "NOTE_S", 0.0)
    servers.ids = frozenset({"s0", "s1", "s2", "s3"})  # which is noted at once
    await until(lambda: disk.tries > LOOKS)
    assert caplog.text.count("cannot be written: No space left on device") == 1
    disk.full = False
    await until(lambda: one._watermarks)
    disk.full = True
    add(state, MEMBER, FIRST, 2)
    tries = disk.tries
    await until(lambda: disk.tries > tries + LOOKS)
    assert caplog.text.count("cannot be written: No space left on device") == 2
    disk.full = False
    await one.end()
    assert noted(directory)["shard-1"]["counter"] == 2


@pytest.mark.parametrize("hangs_at", [1, 2], ids=["while it runs", "as it ends"])
async def test_a_disk_that_does_not_answer_keeps_no_member_from_its_end(
    servers: Servers,
    directory: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    hangs_at: int,
) -> None:
    monkeypatch.setattr(watermarks, "END_S", 0.05, raising=False)
    disk.hangs_at = hangs_at
    try:
        one, state = await reading(servers, directory)
        await until(lambda: disk.tries == 1 and (hangs_at == 1 or one._watermarks))
        add(state, MEMBER, FIRST, 2)
        with caplog.at_level(logging.WARNING, "grid.engine.nats"):
            await asyncio.wait_for(one.end(), DEADLINE_S / 2)
        assert "its disk does not answer" in caplog.text
    finally:
        disk.answers.set()
    assert disk.tries == hangs_at


async def test_a_write_that_fails_while_a_member_ends_is_no_error_of_nobody(
    servers: Servers, directory: Path, disk: Disk
) -> None:
    loop, reported = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    disk.hangs_at, disk.full = 1, True
    one, _ = await reading(servers, directory)
    await until(lambda: disk.tries == 1)
    ending = asyncio.ensure_future(one.end())
    await until(lambda: not servers.takers)  # it waits for the disk
    disk.answers.set()
    await ending
    del one, ending
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
