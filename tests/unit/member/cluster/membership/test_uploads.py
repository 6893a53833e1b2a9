"""Configuration that is added on one member, in effect on all or on none."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.member.member import Phase
from grid_member.cluster.membership.configuration_vote import VOTE
from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.engine.api import ClusterState
from tests.unit.member.cluster.several import CONFIGURATION

if TYPE_CHECKING:
    from tests.unit.member.cluster.several import Several

UPLOAD = "grid: {map: {%s: {time-to-live-seconds: 7}}}"


async def test_an_upload_is_in_effect_on_every_member_when_it_is_answered(
    several: Several,
) -> None:
    members = await several.started(3)
    answer = await several.run(members[1].call("config_upload", UPLOAD % "added"))
    assert answer.status == 200
    assert all(m.member.config.maps["added"].time_to_live_s == 7 for m in members)
    late = several.add()
    await several.run(late.start())
    assert "added" in late.member.config.maps


async def test_uploads_at_once_on_several_members_are_all_kept(several: Several) -> None:
    members = await several.started(3)
    calls = [m.call("config_upload", UPLOAD % f"m{n}") for n, m in enumerate(members)]
    answers = await several.run(asyncio.gather(*_patient(several, calls)))
    assert [answer.status for answer in answers] == [200] * 3
    for member in members:
        assert {"m0", "m1", "m2"} <= set(member.member.config.maps)


WILDCARD = CONFIGURATION.replace("map: {default: {}}", "map: {default: {}, '*s': {}}")
OTHER = CONFIGURATION.replace(
    "map: {default: {}}", "map: {default: {}, orders: {max-idle-seconds: 5}}"
)
SAME = CONFIGURATION.replace(
    "map: {default: {}}", "map: {default: {}, orders: {time-to-live-seconds: 7}}"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (WILDCARD, "matches names that"),
        (OTHER, "map.orders: is configured otherwise there"),
    ],
)
async def test_what_another_member_cannot_go_by_is_added_on_none(
    several: Several, text: str, problem: str
) -> None:
    first, second, third = several.add(), several.add(), several.add(text=text)
    for member in (first, second, third):
        await several.run(member.start())
    upload = "grid: {map: {orders: {time-to-live-seconds: 7}, 'o*': {}, plain: {}}}"
    answer = await several.run(first.call("config_upload", upload, key="k"))
    found = json.loads(answer.body)
    assert (answer.status, found["status"]) == (409, "fail")
    assert found["message"].startswith("nothing is added: member 10.0.0.3:5701: ")
    assert problem in found["message"]
    for member in (first, second, third):
        assert "plain" not in member.member.config.maps
        assert not member.engine.system_items("config/")
        assert not member.engine.system_items(VOTE)
    # The member itself could add it, so could those that are there when the other one is gone.
    await several.run(third.stop())
    await several.time.advance(2 * LEASE_S)
    answer = await several.run(first.call("config_upload", upload, key="k"))
    assert answer.status == 200
    assert "plain" in second.member.config.maps


async def test_what_another_member_has_alike_is_added(several: Several) -> None:
    first, second = several.add(), several.add(text=SAME)
    for member in (first, second):
        await several.run(member.start())
    assert (await several.run(first.call("config_upload", UPLOAD % "orders"))).status == 200
    assert first.member.config.maps["orders"] == second.member.config.maps["orders"]


async def test_a_member_that_dies_is_not_asked_for_ever(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    await third.end()
    answer = await several.run(first.call("config_upload", UPLOAD % "added"), LEASE_S + 4)
    assert answer.status == 200
    assert "added" in second.member.config.maps


async def test_a_member_that_lives_and_does_not_answer_keeps_everything_as_it_is(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = await several.started(3)
    monkeypatch.setattr(second.membership.configuration_vote, "look", lambda: None)
    answer = await several.run(first.call("config_upload", UPLOAD % "added"))
    assert (answer.status, dict(answer.headers)["Retry-After"]) == (503, "1")
    assert "added" not in first.member.config.maps
    monkeypatch.undo()
    assert (await several.run(first.call("config_upload", UPLOAD % "added"))).status == 200
    assert "added" in second.member.config.maps


async def test_who_joins_while_something_is_added_has_it(several: Several) -> None:
    first, second, _ = await several.started(3)
    second.engine.slow = True
    adding = asyncio.ensure_future(first.call("config_upload", UPLOAD % "added"))
    await several.time.settle()
    joining = several.add(text=SAME)
    starting = asyncio.ensure_future(joining.start())
    await several.time.advance(1)
    assert first.state() is ClusterState.ACTIVE
    assert not starting.done()
    assert not adding.done()
    second.engine.heal()
    assert (await several.run(adding)).status == 200
    await several.run(starting)
    assert joining.phase is Phase.RUNNING


async def test_an_upload_is_refused_while_something_else_changes(several: Several) -> None:
    first, second = await several.started(2)
    async with second.membership.locks.hold("change", "change_state"):
        answer = await several.run(first.call("config_upload", UPLOAD % "added"))
    assert (answer.status, dict(answer.headers)["Retry-After"]) == (503, "1")


def _patient(several: Several, calls: list[Any]) -> list[Any]:
    """Return the calls, each with time that goes on until it is answered."""
    return [asyncio.ensure_future(call) for call in calls]
