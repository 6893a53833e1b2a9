"""What a lite member does when what it and the maker of its backup tell each other is lost."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.cluster.persistence.backup_keys import REQUEST
from grid_member.cluster.persistence.backup_requests import (
    LATE,
    LOST_S,
    NEXT,
    STOPPING,
    TAKE_S,
    WITHDRAW_S,
)
from grid_member.cluster.persistence.backups import UNWANTED
from grid_member.cluster.values.operations import OPERATION
from grid_member.http.routes.persistence import DEPRECATED
from tests.unit.member.cluster.persistence.backing_up import (
    FINISHED,
    a_lite_one,
    in_doubt,
    open_gates,
    refusing,
    shown,
    started,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from grid_member.engine.api import Done
    from tests.unit.member.cluster.several import OneOfSeveral, Several


def forgotten(member: OneOfSeveral) -> None:
    """Let what is left of requests have had its time."""
    for key, _ in member.engine.system_items(REQUEST):
        member.engine.system_put(key, None, lambda _: None)


async def test_the_operation_tells_who_missed_what_the_maker_told(
    several: Several, tmp_path: Path
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup", key="mine"))
    await several.time.settle()
    lite.engine.cut_off()
    open_gates(sources)
    await several.time.settle()
    assert any(key.endswith("/told") for key, _ in first.engine.system_items(REQUEST))
    forgotten(first)
    await several.time.settle()
    lite.engine.heal()
    answer = await several.run(making)
    assert (answer.status, "X-Grid-Operation" in dict(answer.headers)) == (200, True)
    assert (await shown(second), os.listdir(tmp_path / "backups")) == ([FINISHED], ["backup-1"])


async def test_a_maker_that_is_told_to_go_too_late_says_so(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    open_gates(sources)
    put, loop = lite.engine.system_put, asyncio.get_running_loop()

    def late(key: str, value: bytes | None, done: Done[None], **more: int) -> None:
        if not key.endswith("/go") or value is None:
            put(key, value, done, **more)
            return

        def expired(outcome: object) -> None:
            loop.call_soon(put, key, value, done)

        put(key.removesuffix("/go"), None, expired)

    monkeypatch.setattr(lite.engine, "system_put", late)
    answer = await several.run(lite.call("backup"))
    assert (answer.status, LATE in str((answer.body, answer.headers))) == (503, True)
    assert await shown(first) == []
    assert not first.engine.system_items(REQUEST)


async def test_a_maker_of_which_nothing_is_heard_is_given_up(
    several: Several, tmp_path: Path
) -> None:
    (first, second, _), _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    engine = first.engine
    del first.membership.on_change[REQUEST]
    making = asyncio.ensure_future(lite.call("backup"))
    await several.time.settle()
    ((asked, _),) = engine.system_items(REQUEST)
    life = first.membership.heartbeat.incarnation.encode()
    engine.system_put(f"{asked}/taken", life, lambda _: None)
    await several.time.advance(LOST_S - 10)
    assert not making.done()
    answer = await several.run(making)
    assert (answer.status, first.member.address in str(answer.headers)) == (503, True)
    assert await shown(second) == []
    left = [key for key, _ in second.engine.system_items(REQUEST)]
    assert [key.rpartition("/")[2] for key in left] == ["withdrawn"]


async def test_a_lite_member_that_stops_says_that(several: Several, tmp_path: Path) -> None:
    (first, second, _), _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    del first.membership.on_change[REQUEST]
    making = asyncio.ensure_future(lite.call("backup"))
    await several.time.settle()
    await several.run(lite.membership.leave())
    answer = await several.run(making)
    assert (answer.status, STOPPING in str(answer.headers)) == (503, True)
    assert "upgrade" not in str(answer.headers)
    await several.time.settle()
    assert (await shown(second), second.engine.system_items(REQUEST)) == ([], [])


async def test_a_maker_writes_nothing_for_a_lite_member_that_has_stopped(
    several: Several, tmp_path: Path
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup"))
    await several.time.settle()
    await several.run(lite.membership.leave())
    answer = await several.run(making)
    assert (answer.status, STOPPING in str(answer.headers)) == (503, True)
    assert first.member.address in str(answer.headers)
    open_gates(sources)
    await several.time.advance(5)
    assert await shown(second) == [("backup", "FAILED", UNWANTED)]
    assert os.listdir(tmp_path / "backups") == []


async def test_the_log_tells_whether_another_member_is_asked(
    several: Several, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    members, _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    for member in members:
        del member.membership.on_change[REQUEST]
    with caplog.at_level("WARNING", "grid.persistence"):
        assert (await several.run(lite.call("backup"), 3 * TAKE_S + 10)).status == 503
    told = [r.getMessage() for r in caplog.records if "makes no backup" in r.getMessage()]
    assert [NEXT in message for message in told] == [True, True, False]


async def test_a_call_ends_whose_end_cannot_be_told_to_the_maker(
    several: Several,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (first, second, _), _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup", key="mine"))
    await several.time.settle()
    with monkeypatch.context() as meanwhile, caplog.at_level("WARNING", "grid.persistence"):
        refused = refusing(lite, "/withdrawn", meanwhile, 1_000)
        await first.end()
        answer = await several.run(making, 2 * LEASE_S + 2 * WITHDRAW_S)
    assert (answer.status, first.member.address in str(answer.headers)) == (503, True)
    assert len(refused) > 1
    told = [record for record in caplog.records if "tried again" in record.getMessage()]
    assert len(told) == 1
    assert await shown(second) == []
    await several.time.advance(5)
    left = [key for key, _ in second.engine.system_items(REQUEST)]
    assert [key.rpartition("/")[2] for key in left] == ["withdrawn"]


async def test_who_could_not_tell_the_maker_to_go_knows_whether_it_began(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    open_gates(sources)
    with monkeypatch.context() as meanwhile:
        in_doubt(lite, "/go", meanwhile)
        refusing(lite, "/withdrawn", meanwhile, 1)
        answer = await several.run(lite.call("backup"))
    assert (answer.status, "X-Grid-Operation" in dict(answer.headers)) == (200, True)
    await several.time.settle()
    assert (await shown(second), os.listdir(tmp_path / "backups")) == ([FINISHED], ["backup-1"])
    assert await shown(first) == [FINISHED]


async def test_a_call_finds_its_backup_when_the_lite_member_has_died(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("hot_backup", key="mine"))
    await several.time.settle()
    lite.engine.cut_off()  # nothing is said as it dies
    await lite.end()
    making.cancel()
    open_gates(sources)
    await several.time.advance(2 * LEASE_S)
    ((operation, _),) = first.engine.system_items(OPERATION)
    for member in (second, third):
        again = await several.run(member.call("hot_backup", key="mine"))
        assert (again.status, again.repeated, DEPRECATED in again.headers) == (200, True, True)
        assert operation == OPERATION + dict(again.headers)["X-Grid-Operation"]
    assert (await shown(second), os.listdir(tmp_path / "backups")) == ([FINISHED], ["backup-1"])


async def test_a_maker_writes_nothing_for_a_call_that_another_member_has_carried_out(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup", key="mine"))
    await several.time.settle()
    for member in (lite, first):
        member.engine.cut_off()
    await lite.end()
    making.cancel()
    await several.time.advance(2 * LEASE_S)
    open_gates(sources)
    assert (await several.run(second.call("backup", key="mine"))).status == 200
    first.engine.heal()
    await several.time.advance(5)
    assert sorted(await shown(third), key=str) == [("backup", "FAILED", UNWANTED), FINISHED]
    assert os.listdir(tmp_path / "backups") == ["backup-1"]
