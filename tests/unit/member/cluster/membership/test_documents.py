"""What the members of a cluster say about it, and when they say nothing."""

from __future__ import annotations

import asyncio
import json
import platform
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.member.follower import DISK_S, MembershipFollower
from grid_member.cluster.member.member import UNLEASED, Phase
from grid_member.cluster.membership.locks import CHANGE
from grid_member.cluster.membership.member_table import Disk
from grid_member.engine.api import ClusterState
from grid_member.engine.replication import Replication
from tests.unit.member.cluster.several import uuids

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.http.wire.answers import Answer
    from tests.unit.member.cluster.several import Several


def content(answer: Answer) -> Any:
    assert answer.status == 200, answer
    return json.loads(answer.body)


async def test_the_cluster_document_is_a_members_own_view(several: Several) -> None:
    first, second = await several.started(2)
    lite = several.add(lite=True, version="1.2.9")
    await several.run(lite.start())
    second.engine.cut_off()
    document = content(await several.run(second.call("cluster", method="GET")))
    assert list(document) == ["members", "connectionCount", "allConnectionCount"]
    assert document["members"] == [
        {"address": "10.0.0.1:5701", "liteMember": False, "localMember": False,
         "uuid": first.uuid, "memberVersion": "1.2.3"},
        {"address": "10.0.0.2:5701", "liteMember": False, "localMember": True,
         "uuid": second.uuid, "memberVersion": "1.2.3"},
        {"address": "10.0.0.3:5701", "liteMember": True, "localMember": False,
         "uuid": lite.uuid, "memberVersion": "1.2.9"},
    ]  # fmt: skip
    # One connection to each other member.
    assert (document["connectionCount"], document["allConnectionCount"]) == (2, 5)


@pytest.mark.parametrize(
    ("purpose", "shown"),
    [("join", ClusterState.FROZEN), ("change_state", ClusterState.IN_TRANSITION)],
)
async def test_a_member_that_waits_to_join_shows_the_state_that_it_knows(
    several: Several, purpose: str, shown: ClusterState
) -> None:
    first, second = await several.started(2)
    await several.run(first.call("change_state", "frozen"))
    await several.run(second.stop())
    again = second.again()
    async with first.membership.locks.hold(CHANGE, purpose):
        starting = asyncio.ensure_future(again.start())
        await several.time.advance(2)
        assert again.phase is Phase.STARTING
        health = content(await again.call("health", method="GET"))
        assert (health["nodeState"], health["clusterState"]) == ("STARTING", shown.name)
        assert content(await again.call("cluster_state"))["state"] == shown.value
    await several.run(starting)
    assert content(await several.run(again.call("cluster_state")))["state"] == "frozen"


async def test_nodes_are_all_members(several: Several) -> None:
    first, second = await several.started(2)
    lite = several.add(lite=True)
    await several.run(lite.start())
    text = content(await several.run(lite.call("nodes")))["response"]
    assert text.split("\n") == [
        f"[Member [10.0.0.1]:5701 - {first.uuid}, Member [10.0.0.2]:5701 - {second.uuid}, "
        f"Member [10.0.0.3]:5701 - {lite.uuid} this lite]",
        "1.2.3",
        platform.python_version(),
    ]


async def test_health_counts_members_and_copies_that_are_behind(several: Several) -> None:
    first, second, _ = await several.started(3)
    assert content(await first.call("health", method="GET")) == {
        "nodeState": "ACTIVE", "clusterState": "ACTIVE", "clusterSafe": True,
        "migrationQueueSize": 0, "clusterSize": 3,
    }  # fmt: skip
    first.engine.figures = Replication(True, 9, 2, ("s-1",))
    health = content(await first.call("health", method="GET"))
    assert (health["clusterSafe"], health["migrationQueueSize"]) == (False, 2)
    unsafe = await first.call("health_cluster_safe", method="GET")
    assert unsafe.status == 503
    assert dict(unsafe.headers)["X-Grid-Error"].startswith("not safe: 2 copies of the data are")
    assert (await first.call("health_migration_queue_size", method="GET")).body == b"2"
    assert (await first.call("health_cluster_size", method="GET")).body == b"3"
    assert (await second.call("health_cluster_safe", method="GET")).status == 200
    # A copy that is behind keeps nobody from being used.
    assert (await first.call("health_ready", method="GET")).status == 200


async def test_a_member_that_is_cut_off_is_alive_and_not_ready(several: Several) -> None:
    first, _, _ = await several.started(3)
    first.engine.cut_off()
    ready = await first.call("health_ready", method="GET")
    assert ready.status == 503
    assert dict(ready.headers)["X-Grid-Error"] == "no majority of the members answers"
    assert (await first.call("health_node_state", method="GET")).body == b'"ACTIVE"'
    assert (await first.call("instance", method="GET")).status == 200
    health = content(await first.call("health", method="GET"))
    assert (health["clusterSafe"], health["clusterSize"]) == (False, 3)
    unsafe = await first.call("health_cluster_safe", method="GET")
    said = "not safe: no majority of the members answers"
    assert (unsafe.status, dict(unsafe.headers)["X-Grid-Error"]) == (503, said)


READS = {
    "cluster_state": "POST",
    "cluster_version": "GET",
    "member_list_get": "GET",
    "license_get": "GET",
    "nodes": "POST",
    "operations": "GET",
    "usage": "GET",
}


