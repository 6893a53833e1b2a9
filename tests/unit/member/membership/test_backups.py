"""Backups of several members: one at a time, seen and interrupted from each of them."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grid_member.cluster.backup_requests import (
    NOBODY,
    PATIENCE_S,
    REQUEST,
    LiteBackups,
    serve_requests,
)
from grid_member.cluster.backups import (
    AGAIN_S,
    INTERRUPT,
    INTERRUPT_PATIENCE_S,
    RUNNING,
    UNNOTED,
    UNSET,
    Backups,
)
from grid_member.cluster.pulse import LEASE_S
from grid_member.engine.state import State
from tests.unit.member.membership.shared_log import UNAVAILABLE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from grid_member.engine.api import Done
    from grid_member.engine.image import Image
    from tests.unit.member.membership.several import OneOfSeveral, Several


class Source:
    """The data of a member, which is there when the gate is open."""

    imported = False

    def __init__(self, member_uuid: str) -> None:
        self.member_uuid = member_uuid
        self.gate = asyncio.Event()

    async def moment(self) -> list[Image]:
        await self.gate.wait()
        return [State().snapshot()]


async def started(several: Several, place: Path) -> tuple[list[OneOfSeveral], list[Source]]:
    """Return three members that make backups in a directory that they share."""
    members, sources = await several.started(3), []
    for member in members:
        source = Source(member.uuid)
        sources.append(source)
        backups = Backups(
            source,
            member.engine,
            member.management.operations,
            lambda: 1_000,
            directory=place / member.uuid,
            backup_dir=place / "backups",
            membership=member.membership,
        )
        serve_requests(member.membership, backups)
        persistence = member.management.persistence
        member.management.persistence = replace(persistence, backups=backups)
    return members, sources


async def a_lite_one(several: Several) -> OneOfSeveral:
    """Return a lite member that has joined, without a directory for backups."""
    lite = several.add(lite=True)
    await several.run(lite.start())
    backups = LiteBackups(
        Source(lite.uuid),
        lite.engine,
        lite.management.operations,
        lambda: 1_000,
        directory=None,
        backup_dir=None,
        membership=lite.membership,
    )
    persistence = lite.management.persistence
    lite.management.persistence = replace(persistence, backups=backups)
    return lite


async def shown(member: OneOfSeveral) -> list[tuple[str, str, str | None]]:
    """Return kind, stage and error of the operations that a member shows."""
    documents: list[dict[str, Any]] = json.loads((await member.call("operations")).body)
    return [(found["kind"], found["stage"], found["error"]) for found in documents]


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
    given_up = ("backup", "FAILED", UNNOTED)
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


async def test_a_lite_member_lets_the_oldest_member_with_data_make_a_backup(
    several: Several, tmp_path: Path
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup", key="mine"))
    await several.time.settle()
    assert not making.done()
    for member in (lite, second):
        assert (await several.run(member.call("backup"))).status == 409
    sources[0].gate.set()
    answer = await several.run(making)
    operation = dict(answer.headers)["X-Grid-Operation"]
    assert answer.status == 200
    await several.time.settle()
    assert await shown(lite) == [("backup", "FINISHED", None)]
    assert json.loads((await lite.call("operations")).body)[0]["id"] == operation
    again = await several.run(second.call("backup", key="mine"))
    assert (again.body, again.headers) == (answer.body, answer.headers)
    assert os.listdir(tmp_path / "backups") == ["backup-1"]
    assert not first.engine.system_items(REQUEST)


async def test_a_lite_member_asks_the_next_one_when_the_oldest_is_gone(
    several: Several, tmp_path: Path
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    sources[1].gate.set()
    await first.end()
    assert (await several.run(lite.call("backup"))).status == 200
    await several.time.settle()
    assert await shown(second) == [("backup", "FINISHED", None)]


async def test_a_lite_member_tells_why_another_makes_no_backup(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    persistence = first.management.persistence
    persistence.backups._backup_dir = None
    refused = await several.run(lite.call("backup"))
    assert (refused.status, first.member.address in str(refused.body)) == (409, True)
    assert UNSET in str(refused.body)
    first.membership.on_change.pop(REQUEST)
    silent = await several.run(lite.call("backup"), PATIENCE_S + 10)
    assert (silent.status, "Retry-After" in dict(silent.headers)) == (503, True)
    assert not lite.engine.system_items(REQUEST)
    for member in (first, second, third):
        await member.stop()
    assert NOBODY in str((await several.run(lite.call("backup"))).body)
    assert os.listdir(tmp_path) == []


async def test_a_backup_that_a_lite_member_was_asked_for_is_interrupted(
    several: Several, tmp_path: Path
) -> None:
    (_, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup"))
    await several.time.settle()
    interrupting = asyncio.ensure_future(lite.call("backup_interrupt"))
    await several.time.settle()
    sources[0].gate.set()
    assert (await several.run(making)).status == 200
    assert (await several.run(interrupting)).status == 200
    assert await shown(second) == [("backup", "FAILED", "the backup was interrupted")]
