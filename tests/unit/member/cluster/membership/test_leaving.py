"""A member that is asked to leave for good."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from grid_member.cluster.management.departure import KIND, MemberDeparture
from grid_member.cluster.member.member import Phase
from grid_member.cluster.membership.shutdown_marker import ShutdownMarker
from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.replicas.departure import Evacuation
from tests.unit.member.cluster.several import CONFIGURATION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.unit.member.cluster.several import OneOfSeveral, Several

LEAVE = {"X-Grid-Leave": "forever"}


class Moving:
    """An engine that moves its copies as far as it is let."""

    def __init__(self) -> None:
        self.told: Callable[[Evacuation], None] = lambda _: None
        self.moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def evacuate(self, report: Callable[[Evacuation], None]) -> None:
        self.told = report
        await self.moved


def leaving(member: OneOfSeveral) -> Moving:
    engine = Moving()
    member.management.departing = MemberDeparture(engine, member.member, member.membership)
    return engine


def operation_of(member: OneOfSeveral) -> dict[str, object]:
    found = [one for one in member.management.operations.documents() if one["kind"] == KIND]
    assert len(found) == 1
    return {**found[0]}


async def test_it_stops_when_everything_is_elsewhere(several: Several) -> None:
    first, second, _ = await several.started()
    engine = leaving(second)
    answer = await second.call("member_shutdown", headers=LEAVE)
    again = await second.call("member_shutdown", headers=LEAVE)
    assert answer.status == 200
    assert json.loads(answer.body) == {"status": "success"}
    assert dict(answer.headers)["X-Grid-Operation"] == dict(again.headers)["X-Grid-Operation"]
    await several.time.settle()
    engine.told(Evacuation(40, "a member is silent"))
    await several.time.settle()
    shown = operation_of(first)
    assert (shown["stage"], shown["progress"]) == ("IN_PROGRESS", 40)
    assert shown["error"] == "a member is silent"
    assert not second.member.ending
    engine.moved.set_result(None)
    await several.time.settle()
    await asyncio.wait_for(second.member.wait_for_stop(), 5)
    shown = operation_of(first)
    assert (shown["stage"], shown["error"]) == ("FINISHED", None)


async def test_one_that_cannot_leave_says_why_and_may_be_asked_again(several: Several) -> None:
    first, second, _ = await several.started()
    engine = leaving(second)
    begun = await second.call("member_shutdown", headers=LEAVE)
    await several.time.settle()
    engine.moved.set_exception(EngineError("the engine has not started"))
    await several.time.settle()
    shown = operation_of(first)
    assert (shown["stage"], shown["error"]) == ("FAILED", "the engine has not started")
    assert second.phase is Phase.RUNNING
    engine.moved = asyncio.get_running_loop().create_future()
    again = await second.call("member_shutdown", headers=LEAVE)
    assert begun.headers != again.headers


async def test_the_answer_waits_until_the_operation_is_stored(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = await several.started()
    leaving(second)
    put = type(second.management.store).system_put
    held: list[Callable[[], None]] = []

    def hold(*said: Any, **settings: Any) -> None:
        held.append(lambda: put(*said, **settings))

    with monkeypatch.context() as patch:
        patch.setattr(type(second.management.store), "system_put", hold)
        answer = asyncio.ensure_future(second.call("member_shutdown", headers=LEAVE))
        again = asyncio.ensure_future(second.call("member_shutdown", headers=LEAVE))
        await several.time.settle()
    assert (answer.done(), again.done()) == (False, False)
    assert first.management.operations.documents() == []
    answer.cancel()
    for go_on in held:
        go_on()
    assert (await several.run(again)).status == 200
    assert operation_of(first)["stage"] == "STARTED"


async def test_a_member_stays_when_its_leaving_cannot_be_stored(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = await several.started()
    leaving(second)
    refused = Refused(Reason.UNAVAILABLE, "the log confirms nothing")
    with monkeypatch.context() as patch:
        patch.setattr(
            type(second.management.store),
            "system_put",
            lambda store, key, value, done, **_: done(refused),
        )
        answer = await several.run(second.call("member_shutdown", headers=LEAVE))
    assert answer.status == 503
    assert dict(answer.headers)["X-Grid-Error"] == "the log confirms nothing"
    assert second.management.operations.documents() == []
    assert second.phase is Phase.RUNNING
    assert (await several.run(second.call("member_shutdown", headers=LEAVE))).status == 200
    await several.time.settle()
    assert operation_of(first)["stage"] == "STARTED"


async def test_members_of_one_name_are_two_under_one_key(several: Several) -> None:
    first, second, third = await several.started()
    leaving(second)
    leaving(third)
    assert first.member.name == second.member.name == third.member.name
    keyed = {**LEAVE, "Idempotency-Key": "leave-1"}
    begun = await second.call("member_shutdown", headers=keyed)
    assert begun.status == 200
    await several.time.settle()
    assert (await third.call("member_shutdown", headers=keyed)).status == 409
    again = await second.call("member_shutdown", headers=keyed)
    assert again.headers == begun.headers


async def test_anything_else_in_the_header_is_refused(several: Several) -> None:
    (member,) = await several.started(1)
    leaving(member)
    assert (await member.call("member_shutdown", headers={"X-Grid-Leave": "yes"})).status == 400
    assert member.phase is Phase.RUNNING


async def test_to_a_member_that_is_alone_the_header_means_nothing(several: Several) -> None:
    (member,) = await several.started(1)
    answer = await member.call("member_shutdown", headers={"X-Grid-Leave": "yes"})
    assert (answer.status, answer.on_delivery is None) == (200, False)


async def test_a_member_that_has_not_joined_cannot_leave(several: Several) -> None:
    (member,) = await several.started(1)
    leaving(member)
    member.member.phase = Phase.STARTING
    assert (await member.call("member_shutdown", headers=LEAVE)).status == 409


async def test_a_member_that_stops_cannot_leave(several: Several) -> None:
    (member,) = await several.started(1, text=f"{CONFIGURATION}  shutdown: {{drain-seconds: 60}}\n")
    leaving(member)
    member.member.request_stop()
    assert (await member.call("member_shutdown", headers=LEAVE)).status == 409
    member.member.request_stop(drain=False)


async def test_it_does_not_begin_when_nothing_could_keep_it_down(
    several: Several, tmp_path: Path
) -> None:
    first, second, _ = await several.started()
    leaving(second)
    second.member.shutdown_marker = ShutdownMarker(tmp_path / "volume" / "parked", lambda: 1_000)
    refused = await second.call("member_shutdown", headers=LEAVE)
    assert (refused.status, b"shutdown.parked-file" in refused.body) == (409, True)
    await several.time.settle()
    assert first.management.operations.documents() == []
    (tmp_path / "volume").mkdir()
    assert (await second.call("member_shutdown", headers=LEAVE)).status == 200
    assert list((tmp_path / "volume").iterdir()) == []


async def test_asked_again_with_its_key_it_goes_on(several: Several) -> None:
    first, second, _ = await several.started()
    engine = leaving(second)
    begun = await several.run(second.call("member_shutdown", key="k", headers=LEAVE))
    same = await several.run(second.call("member_shutdown", key="k", headers=LEAVE))
    assert (begun.status, same.headers) == (200, begun.headers)
    engine.moved.set_exception(EngineError("the engine has not started"))
    await several.time.settle()
    assert operation_of(first)["stage"] == "FAILED"
    engine.moved = asyncio.get_running_loop().create_future()
    again = await several.run(second.call("member_shutdown", key="k", headers=LEAVE))
    assert (again.status, again.headers != begun.headers) == (200, True)
    await second.end()
    back = second.again()
    await several.run(back.start())
    leaving(back)
    assert (await several.run(back.call("member_shutdown", key="k", headers=LEAVE))).status == 200
    await several.time.settle()
    stages = sorted(one["stage"] for one in first.management.operations.documents())
    assert stages == ["FAILED", "FAILED", "STARTED"]


async def test_leaving_is_another_request_than_stopping_and_than_that_of_another_member(
    several: Several,
) -> None:
    _, second, third = await several.started()
    third.member.name = "another name"
    for member in (second, third):
        leaving(member)
    assert (await several.run(second.call("member_shutdown", key="k", headers=LEAVE))).status == 200
    assert (await several.run(second.call("member_shutdown", key="k"))).status == 409
    refused = await several.run(third.call("member_shutdown", key="k", headers=LEAVE))
    assert refused.status == 409
    assert not third.member.ending