@pytest.mark.parametrize(("operation", "method"), READS.items())
async def test_what_the_cluster_agreed_on_is_never_stale(
    several: Several, operation: str, method: str
) -> None:
    first, second, _ = await several.started(3)
    await several.run(first.call("license_set", "key"))
    before = first.engine.barriers
    assert (await several.run(first.call(operation, method=method))).status == 200
    assert first.engine.barriers == before + 1
    second.engine.cut_off()
    answer = await several.run(second.call(operation, method=method))
    assert (answer.status, answer.body) == (503, b"")
    assert dict(answer.headers)["Retry-After"] == "1"


async def test_a_member_that_lags_waits_instead_of_answering_what_was(several: Several) -> None:
    first, second, _ = await several.started(3)
    second.engine.slow = True
    await several.run(first.call("license_set", "key"))
    asking = several.run(second.call("license_get", method="GET"))
    second.engine.slow = False
    second.engine.wake()
    assert content(await asking)["licenseInfo"]["keyHash"]


async def test_what_is_set_on_one_member_is_set_on_all(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.run(first.call("member_list_set", "x,y"))
    await several.run(second.call("license_set", "key"))
    for member in (first, second, third):
        found = content(await several.run(member.call("member_list_get", method="GET")))
        assert found["member-list"] == ["x", "y"]
        assert content(await several.run(member.call("license_get", method="GET")))


async def test_the_version_is_that_of_the_first_and_changes_when_all_can_run_the_new_one(
    several: Several,
) -> None:
    first = (await several.started(1))[0]
    newer = several.add(version="1.3.0")
    await several.run(newer.start())
    found = content(await several.run(newer.call("cluster_version", method="GET")))
    assert found["version"] == "1.2"
    refused = await several.run(newer.call("change_version", "1.3"))
    assert refused.status == 409
    assert json.loads(refused.body)["message"] == (
        "member 10.0.0.1:5701 of version 1.2.3 cannot run a cluster of version 1.3"
    )
    await several.run(first.stop())
    changed = await several.run(newer.call("change_version", "1.3"))
    assert content(changed)["version"] == "1.3"


async def test_a_member_without_a_lease_is_not_ready_and_says_why(several: Several) -> None:
    first, _ = await several.started(2)
    settled = first.engine.figures
    no_majority = "no majority of the members answers"
    for leased, answering, why in ((False, True, UNLEASED), (False, False, no_majority)):
        assert first.member.ready
        first.engine.figures = settled._replace(leased=leased, answering=answering)
        found = first.member.ready, first.member.problem
        assert found == (False, why)
        first.engine.figures = settled


async def test_operations_of_a_member_that_is_gone_have_failed(several: Several) -> None:
    first, second, third = await several.started(3)
    await several.time.advance(10)
    _, puts = third.management.operations.begin("backup")
    _, own = second.management.operations.begin("backup")
    for member, found in ((third, puts), (second, own)):
        for put in found:
            put.begin(member.engine)(lambda _: None)
    await several.time.settle()
    await third.end()
    await several.time.advance(20)
    documents = content(await several.run(second.call("operations", method="GET")))
    assert sorted(found["stage"] for found in documents) == ["FAILED", "STARTED"]
    assert first.listed == uuids([first, second])


async def test_a_join_ends_nobody_elses_operation(several: Several) -> None:
    first, second = await several.started(2)
    _, puts = first.management.operations.begin("backup")
    for put in puts:
        put.begin(first.engine)(lambda _: None)
    await several.run(several.add().start())
    await several.time.settle()
    documents = content(await several.run(second.call("operations", method="GET")))
    assert [found["stage"] for found in documents] == ["STARTED"]


async def test_usage_shows_what_other_members_told_of_their_disks(several: Several) -> None:
    first, second = await several.started(2)
    second.membership.disk = Disk(7, 9)
    await several.time.advance(4)
    document = content(await several.run(first.call("usage", method="GET")))
    assert document["members"] == [
        {"uuid": first.uuid, "address": "10.0.0.1:5701", "storeBytes": None, "freeBytes": None},
        {"uuid": second.uuid, "address": "10.0.0.2:5701", "storeBytes": 7, "freeBytes": 9},
    ]


async def test_a_look_at_the_disk_that_fails_is_not_the_last(
    several: Several, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await several.started(2)

    def failing() -> int:
        raise FileNotFoundError("planted")

    second.engine.store_bytes = failing  # type: ignore[method-assign]
    following = MembershipFollower(second.management, second.membership, several.time.sleep)
    second.membership.keep(following.watch_disk(tmp_path))
    await several.time.advance(1)
    assert "cannot be told how the disk is" in caplog.text
    second.engine.store_bytes = lambda: 7  # type: ignore[method-assign]
    await several.time.advance(DISK_S + 4)
    lease = first.membership.member_table.lease(second.uuid)
    assert lease is not None
    assert lease.disk.store_bytes == 7


async def test_what_a_member_does_does_not_end_in_silence(
    several: Several, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = await several.started(2)

    async def fail() -> None:
        raise ValueError("planted")

    first.membership.keep(fail())
    await several.time.settle()
    assert "has ended" in caplog.text
    assert "planted" not in caplog.text
