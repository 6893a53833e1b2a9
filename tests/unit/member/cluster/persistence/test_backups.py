"""Backups of several members: one at a time, seen and interrupted from each of them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.cluster.persistence.backups import (
    AGAIN_S,
    INTERRUPT,
    INTERRUPT_PATIENCE_S,
    NOT_NOTED,
    RUNNING,
)
from tests.unit.member.cluster.persistence.backing_up import shown, started
from tests.unit.member.cluster.shared_log import UNAVAILABLE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from grid_member.engine.api import Done
    from tests.unit.member.cluster.several import Several


async def test_of_several_members_one_makes_a_backup_at_a_time(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    making = asyncio.ensure_future(first.call("backup", key="mine"))
    await several.time.settle()
    for other in (first, second, third):
        refused = await several.run(other.call("backup"))
        assert (refused.status, RUNNING in str(refused.body)) == (409, True)
    sources[0].gate.set()
    answer = await several.run(making)
    assert answer.status == 200
    await several.time.settle()
    for member in (first, second, third):
        assert await shown(member) == [("backup", "FINISHED", None)]
    again = await several.run(third.call("backup", key="mine"))
    assert (again.body, again.headers) == (answer.body, answer.headers)
    sources[1].gate.set()
    assert (await several.run(second.call("backup"))).status == 200
    await several.time.settle()
    assert sorted(os.listdir(tmp_path / "backups")) == ["backup-1", "backup-2"]


async def test_any_member_interrupts_a_backup(several: Several, tmp_path: Path) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    making = asyncio.ensure_future(first.call("backup"))
    await several.time.settle()
    interrupting = asyncio.ensure_future(third.call("backup_interrupt"))
    await several.time.settle()
    assert not interrupting.done()
    sources[0].gate.set()
    assert (await several.run(making)).status == 200
    assert (await several.run(interrupting)).status == 200
    assert await shown(second) == [("backup", "FAILED", "the backup was interrupted")]
    await several.time.settle()
    assert not second.engine.system_items(INTERRUPT)
    assert os.listdir(tmp_path / "backups") == []
    assert (await several.run(first.call("backup"))).status == 200
    await several.time.settle()
    assert os.listdir(tmp_path / "backups") == ["backup-1"]


async def test_what_may_have_been_noted_is_no_backup_that_was_made(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    sources[0].gate.set()
    put, loop = first.engine.system_put, asyncio.get_running_loop()

    def in_doubt(key: str, value: bytes | None, done: Done[None], **times: int) -> None:
        if not key.startswith(("operation/", "idempotency/")):
            put(key, value, done, **times)
            return
        put(key, value, lambda _: None, **times)
        loop.call_soon(done, UNAVAILABLE)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(first.engine, "system_put", in_doubt)
        assert (await several.run(first.call("backup", key="mine"))).status == 503
    await several.time.advance(2 * AGAIN_S)
    given_up = ("backup", "FAILED", NOT_NOTED)
    for member in (first, second):
        assert await shown(member) == [given_up]
    assert (await several.run(first.call("backup", key="mine"))).status == 200
    await several.time.settle()
    assert sorted(await shown(second), key=str) == [given_up, ("backup", "FINISHED", None)]
    assert os.listdir(tmp_path / "backups") == ["backup-1"]


async def test_an_interrupt_that_was_not_carried_out_says_so(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    making = asyncio.ensure_future(first.call("backup"))
    await several.time.settle()
    answer = await several.run(
        third.call("backup_interrupt", key="stop"), INTERRUPT_PATIENCE_S + 10
    )
    assert (answer.status, "Retry-After" in dict(answer.headers)) == (503, True)
    second.engine.cut_off()
    assert (await several.run(second.call("backup_interrupt"))).status == 503
    again = asyncio.ensure_future(third.call("backup_interrupt", key="stop"))
    await several.time.settle()
    sources[0].gate.set()
    assert (await several.run(making)).status == 200
    assert (await several.run(again)).status == 200
    assert os.listdir(tmp_path / "backups") == []


async def test_an_interrupt_when_nobody_makes_a_backup_is_fine(
    several: Several, tmp_path: Path
) -> None:
    (_, second, _), _ = await started(several, tmp_path)
    assert (await several.run(second.call("backup_interrupt"))).status == 200


async def test_a_stop_of_one_member_interrupts_its_own_backup_only(
    several: Several, tmp_path: Path
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    making = asyncio.ensure_future(first.call("backup"))
    await several.time.settle()
    await several.run(second.management.persistence.backups.interrupt())
    sources[0].gate.set()
    assert (await several.run(making)).status == 200
    await several.time.settle()
    assert await shown(first) == [("backup", "FINISHED", None)]


async def test_the_backup_of_a_member_that_is_gone_keeps_nobody_out(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    making = asyncio.ensure_future(first.call("backup"))
    await several.time.settle()
    await first.end()
    making.cancel()
    assert (await several.run(second.call("backup"))).status == 409
    await several.time.advance(2 * LEASE_S)
    sources[1].gate.set()
    assert (await several.run(second.call("backup"))).status == 200
    await several.time.settle()
    assert await shown(third) == [("backup", "FINISHED", None)]
