"""Changes of the cluster's state, and calls with keys, made on one member and shown on all."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.cluster.membership.locks import CHANGE
from grid_member.engine.api import ClusterState
from tests.unit.member.cluster.shared_log import UNAVAILABLE

if TYPE_CHECKING:
    from tests.unit.member.cluster.several import Several

SETTABLE = [state for state in ClusterState if state is not ClusterState.IN_TRANSITION]


async def test_every_member_shows_the_state_when_it_is_answered(several: Several) -> None:
    members = await several.started(3)
    for number, state in enumerate([*SETTABLE[1:], *SETTABLE]):
        asked = members[number % 3]
        answer = await several.run(asked.call("change_state", state.value))
        if answer.body != b'{"status":"success","state":"%s"}' % state.value.encode():
            raise AssertionError(answer)
        assert [member.state() for member in members] == [state] * 3


async def test_the_same_state_is_a_failure_on_every_member(several: Several) -> None:
    first, second, _ = await several.started(3)
    await several.run(first.call("change_state", "frozen"))
    answer = await several.run(second.call("change_state", "frozen"))
    assert (answer.status, answer.body) == (200, b'{"status":"fail","state":"frozen"}')


async def test_a_change_waits_for_a_member_that_lives_and_does_not_show_it(
    several: Several,
) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    third.engine.slow = True
    changing = asyncio.ensure_future(first.call("change_state", "frozen"))
    await several.time.advance(2)
    assert not changing.done()
    assert second.state() is ClusterState.FROZEN
    assert third.state() is ClusterState.ACTIVE
    third.engine.heal()
    assert (await several.run(changing)).status == 200
    assert third.state() is ClusterState.FROZEN


async def test_a_member_that_is_silent_holds_up_a_change_until_its_lease_ends(
    several: Several,
) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    third.engine.cut_off()
    changing = asyncio.ensure_future(first.call("change_state", "frozen"))
    await several.time.advance(LEASE_S / 2)
    assert not changing.done()
    assert (await several.run(changing, LEASE_S)).status == 200
    assert second.state() is ClusterState.FROZEN


async def test_while_the_state_changes_all_are_in_transition(several: Several) -> None:
    first, second, third = await several.started(3)
    async with first.membership.locks.hold("change", "change_state"):
        await several.time.settle()
        for member in (first, second, third):
            assert member.state() is ClusterState.IN_TRANSITION
            assert member.member.node_state.value == "ACTIVE"
        for member in (second, third):
            answer = await several.run(member.call("change_state", "frozen"))
            assert answer.status == 409
    await several.time.settle()
    assert second.state() is ClusterState.ACTIVE


async def test_of_changes_at_once_no_two_are_made_together(several: Several) -> None:
    members = await several.started(3)
    states = ["frozen", "passive", "no_migration"]
    calls = [m.call("change_state", s) for m, s in zip(members, states, strict=True)]
    answers = await several.run(asyncio.gather(*calls))
    assert {answer.status for answer in answers} <= {200, 409}
    assert sum(answer.status == 200 for answer in answers) == 1
    # Nothing is left of those that were refused.
    await several.time.settle()
    assert members[0].state() in SETTABLE
    assert (await several.run(members[1].call("change_state", "frozen"))).status == 200


async def test_a_state_that_cannot_be_written_is_not_changed(several: Several) -> None:
    first, second, _ = await several.started(3)
    first.engine.refusal = UNAVAILABLE
    answer = await several.run(first.call("change_state", "frozen"))
    assert (answer.status, dict(answer.headers)["Retry-After"]) == (503, "1")
    first.engine.refusal = None
    await several.time.settle()
    assert second.state() is ClusterState.ACTIVE
    assert (await several.run(second.call("change_state", "frozen"))).status == 200


async def test_a_change_that_waits_for_the_others_is_answered_when_its_member_stops(
    several: Several,
) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    await third.end()
    changing = asyncio.ensure_future(first.call("change_state", "frozen"))
    waiting = asyncio.ensure_future(first.membership.conditions.until(lambda: False))
    await several.time.advance(1)
    assert not changing.done()
    await several.run(first.member.stop(), 2.5)
    answer = await several.run(changing, 1)
    assert (answer.status, dict(answer.headers)["Retry-After"]) == (503, "1")
    assert not await waiting
    assert not await first.membership.conditions.until(lambda: False)
    assert second.state() is ClusterState.FROZEN


@pytest.mark.parametrize(
    ("operation", "target"), [("change_state", "passive"), ("change_version", "1.2")]
)
async def test_nothing_is_changed_while_copies_are_moved(
    several: Several, operation: str, target: str
) -> None:
    first, second = await several.started(2)
    settled = first.engine.figures
    first.engine.figures = settled._replace(not_current=1, moving=True)
    answer = await several.run(first.call(operation, target))
    assert (answer.status, json.loads(answer.body)["status"]) == (409, "fail")
    assert second.state() is ClusterState.ACTIVE
    # Copies that are missing or behind, as those of a member that is down, are none that move.
    first.engine.figures = settled._replace(not_current=3, offline=("s-1",))
    assert (await several.run(first.call(operation, target))).status == 200


@pytest.mark.parametrize(
    ("operation", "target"), [("change_state", "frozen"), ("change_version", "1.2")]
)
async def test_copies_that_another_member_just_had_moved_are_seen(
    several: Several, operation: str, target: str
) -> None:
    first, second = await several.started(2)

    async def move() -> None:
        async with second.membership.locks.hold(CHANGE, "makes more copies"):
            for one in (first, second):
                one.engine.moves = True  # no look of theirs was since

    await several.run(move())
    answer = await several.run(first.call(operation, target))
    assert (answer.status, json.loads(answer.body)["status"]) == (409, "fail")
    assert second.state() is ClusterState.ACTIVE
    first.engine.moves = False
    assert (await several.run(first.call(operation, target))).status == 200


async def test_what_cannot_be_followed_stops_nothing_else(
    several: Several, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await several.started(2)

    def fail() -> None:
        raise ValueError("planted")

    second.membership.on_change["license"] = fail
    await several.run(first.call("license_set", "key"))
    await several.time.advance(LEASE_S * 2)
    assert "could not be followed" in caplog.text
    assert "planted" not in caplog.text
    assert first.listed == second.listed == [first.uuid, second.uuid]


async def test_a_member_names_a_notice_when_all_before_it_is_applied(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await several.started(2)
    applied = asyncio.Event()

    async def current() -> bool:
        await applied.wait()
        return True

    monkeypatch.setattr(second.engine, "current", current)
    changing = asyncio.ensure_future(first.call("change_state", "frozen"))
    await several.time.advance(5)
    assert not changing.done()
    applied.set()
    assert (await several.run(changing)).status == 200


# Idempotency


async def test_a_call_that_another_member_answered_is_not_carried_out_again(
    several: Several,
) -> None:
    first, second, _ = await several.started(3)
    one = await several.run(first.call("change_state", "frozen", key="k"))
    await several.run(first.call("change_state", "active"))
    again = await several.run(second.call("change_state", "frozen", key="k"))
    assert (again.status, again.body, again.repeated) == (200, one.body, True)
    assert second.state() is ClusterState.ACTIVE
    other = await several.run(second.call("change_state", "passive", key="k"))
    assert other.status == 409


async def test_calls_with_one_key_on_several_members_at_once_are_carried_out_once(
    several: Several,
) -> None:
    members = await several.started(3)
    calls = [m.call("license_set", "key", key="k") for m in members]
    answers = await several.run(asyncio.gather(*calls))
    assert [answer.status for answer in answers] == [200] * 3
    assert sorted(answer.repeated for answer in answers) == [False, True, True]
    writes = [1 for _, record in several.log.records for key, _ in record if key == "license"]
    assert len(writes) == 1


async def test_a_call_that_was_not_shown_is_not_answered_again_before_it_is(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    with monkeypatch.context() as planted:
        # It lives, and shows nothing.
        planted.setattr(third.membership.barriers, "look", lambda: None)
        for member in (first, second):
            answer = await several.run(member.call("change_state", "frozen", key="k"), 80)
            assert (answer.status, dict(answer.headers)["Retry-After"]) == (503, "1")
    again = await several.run(second.call("change_state", "frozen", key="k"))
    assert (again.status, again.repeated) == (200, True)
    assert third.state() is ClusterState.FROZEN


async def test_a_key_is_not_looked_up_in_what_may_be_old(several: Several) -> None:
    first, second, _ = await several.started(3)
    await several.run(first.call("license_set", "key", key="k"))
    second.engine.refusal = UNAVAILABLE
    answer = await several.run(second.call("license_set", "key", key="k"))
    assert answer.status == 503
