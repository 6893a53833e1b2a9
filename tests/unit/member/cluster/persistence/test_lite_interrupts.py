"""An interrupt of a backup that a lite member was asked for, whoever makes it or is about to."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.persistence.backup_keys import REQUEST
from grid_member.cluster.persistence.backups import INTERRUPTED
from tests.unit.member.cluster.persistence.backing_up import a_lite_one, open_gates, shown, started

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.api import Done
    from tests.unit.member.cluster.several import Several

GIVEN_UP = ("backup", "FAILED", INTERRUPTED)


async def test_an_interrupt_that_outlasts_the_maker_keeps_the_next_one_from_being_asked(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup", key="mine"))
    await several.time.settle()
    interrupting = asyncio.ensure_future(third.call("backup_interrupt"))
    await several.time.settle()
    await first.end()
    open_gates(sources)
    assert (await several.run(interrupting)).status == 200
    answer = await several.run(making)
    assert (answer.status, "X-Grid-Operation" in dict(answer.headers)) == (200, True)
    await several.time.advance(5)
    assert await shown(second) == [GIVEN_UP]
    assert not (tmp_path / "backups").exists() or os.listdir(tmp_path / "backups") == []


@pytest.mark.parametrize("by_lite", [False, True], ids=["with data", "the one that was asked"])
async def test_a_backup_that_nobody_has_taken_yet_is_interrupted(
    several: Several, tmp_path: Path, by_lite: bool
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    open_gates(sources)
    del first.membership.on_change[REQUEST]
    making = asyncio.ensure_future(lite.call("backup"))
    await several.time.advance(2)
    interrupting = lite if by_lite else second
    assert (await several.run(interrupting.call("backup_interrupt"))).status == 200
    assert (await several.run(making)).status == 200
    await several.time.advance(10)
    assert await shown(second) == [GIVEN_UP]
    assert (await several.run(second.call("backup"))).status == 200


async def test_a_maker_that_is_told_to_go_after_an_interrupt_begins_nothing(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, second, third), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    open_gates(sources)
    put, interrupts = lite.engine.system_put, list[asyncio.Future[None]]()

    def interrupted_first(key: str, value: bytes | None, done: Done[None], **more: int) -> None:
        if not key.endswith("/go") or value is None:
            put(key, value, done, **more)
            return

        async def later() -> None:
            answer = await third.call("backup_interrupt")
            assert answer.status == 200
            put(key, value, done, **more)

        interrupts.append(asyncio.ensure_future(later()))

    monkeypatch.setattr(lite.engine, "system_put", interrupted_first)
    assert (await several.run(lite.call("backup"))).status == 200
    assert len(interrupts) == 1
    await several.time.advance(5)
    assert await shown(second) == [GIVEN_UP]
    assert not (tmp_path / "backups").exists()


async def test_an_interrupt_that_no_majority_takes_says_so(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, second, _), _ = await started(several, tmp_path)
    put = second.engine.system_put

    def without(key: str, value: bytes | None, done: Done[None], **more: int) -> None:
        if key.startswith(REQUEST):
            key = "lost"
        put(key, value, done, **more)

    monkeypatch.setattr(second.engine, "system_put", without)
    first.engine.system_put(f"{REQUEST}{first.uuid}/left", b"", lambda _: None)
    await several.time.settle()
    assert (await several.run(second.call("backup_interrupt"))).status == 503
