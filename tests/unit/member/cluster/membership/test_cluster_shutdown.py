"""The shutdown of the whole cluster, asked of one member, and that of one."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.member.member import Phase
from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.engine.api import ClusterState
from tests.unit.member.cluster.several import CONFIGURATION
from tests.unit.member.cluster.shared_log import UNAVAILABLE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.cluster.several import Several

DRAINING = CONFIGURATION + "  shutdown: {drain-seconds: 60}\n"


async def test_a_cluster_shutdown_stops_every_member(several: Several) -> None:
    members = await several.started(3)
    await several.time.advance(LEASE_S)
    answer = await several.run(members[1].call("cluster_shutdown"))
    assert json.loads(answer.body) == {"status": "success"}
    assert [member.phase for member in members] == [Phase.RUNNING] * 3
    assert answer.on_delivery is not None
    assert members[1].member.safe
    answer.on_delivery()
    # Whoever balances load is to leave it out at once.
    assert members[1].member.unsafe == "not safe: the member is stopping"
    await several.run(asyncio.gather(*(member.member.wait_for_stop() for member in members)))
    assert all(member.engine.cluster_state is ClusterState.PASSIVE for member in members)
    assert all(member.engine.restart_state is ClusterState.ACTIVE for member in members)


async def test_a_cluster_begins_its_next_life_in_the_state_that_was_set(
    several: Several,
) -> None:
    members = await several.started(3)
    await several.run(members[0].call("change_state", "frozen"))
    members[0].member.request_cluster_stop()
    await several.run(asyncio.gather(*(member.member.wait_for_stop() for member in members)))
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
    stops = (m.member.wait_for_stop() for m in (first, second, third))
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


async def test_a_cluster_shutdown_that_nobody_takes_stops_the_asked_member(
    several: Several, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, _ = await several.started(3)
    monkeypatch.setattr("grid_member.cluster.membership.shutdowns.CLUSTER_STOP_LIMIT_S", 0.01)
    first.engine.cut_off()
    first.member.request_cluster_stop()
    await asyncio.wait_for(first.member.wait_for_stop(), 10)
    assert second.phase is Phase.RUNNING
    assert "only this member stops" in caplog.text


async def test_a_member_shutdown_stops_one_member(several: Several) -> None:
    first, second, third = await several.started(3)
    answer = await several.run(second.call("member_shutdown"))
    assert answer.on_delivery is not None
    answer.on_delivery()
    await several.run(second.stop())
    assert [m.phase for m in (first, third)] == [Phase.RUNNING] * 2
    assert first.state() is ClusterState.ACTIVE
    assert (await first.call("health_cluster_size", method="GET")).body == b"2"


async def test_a_cluster_shutdown_ends_every_drain(several: Several) -> None:
    members = await several.started(3, text=DRAINING)
    members[0].member.request_stop()
    members[1].member.request_stop()
    assert [member.member.draining for member in members] == [True, True, False]
    answer = await several.run(members[0].call("cluster_shutdown"))
    assert (answer.status, answer.on_delivery is None) == (200, False)
    assert answer.on_delivery is not None
    answer.on_delivery()
    await several.run(asyncio.gather(*(member.member.wait_for_stop() for member in members)))
    assert not any(member.member.draining for member in members)
    assert all(member.engine.cluster_state is ClusterState.PASSIVE for member in members)


async def test_a_drain_holds_up_nobody_else(several: Several) -> None:
    first, second, third = await several.started(3, text=DRAINING)
    second.member.request_stop()
    await several.time.advance(LEASE_S)
    assert (second.phase, second.ready()) == (Phase.RUNNING, False)
    assert all(member.ready() for member in (first, third))
    assert (await first.call("health_cluster_size", method="GET")).body == b"3"
    second.member.request_stop(drain=False)
    await several.run(second.stop())
    assert (await first.call("health_cluster_size", method="GET")).body == b"2"


async def test_who_left_before_a_cluster_shutdown_is_forgotten_after_it(
    several: Several,
) -> None:
    first, second = await several.started(2)
    first.member.request_cluster_stop()
    await several.run(asyncio.gather(first.member.wait_for_stop(), second.member.wait_for_stop()))
    await several.run(asyncio.gather(first.stop(), second.stop()))
    again = first.again()
    await several.run(again.start(), 60)
    assert again.state() is ClusterState.ACTIVE
    assert not again.membership.member_table.left_members()


async def test_a_cluster_shutdown_waits_for_a_new_leader_of_the_log(several: Several) -> None:
    first, second = await several.started(2)
    first.engine.refusal = UNAVAILABLE
    first.member.request_cluster_stop()
    await several.time.advance(6)
    assert second.phase is Phase.RUNNING
    first.engine.refusal = None
    await several.run(asyncio.gather(first.member.wait_for_stop(), second.member.wait_for_stop()))
    assert second.engine.cluster_state is ClusterState.PASSIVE


async def test_a_member_that_stops_with_the_others_is_parked(
    several: Several, tmp_path: Path
) -> None:
    text = CONFIGURATION + f"  shutdown: {{parked-file: {tmp_path}/parked}}\n"
    first, second = several.add(), several.add(text=text)
    for member in (first, second):
        await several.run(member.start())
    first.member.request_cluster_stop()
    await several.run(asyncio.gather(first.member.wait_for_stop(), second.member.wait_for_stop()))
    assert b"clusterShutdown" in (tmp_path / "parked").read_bytes()


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_second_cluster_shutdown_is_the_first_one(several: Several, at_once: bool) -> None:
    members = await several.started(3)
    third = members[2]
    await several.time.advance(LEASE_S)
    third.engine.slow = True
    members[0].member.request_cluster_stop()
    if not at_once:
        await several.time.advance(1)
    members[1].member.request_cluster_stop()
    members[0].member.request_cluster_stop()
    await several.time.advance(3)
    assert [member.phase for member in members] == [Phase.RUNNING] * 3
    third.engine.heal()
    await several.run(asyncio.gather(*(m.member.wait_for_stop() for m in members)), 1.5)
    requests = [1 for _, record in several.log.records for key, _ in record if key == "shutdown"]
    assert len(requests) == 1


async def test_who_joins_again_stops_with_the_others(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(LEASE_S)
    third.engine.cut_off()
    await several.time.advance(2 * LEASE_S)
    assert first.listed == [first.uuid, second.uuid]
    first.member.request_cluster_stop()
    await several.run(asyncio.gather(first.member.wait_for_stop(), second.member.wait_for_stop()))
    third.engine.heal()
    await several.run(third.member.wait_for_stop(), 3)


async def test_who_is_about_to_join_stops_with_the_others(several: Several) -> None:
    first, second = await several.started(2)
    joining = several.add()
    starting = asyncio.ensure_future(joining.start())
    async with first.membership.locks.hold("change", "test"):
        await several.time.advance(1)
        first.member.request_cluster_stop()
        await several.time.advance(6)
    members = (first, second, joining)
    await several.run(asyncio.gather(*(m.member.wait_for_stop() for m in members)))
    await several.run(starting)
    assert joining.uuid not in first.listed


async def test_a_cluster_shutdown_without_a_majority_is_refused(several: Several) -> None:
    first, _, _ = await several.started(3)
    first.engine.cut_off()
    answer = await several.run(first.call("cluster_shutdown"))
    assert (answer.status, dict(answer.headers)["Retry-After"]) == (503, "1")
    assert answer.on_delivery is None
    assert first.phase is Phase.RUNNING


async def test_a_volume_that_is_stuck_holds_up_no_stop_of_the_cluster(
    several: Several, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await several.started(2)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    monkeypatch.setattr("grid_member.cluster.membership.shutdowns.MARKER_PATIENCE_S", 0.01)
    stuck = threading.Event()
    monkeypatch.setattr(second.member.shutdown_marker, "write", lambda _: stuck.wait(30))
    first.member.request_cluster_stop()
    try:
        while not (first.phase is second.phase is Phase.STOPPING):
            await several.time.advance(0.5)
            await asyncio.sleep(0.01)
    finally:
        stuck.set()
    assert "not parked" in caplog.text


async def test_nobody_stops_before_all_know_that_they_are_to(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = await several.started(3)
    third.engine.slow = True
    first.member.request_cluster_stop()
    await several.time.advance(3)
    assert [member.phase for member in (first, second, third)] == [Phase.RUNNING] * 3
    third.engine.heal()
    stops = [member.member.wait_for_stop() for member in (first, second, third)]
    await several.run(asyncio.gather(*stops), 1.5)
