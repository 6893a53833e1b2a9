"""Backups that a lite member is asked for: made by one with data, once, whatever becomes of it."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.cluster.membership.locks import CHANGE
from grid_member.cluster.persistence.backup_keys import REQUEST
from grid_member.cluster.persistence.backup_requests import NOBODY, TAKE_S
from grid_member.cluster.persistence.backups import AGAIN_S, UNSET, UNWANTED
from grid_member.engine.api import Reason, Refused
from grid_member.engine.replicated.full_replicas import SEAT_PREFIX
from tests.unit.member.cluster.persistence.backing_up import (
    FINISHED,
    a_lite_one,
    in_doubt,
    makes_backups,
    open_gates,
    refusing,
    shown,
    started,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.unit.member.cluster.several import Several


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


async def test_a_lite_member_asks_the_next_one_when_one_has_no_place_for_backups(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    first.management.persistence.backups._backup_dir = None
    second.management.persistence.backups._directory = None
    open_gates(sources)
    assert (await several.run(lite.call("backup"))).status == 200
    await several.time.settle()
    assert await shown(third) == [FINISHED]
    assert os.listdir(tmp_path / "backups") == ["backup-1"]


async def test_a_lite_member_tells_why_nobody_makes_a_backup(
    several: Several, tmp_path: Path
) -> None:
    members, _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    for member in members:
        member.management.persistence.backups._backup_dir = None
    refused = await several.run(lite.call("backup"))
    assert refused.status == 409
    for member in members:
        assert f"the member {member.member.address} makes none: {UNSET}" in str(refused.body)
    members[0].membership.on_change.pop(REQUEST)
    silent = await several.run(lite.call("backup"), TAKE_S + 10)
    assert (silent.status, "Retry-After" in dict(silent.headers)) == (503, True)
    told = [member.member.address in str(silent.headers) for member in members]
    assert told == [True, False, False]
    assert not lite.engine.system_items(REQUEST)


async def test_a_lite_member_names_those_that_do_not_answer(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    for member in (first, second, third):
        member.membership.on_change.pop(REQUEST)
    silent = await several.run(lite.call("backup"), 3 * TAKE_S + 10)
    assert (silent.status, "Retry-After" in dict(silent.headers)) == (503, True)
    assert all(member.member.address in str(silent.headers) for member in (first, second, third))
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


async def test_the_next_member_is_asked_when_one_does_not_take_the_job(
    several: Several, tmp_path: Path
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    first.membership.on_change.pop(REQUEST)  # as one of an earlier version
    open_gates(sources)
    answer = await several.run(lite.call("backup"), TAKE_S + 5)
    assert answer.status == 200
    await several.time.settle()
    assert await shown(second) == [FINISHED]


async def test_a_maker_that_was_restarted_looks_at_what_it_was_asked_for(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    await first.end()  # its lease goes on, so it is asked
    making = asyncio.ensure_future(lite.call("backup"))
    await several.time.settle()
    again = first.again()
    makes_backups(again, tmp_path).gate.set()
    await several.run(again.start())
    assert (await several.run(making)).status == 200
    await several.time.settle()
    for member in (again, second, third):
        assert await shown(member) == [FINISHED]


async def test_a_maker_that_was_restarted_begins_none_before_it_has_joined(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    await first.end()
    again = first.again()
    open_gates([makes_backups(again, tmp_path), *sources[1:]])
    async with second.membership.locks.hold(CHANGE, "test", None):
        starting = asyncio.ensure_future(again.start())
        await several.time.advance(2)
        making = asyncio.ensure_future(lite.call("backup"))
        await several.time.advance(2)
        assert not making.done()
    await several.run(starting)
    assert (await several.run(making)).status == 200
    await several.time.settle()
    for member in (again, second, third):
        assert await shown(member) == [FINISHED]


async def test_a_maker_that_was_restarted_makes_none_that_it_began(
    several: Several, tmp_path: Path
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup"))
    await several.time.settle()
    assert not making.done()
    await first.end()
    again = first.again()
    open_gates([makes_backups(again, tmp_path), *sources[1:]])
    await several.run(again.start())
    assert (await several.run(making)).status == 200
    await several.time.settle()
    assert await shown(second) == [FINISHED]
    assert os.listdir(tmp_path / "backups") == ["backup-1"]
    assert not second.engine.system_items(f"{REQUEST}{second.uuid}/")


async def test_a_backup_that_takes_long_is_waited_for(several: Several, tmp_path: Path) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup", key="mine"))
    await several.time.advance(300)
    for key, _ in first.engine.system_items(REQUEST):  # what is asked has its time, too
        first.engine.system_put(key, None, lambda _: None)
    await several.time.advance(10)
    assert not making.done()
    open_gates(sources)
    assert (await several.run(making)).status == 200
    await several.time.settle()
    again = await several.run(lite.call("backup", key="mine"))
    assert (again.status, await shown(second)) == (200, [FINISHED])
    assert os.listdir(tmp_path / "backups") == ["backup-1"]


async def test_what_came_of_it_is_told_until_the_log_takes_it(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, second, third), _ = await started(several, tmp_path)
    lite = await a_lite_one(several)
    for member in (first, second, third):
        member.management.persistence.backups._backup_dir = None
    refused = refusing(first, "/told", monkeypatch, 3)
    answer = await several.run(lite.call("backup"), 5 * AGAIN_S)
    assert (answer.status, UNSET in str(answer.body)) == (409, True)
    assert (len(refused), await shown(second)) == (3, [])


async def test_a_maker_takes_a_job_when_the_log_takes_it(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _, third), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    open_gates(sources)
    refused = refusing(first, "/taken", monkeypatch, 2)
    assert (await several.run(lite.call("backup"))).status == 200
    await several.time.settle()
    assert ({key.split("/")[1] for key in refused}, len(refused)) == ({first.uuid}, 2)
    assert await shown(third) == [FINISHED]


async def test_a_request_that_the_log_refused_is_carried_out_by_nobody(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    open_gates(sources)
    with monkeypatch.context() as meanwhile:
        in_doubt(lite, "", meanwhile)
        assert (await several.run(lite.call("backup"))).status == 503
    await several.time.advance(30)
    assert await shown(first) == []
    assert (await several.run(lite.call("backup"))).status == 200


async def test_nothing_is_written_for_who_cannot_tell_whether_it_told_the_maker_to_go(
    several: Several, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    in_doubt(lite, "/go", monkeypatch)
    assert (await several.run(lite.call("backup"))).status == 503
    open_gates(sources)
    await several.time.advance(5)
    assert await shown(first) == [("backup", "FAILED", UNWANTED)]
    assert (os.listdir(tmp_path / "backups"), await shown(second)) == ([], await shown(first))


async def test_a_refusal_of_the_log_is_the_same_for_who_asked_the_lite_member(
    several: Several, tmp_path: Path
) -> None:
    (first, _, _), _ = await started(several, tmp_path)
    lite = await a_lite_one(several)

    async def refused() -> Refused:
        return Refused(Reason.OVERLOADED, "too much waits already")

    first.management.persistence.backups.make_as = lambda *_: refused()  # type: ignore[method-assign]
    answer = await several.run(lite.call("backup"))
    assert (answer.status, "Retry-After" in dict(answer.headers)) == (503, True)
    assert "too much waits already" in str((answer.body, answer.headers))


async def test_a_maker_that_was_given_up_writes_nothing(several: Several, tmp_path: Path) -> None:
    (first, second, _), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    making = asyncio.ensure_future(lite.call("backup"))
    await several.time.settle()
    first.engine.cut_off()
    await several.time.advance(2 * LEASE_S)
    open_gates(sources)
    assert (await several.run(making)).status == 200
    first.engine.heal()
    await several.time.advance(5)
    assert sorted(await shown(second), key=str) == [("backup", "FAILED", UNWANTED), FINISHED]
    assert os.listdir(tmp_path / "backups") == ["backup-1"]
    left = [key for key, _ in lite.engine.system_items(f"{REQUEST}{first.uuid}/")]
    assert any(key.endswith("/withdrawn") for key in left)


async def test_who_holds_all_of_the_data_and_is_in_contact_is_asked_first(
    several: Several, tmp_path: Path
) -> None:
    (first, second, third), sources = await started(several, tmp_path)
    lite = await a_lite_one(several)
    for holder in (second, third):
        first.engine.system_put(f"{SEAT_PREFIX}{holder.uuid}", b"", lambda _: None)
    second.engine.cut_off()
    await several.time.advance(LEASE_S - 2)  # silent, and on the list still
    assert second.uuid in lite.listed
    sources[2].gate.set()  # whoever else begins does not end
    assert (await several.run(lite.call("backup"))).status == 200
    await several.time.settle()
    assert await shown(first) == [FINISHED]
