"""Changes of the cluster's state, configuration and life, made on one member and shown on all."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from grid_member.cluster.member import Phase
from grid_member.cluster.pulse import LEASE_S
from grid_member.engine.api import ClusterState
from tests.unit.member.membership.several import CONFIGURATION
from tests.unit.member.membership.shared_log import UNAVAILABLE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.unit.member.membership.several import Several

SETTABLE = [state for state in ClusterState if state is not ClusterState.IN_TRANSITION]
UPLOAD = "grid: {map: {%s: {time-to-live-seconds: 7}}}"


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
    async with first.membership.locks.held("change", "change_state"):
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
    assert sum(answer.status == 200 for answer in answers) <= 1
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


# Configuration


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


def _patient(several: Several, calls: list[Any]) -> list[Any]:
    """Return the calls, each with time that goes on until it is answered."""
    return [asyncio.ensure_future(call) for call in calls]


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


async def test_a_key_is_not_looked_up_in_what_may_be_old(several: Several) -> None:
    first, second, _ = await several.started(3)
    await several.run(first.call("license_set", "key", key="k"))
    second.engine.refusal = UNAVAILABLE
    answer = await several.run(second.call("license_set", "key", key="k"))
    assert answer.status == 503


# Shutdown


async def test_a_cluster_shutdown_stops_every_member(several: Several) -> None:
    members = await several.started(3)
    await several.time.advance(LEASE_S)
    answer = await several.run(members[1].call("cluster_shutdown"))
    assert json.loads(answer.body) == {"status": "success"}
    assert [member.phase for member in members] == [Phase.RUNNING] * 3
    assert answer.delivered is not None
    answer.delivered()
    await several.run(asyncio.gather(*(member.member.stop_wanted() for member in members)))
    assert all(member.engine.cluster_state is ClusterState.PASSIVE for member in members)
    assert all(member.engine.restart_state is ClusterState.ACTIVE for member in members)


async def test_a_cluster_begins_its_next_life_in_the_state_that_was_set(
    several: Several,
) -> None:
    members = await several.started(3)
    await several.run(members[0].call("change_state", "frozen"))
    members[0].member.request_cluster_stop()
    await several.run(asyncio.gather(*(member.member.stop_wanted() for member in members)))
    await asyncio.gather(*(several.run(member.stop()) for member in members))
    again = [member.again() for member in members]
    await several.run(asyncio.gather(*(member.start() for member in again)), 60)
    await several.time.settle()
    assert [member.state() for member in again] == [ClusterState.FROZEN] * 3
    assert sorted(again[0].listed) == sorted(member.uuid for member in members)
    # Nobody stops once more.
    assert [member.phase for member in again] == [Phase.RUNNING] * 3


async def test_who_is_back_early_waits_until_the_others_have_stopped(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    first.member.request_cluster_stop()
    stops = (m.member.stop_wanted() for m in (first, second, third))
    await several.run(asyncio.gather(*stops))
    await several.run(first.stop())
    again = first.again()
    starting = asyncio.ensure_future(again.start())
    await several.time.advance(2 * LEASE_S)
    assert not starting.done()
    assert again.phase is Phase.STARTING
    await several.run(asyncio.gather(second.stop(), third.stop()))
    await several.run(starting)
    assert again.state() is ClusterState.ACTIVE
    assert again.listed == [again.uuid]


async def test_a_cluster_shutdown_without_a_majority_stops_the_asked_member(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = await several.started(3)
    monkeypatch.setattr("grid_member.cluster.member.CLUSTER_STOP_LIMIT_S", 0.01)
    first.engine.cut_off()
    first.member.request_cluster_stop()
    await asyncio.wait_for(first.member.stop_wanted(), 10)
    assert second.phase is Phase.RUNNING


async def test_a_member_shutdown_stops_one_member(several: Several) -> None:
    first, second, third = await several.started(3)
    answer = await several.run(second.call("member_shutdown"))
    assert answer.delivered is not None
    answer.delivered()
    await several.run(second.stop())
    assert [m.phase for m in (first, third)] == [Phase.RUNNING] * 2
    assert first.state() is ClusterState.ACTIVE
    assert (await first.call("health_cluster_size", method="GET")).body == b"2"


async def test_who_left_before_a_cluster_shutdown_is_forgotten_after_it(
    several: Several,
) -> None:
    first, second = await several.started(2)
    first.member.request_cluster_stop()
    await several.run(asyncio.gather(first.member.stop_wanted(), second.member.stop_wanted()))
    await several.run(asyncio.gather(first.stop(), second.stop()))
    again = first.again()
    await several.run(again.start(), 60)
    assert again.state() is ClusterState.ACTIVE
    assert not again.membership.roll.left()


async def test_a_cluster_shutdown_waits_for_a_new_leader_of_the_log(several: Several) -> None:
    first, second = await several.started(2)
    first.engine.refusal = UNAVAILABLE
    first.member.request_cluster_stop()
    await several.time.advance(6)
    assert second.phase is Phase.RUNNING
    first.engine.refusal = None
    await several.run(asyncio.gather(first.member.stop_wanted(), second.member.stop_wanted()))
    assert second.engine.cluster_state is ClusterState.PASSIVE


async def test_a_member_that_stops_with_the_others_is_parked(
    several: Several, tmp_path: Path
) -> None:
    text = CONFIGURATION + f"  shutdown: {{parked-file: {tmp_path}/parked}}\n"
    first, second = several.add(), several.add(text=text)
    for member in (first, second):
        await several.run(member.start())
    first.member.request_cluster_stop()
    await several.run(asyncio.gather(first.member.stop_wanted(), second.member.stop_wanted()))
    assert b"clusterShutdown" in (tmp_path / "parked").read_bytes()


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


async def test_nobody_stops_before_all_know_that_they_are_to(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = await several.started(3)
    third.engine.slow = True
    first.member.request_cluster_stop()
    await several.time.advance(3)
    assert [member.phase for member in (first, second, third)] == [Phase.RUNNING] * 3
    third.engine.heal()
    stops = [member.member.stop_wanted() for member in (first, second, third)]
    await several.run(asyncio.gather(*stops), 1.5)


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
