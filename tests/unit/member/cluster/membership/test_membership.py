"""Who is in the cluster: joins, heartbeats, silence, and leaving."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.member.member import Phase
from grid_member.cluster.membership.failure_detector import LEASE_S, RENEW_S
from grid_member.cluster.membership.membership import JoinRefusedError
from grid_member.engine.api import ClusterState, EngineError
from tests.unit.member.cluster.several import uuids

if TYPE_CHECKING:
    from tests.unit.member.cluster.several import OneOfSeveral, Several

SOON_GONE_S = LEASE_S + 2 * RENEW_S
"""After so long a silent member is off the list."""


async def test_members_are_listed_alike_everywhere_in_the_order_of_their_joins(
    several: Several,
) -> None:
    members = await several.started(3)
    await several.time.advance(RENEW_S)
    assert [member.listed for member in members] == [uuids(members)] * 3
    assert all(member.ready() for member in members)


async def test_the_order_of_joins_does_not_depend_on_clocks(several: Several) -> None:
    clocks = [5_000_000, 1_000, 3_000_000]
    members = [several.add(clock_ms=lambda ms=ms: ms) for ms in clocks]
    for member in members:
        await several.run(member.start())
    await several.time.settle()
    assert [member.listed for member in members] == [uuids(members)] * 3


async def test_members_that_join_at_once_are_all_on_the_list(several: Several) -> None:
    members = [several.add() for _ in range(5)]
    await several.run(asyncio.gather(*(member.start() for member in members)), 60)
    await several.time.settle()
    assert sorted(members[0].listed) == sorted(uuids(members))
    assert all(member.listed == members[0].listed for member in members)


async def test_a_member_that_is_killed_is_off_the_list_and_told_gone(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    await second.end()
    await several.time.advance(LEASE_S - 2 * RENEW_S)
    assert first.listed == uuids([first, second, third])
    await several.time.advance(4 * RENEW_S)
    assert first.listed == third.listed == uuids([first, third])
    assert first.gone == third.gone == [second.uuid]


async def test_a_member_that_leaves_is_off_the_list_at_once_and_gone_when_it_is_silent(
    several: Several,
) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    await several.run(second.stop())
    assert first.listed == third.listed == uuids([first, third])
    assert first.gone == []
    await several.time.advance(SOON_GONE_S)
    assert first.gone == third.gone == [second.uuid]


async def test_a_member_that_is_back_in_time_is_never_told_gone(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    await second.end()
    again = second.again()
    await several.run(again.start())
    await several.time.advance(2 * SOON_GONE_S)
    assert first.gone == third.gone == []
    # It is the youngest now.
    assert first.listed == again.listed == uuids([first, third, again])


async def test_nobody_is_taken_off_the_list_for_a_time_without_a_majority(
    several: Several,
) -> None:
    members = await several.started(3)
    await several.time.advance(LEASE_S)
    for member in members:
        member.engine.cut_off()
    await several.time.advance(5 * LEASE_S)
    assert [member.listed for member in members] == [uuids(members)] * 3
    assert not any(member.ready() for member in members)
    for member in members:
        member.engine.heal()
    await several.time.advance(2 * SOON_GONE_S)
    assert [member.listed for member in members] == [uuids(members)] * 3
    assert not any(member.gone for member in members)


async def test_a_member_that_slept_takes_nobody_off_the_list(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    first.engine.slow = True  # its process is stopped; the others go on
    run, first.membership.tick = first.membership.tick, lambda: None  # type: ignore[method-assign]
    await several.time.advance(3 * LEASE_S)
    assert second.listed == uuids([second, third])
    first.membership.tick = run  # type: ignore[method-assign]
    first.engine.heal()
    await several.time.advance(SOON_GONE_S)
    # It found out that it was taken off, and is back as the youngest.
    assert first.listed == second.listed == third.listed == uuids([second, third, first])
    assert third.gone == second.gone == [first.uuid]
    assert first.gone == []
    assert first.ready()


async def test_a_member_that_was_cut_off_is_not_ready_until_it_is_back(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    third.engine.cut_off()
    assert not third.ready()
    await several.time.advance(2 * SOON_GONE_S)
    # Its own view is an old one, and it judges nobody.
    assert third.listed == uuids([first, second, third])
    assert first.listed == uuids([first, second])
    third.engine.heal()
    await several.time.advance(2 * RENEW_S)
    assert third.ready()
    assert first.listed == third.listed == uuids([first, second, third])


@pytest.mark.parametrize("state", [ClusterState.FROZEN, ClusterState.PASSIVE])
async def test_a_closed_state_lets_in_only_those_who_left_in_it(
    several: Several, state: ClusterState
) -> None:
    first, second, third = await several.started(3)
    answer = await several.run(first.call("change_state", state.value))
    assert answer.status == 200
    await several.run(second.stop())  # gracefully
    await third.end()  # and not
    await several.time.advance(SOON_GONE_S + LEASE_S)
    assert first.listed == [first.uuid]
    stranger = several.add()
    with pytest.raises(JoinRefusedError, match=state.name):
        await several.run(stranger.start())
    assert not stranger.engine.ready  # nothing of it goes on
    assert len(first.listed) == 1
    for member in (second, third):
        again = member.again()
        await several.run(again.start())
        assert again.phase is Phase.RUNNING
    assert first.listed == uuids([first, second, third])


@pytest.mark.parametrize("state", [ClusterState.ACTIVE, ClusterState.NO_MIGRATION])
async def test_an_open_state_lets_in_anybody(several: Several, state: ClusterState) -> None:
    first, second = await several.started(2)
    await several.run(first.call("change_state", "frozen"))
    await several.run(first.call("change_state", state.value))
    stranger = several.add()
    await several.run(stranger.start())
    assert second.listed == uuids([first, second, stranger])


async def test_who_has_not_joined_counts_itself_alone(several: Several) -> None:
    first, second = await several.started(2)
    joining = several.add()
    async with first.membership.locks.hold("change", "change_state"):
        starting = asyncio.ensure_future(joining.start())
        await several.time.advance(1)
        assert not starting.done()
        assert (await joining.call("health_cluster_size", method="GET")).body == b"1"
        assert (await second.call("health_cluster_size", method="GET")).body == b"2"
    await several.run(starting)
    assert (await joining.call("health_cluster_size", method="GET")).body == b"3"


async def test_a_member_without_a_directory_comes_back_by_its_address(several: Several) -> None:
    first, second = await several.started(2)
    await several.run(first.call("change_state", "frozen"))
    await several.run(second.stop())
    again = several.add(address=second.options["address"])
    await several.run(again.start())
    assert first.listed == uuids([first, again])


async def test_who_left_is_forgotten_when_the_state_lets_anybody_in_again(
    several: Several,
) -> None:
    first, second = await several.started(2)
    await several.run(first.call("change_state", "frozen"))
    await several.run(second.stop())
    await several.run(first.call("change_state", "passive"))
    assert first.membership.member_table.left_members()
    await several.run(first.call("change_state", "active"))
    assert not first.membership.member_table.left_members()
    await several.run(first.call("change_state", "frozen"))
    with pytest.raises(JoinRefusedError):
        await several.run(second.again().start())


async def test_a_member_of_a_version_that_cannot_run_the_cluster_does_not_join(
    several: Several,
) -> None:
    first = (await several.started(1))[0]
    await several.run(several.add(version="1.3.0").start())
    with pytest.raises(EngineError, match=r"cluster has version 1\.2"):
        await several.run(several.add(version="1.4.0").start())
    assert len(first.listed) == 2


async def test_a_join_waits_for_a_majority_and_says_so(several: Several) -> None:
    member = several.add()
    member.engine.cut_off()
    joining = asyncio.ensure_future(member.start())
    await several.time.advance(60)
    assert not joining.done()
    assert not member.ready()
    assert member.member.problem == "no majority of the members answers"
    member.engine.heal()
    await several.run(joining)
    assert member.ready()


async def test_a_join_ends_with_a_stop(several: Several) -> None:
    member = several.add()
    member.engine.cut_off()
    joining = asyncio.ensure_future(member.start())
    await several.time.advance(RENEW_S)
    member.member.request_stop()
    await several.run(joining)
    assert member.phase is Phase.STOPPING


async def test_a_stop_without_a_majority_does_not_wait_for_ever(several: Several) -> None:
    first, _ = await several.started(2)
    first.engine.cut_off()
    await several.run(first.stop(), 5)
    assert first.phase is Phase.STOPPING


async def test_a_member_that_stops_while_it_joins_again_is_not_on_the_list(
    several: Several,
) -> None:
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    first.engine.system_put(f"member/{second.uuid}", None, lambda _: None)
    record = f"member/{second.uuid}"
    begin = second.engine.system_put

    def put(key: str, value: bytes | None, done: Any, *, time_to_live_s: int = 0) -> None:
        begin(key, value, done, time_to_live_s=time_to_live_s)
        if key == record and value is not None:
            second.engine.slow = True

    second.engine.system_put = put  # type: ignore[method-assign]
    while not second.engine.slow:
        await several.time.advance(RENEW_S)
    leaving = asyncio.ensure_future(second.membership.leave())
    await several.time.settle()
    second.engine.heal()
    await several.run(leaving, 2)
    await several.time.settle()
    assert first.listed == [first.uuid]


async def test_an_attempt_to_join_again_that_fails_is_not_the_last(
    several: Several, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await several.started(2)

    def fail() -> None:
        raise ValueError("planted")

    with monkeypatch.context() as planted:
        planted.setattr(second.member, "admit", fail)
        first.engine.system_put(f"member/{second.uuid}", None, lambda _: None)
        await several.time.advance(2 * RENEW_S)
        assert "join again failed" in caplog.text
        assert first.listed == [first.uuid]
    await several.time.advance(2 * RENEW_S)
    assert first.listed == [first.uuid, second.uuid]


async def test_who_left_is_not_told_as_silent(
    several: Several, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    await several.run(second.stop())
    await several.time.advance(SOON_GONE_S)
    assert first.gone == [second.uuid]
    assert "silent" not in caplog.text
    await third.end()
    await several.time.advance(SOON_GONE_S)
    assert "silent" in caplog.text


async def test_locks_of_a_member_that_dies_count_no_more(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    holding = asyncio.ensure_future(_hold(second))
    await several.time.settle()
    assert (await several.run(first.call("change_state", "frozen"))).status == 409
    await second.end()
    holding.cancel()
    second.engine.values.clear()
    await several.time.advance(SOON_GONE_S)
    assert third.state() is ClusterState.ACTIVE
    assert (await several.run(first.call("change_state", "frozen"))).status == 200


async def _hold(member: OneOfSeveral) -> None:
    async with member.membership.locks.hold("change", "test"):
        await asyncio.Event().wait()


async def test_a_sign_that_is_on_its_way_keeps_a_member_on_the_list(several: Several) -> None:
    first, second = await several.started(2)
    await several.time.advance(LEASE_S)
    # What the second says comes late, but not too late for who asks before it judges.
    first.engine.slow = True
    await several.time.advance(RENEW_S)
    first.membership.heartbeat.failure_detector.silent_members = lambda: {  # type: ignore[method-assign]
        second.uuid: first.membership.member_table.leases()[second.uuid]
    }
    first.membership.tick()
    first.engine.heal()
    await several.time.settle()
    assert first.listed == uuids([first, second])
    assert first.gone == []


async def test_another_life_begins_with_another_join(several: Several) -> None:
    first, second = await several.started(2)
    before = second.membership.member_table.members()
    second.engine.system_put(f"member/{first.uuid}", None, lambda _: None)
    await several.time.advance(2 * RENEW_S)
    after = second.membership.member_table.members()
    assert [member.uuid for member in after] == uuids([second, first])
    assert after[1].incarnation != before[0].incarnation
    assert after[0] == before[1]


async def test_a_join_is_no_change_of_the_state(several: Several) -> None:
    first, second = await several.started(2)
    async with first.membership.locks.hold("change", "join"):
        await several.time.settle()
        assert second.state() is ClusterState.ACTIVE
        assert (await several.run(second.call("change_state", "frozen"))).status == 409


async def test_a_version_that_changed_while_a_member_waited_keeps_it_out(
    several: Several,
) -> None:
    first = (await several.started(1))[0]
    newer = several.add(version="1.3.0")
    await several.run(newer.start())
    waiting = several.add()
    joining = asyncio.ensure_future(waiting.start())
    waiting.engine.wake()
    for _ in range(3):
        await asyncio.sleep(0)
    waiting.engine.cut_off()
    await several.time.advance(RENEW_S)
    await several.run(first.stop())
    assert (await several.run(newer.call("change_version", "1.3"))).status == 200
    assert not joining.done()
    waiting.engine.heal()
    with pytest.raises(EngineError, match=r"cluster has version 1\.3"):
        await several.run(joining)


async def test_a_new_clusters_version_is_kept_together_with_its_first_member(
    several: Several,
) -> None:
    first = (await several.started(1))[0]
    records = [{key for key, _ in record} for _, record in several.log.records]
    joins = [record for record in records if f"member/{first.uuid}" in record]
    assert ["cluster-version" in record for record in joins] == [True]


async def test_every_shard_has_the_clusters_state_after_a_join(several: Several) -> None:
    first = (await several.started(1))[0]
    await several.run(first.call("change_state", "passive"))
    await several.run(first.stop())
    before = len(several.log.records)
    again = first.again()
    await several.run(again.start())
    told = [value for _, record in several.log.records[before:] for k, value in record if not k]
    # Those that have it already hear it once more.
    assert told == [(ClusterState.PASSIVE, False)]
