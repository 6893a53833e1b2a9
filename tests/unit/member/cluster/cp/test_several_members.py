"""The CP subsystem of several members: who is in it, and what a change needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.cp.cluster import STEPS_S
from grid_member.cluster.membership.failure_detector import LEASE_S
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.admin.server_records import LEAVING
from tests.unit.member.cluster.managed import content, reason
from tests.unit.member.cluster.several import uuids

if TYPE_CHECKING:
    from grid_member.http.wire.answers import Answer
    from tests.unit.member.cluster.several import OneOfSeveral, Several

NOT_DATA = {"METADATA", "default"}


async def founded(several: Several, count: int = 3) -> list[OneOfSeveral]:
    """Return members of which the first three are CP members."""
    members = await several.started(count, cp_member_count=3)
    several.groups.start(*(server(member) for member in members))
    await several.time.advance(5)
    return members


def server(member: OneOfSeveral) -> str:
    return f"s-{member.member.address}"


def on(several: Several, *members: OneOfSeveral) -> bool:
    """Return whether the group is on the servers of exactly the members."""
    return several.groups.streams["cp-default"] == {peer_id(server(one)) for one in members}


async def shown(member: OneOfSeveral, operation: str, **names: str) -> Any:
    answer = await asked(member, operation, **names)
    assert answer.status == 200, (answer.status, answer.body, answer.headers)
    return content(answer)


async def asked(member: OneOfSeveral, operation: str, **names: str) -> Answer:
    answer: Answer = await member.several.run(member.call(operation, method="GET", names=names))
    return answer


async def changed(
    member: OneOfSeveral, operation: str, key: str | None = None, **names: str
) -> Answer:
    call = member.call(operation, key=key, names=names)
    answer: Answer = await member.several.run(call, 2 * STEPS_S)
    return answer


async def cp_uuids(member: OneOfSeveral) -> list[str]:
    return [found["uuid"] for found in await shown(member, "cp_members")]


async def gone(member: OneOfSeveral) -> None:
    """End a member and its server; the others take it off the list."""
    member.several.groups.kill(server(member))
    await member.end()
    await member.several.time.advance(LEASE_S + 3)


async def test_before_there_are_enough_every_member_with_data_is_one(several: Several) -> None:
    first, second = await several.started(2, cp_member_count=3)
    lite = several.add(lite=True, cp_member_count=3)
    await several.run(lite.start())
    await several.time.advance(10)
    assert await cp_uuids(lite) == uuids([first, second])
    assert (await asked(lite, "cp_member_local")).status == 404
    assert (await changed(lite, "cp_promote")).status == 409
    assert (await changed(first, "cp_promote")).status == 200
    found = await shown(second, "cp_member_local")
    assert found == {"uuid": second.uuid, "address": "[10.0.0.2]:5701"}
    assert [group["name"] for group in await shown(first, "cp_groups")] == [
        *("METADATA", "shard-0", "shard-1")
    ]
    for operation, names in (("cp_reset", {}), ("cp_member_remove", {"uuid": first.uuid})):
        assert (await changed(second, operation, **names)).status == 409
    first.engine.cut_off()
    assert (await asked(first, "cp_members")).status == 503


async def test_the_oldest_members_begin_with_a_group_of_their_own(several: Several) -> None:
    members = await founded(several, 4)
    for member in members:
        assert await cp_uuids(member) == uuids(members[:3])
        assert await shown(member, "cp_groups") == [
            {"name": "METADATA", "id": 0},
            {"name": "default", "id": 8},
            {"name": "shard-0", "id": 1},
            {"name": "shard-1", "id": 2},
        ]
    assert on(several, *members[:3])
    group = await shown(members[3], "cp_group", name="default")
    assert [found["uuid"] for found in group["members"]] == uuids(members[:3])
    assert group["leader"] in uuids(members[:3])
    assert group["current"] == uuids(members[:3])
    assert group["logIndex"] == 7
    metadata = await shown(members[3], "cp_group", name="METADATA")
    assert [found["uuid"] for found in metadata["members"]] == uuids(members)
    assert metadata["logIndex"] is None
    assert (await asked(members[3], "cp_member_local")).status == 404


async def test_a_promoted_member_is_one_everywhere(several: Several) -> None:
    members = await founded(several, 4)
    assert (await changed(members[3], "cp_promote", "once")).status == 200
    assert (await changed(members[3], "cp_promote", "once")).status == 200
    found = await cp_uuids(members[0])
    assert found[:3] == uuids(members[:3])
    assert len(found) == 4
    assert found[3] != members[3].uuid
    assert (await shown(members[3], "cp_member_local"))["uuid"] == found[3]
    # The group has as many members as there are to be.
    assert on(several, *members[:3])
    assert (await changed(members[3], "cp_promote")).status == 200
    assert await cp_uuids(members[1]) == found


async def test_a_removed_member_gives_its_place_to_another(several: Several) -> None:
    members = await founded(several, 4)
    await changed(members[3], "cp_promote")
    spare = (await cp_uuids(members[0]))[3]
    for key in ("again", "again"):
        answer = await changed(members[2], "cp_member_remove", key, uuid=members[1].uuid)
        assert (answer.status, answer.body) == (200, b"")
    assert on(several, members[0], members[2], members[3])
    for member in members:
        assert await cp_uuids(member) == [members[0].uuid, members[2].uuid, spare]
    assert (await asked(members[1], "cp_member_local")).status == 404
    again = await changed(members[2], "cp_member_remove", uuid=members[1].uuid)
    assert again.status == 400
    assert reason(again)


async def test_a_member_that_is_gone_is_removed_and_another_promoted(several: Several) -> None:
    members = await founded(several, 4)
    await gone(members[0])
    assert await cp_uuids(members[1]) == uuids(members[:3])
    assert (await changed(members[3], "cp_member_remove", uuid=members[0].uuid)).status == 200
    assert on(several, members[1], members[2])
    assert (await changed(members[3], "cp_promote")).status == 200
    assert on(several, members[1], members[2], members[3])
    assert (await cp_uuids(members[2]))[:2] == uuids(members[1:3])


async def test_a_majority_of_the_members_stays(several: Several) -> None:
    members = await founded(several)
    assert (await changed(members[0], "cp_member_remove", uuid=members[0].uuid)).status == 200
    answer = await changed(members[0], "cp_member_remove", uuid=members[1].uuid)
    assert answer.status == 409
    assert "1 CP members would remain, 2 are needed" in content(answer)["message"]
    assert await cp_uuids(members[0]) == uuids(members[1:])
    assert on(several, members[1], members[2])


async def test_nobody_is_removed_from_a_group_without_a_majority(several: Several) -> None:
    members = await founded(several, 5)
    await gone(members[0])
    await gone(members[1])
    answer = await changed(members[4], "cp_member_remove", uuid=members[0].uuid)
    assert answer.status == 409
    assert "only 1 of 3 members of group default are there" in content(answer)["message"]
    assert await cp_uuids(members[4]) == uuids(members[:3])
    group = await shown(members[4], "cp_group", name="default")
    assert (group["leader"], group["current"]) == (None, [])
    assert [found["uuid"] for found in group["members"]] == uuids(members[:3])
    # What is left is to begin anew.
    assert (await changed(members[4], "cp_reset")).status == 200
    assert on(several, *members[2:])


async def test_a_reset_makes_groups_and_members_anew(several: Several) -> None:
    members = await founded(several)
    before = await cp_uuids(members[0])
    data = {name: several.groups.streams[name] for name in several.groups.data}
    for _ in range(2):
        assert (await changed(members[1], "cp_reset", "one")).status == 200
    assert several.groups.made == ["cp-default", "cp-default"]
    assert {name: several.groups.streams[name] for name in several.groups.data} == data
    for member in members:
        assert not set(await cp_uuids(member)) & set(before)
        assert len(await cp_uuids(member)) == 3
        assert (await shown(member, "cp_group", name="default"))["id"]["id"] == 9
    await gone(members[2])
    answer = await changed(members[1], "cp_reset")
    assert answer.status == 409
    assert "cp-member-count is 3, and 2 members hold data" in content(answer)["message"]
    assert several.groups.made == ["cp-default", "cp-default"]


async def test_an_own_group_is_removed_until_a_reset(several: Several) -> None:
    members = await founded(several)
    for _ in range(2):
        answer = await changed(members[1], "cp_group_remove", name="default")
        assert (answer.status, answer.body) == (200, b"")
    await several.time.advance(10)
    assert "cp-default" not in several.groups.streams
    for member in members:
        assert (await asked(member, "cp_group", name="default")).status == 404
        assert (await asked(member, "cp_sessions", name="default")).status == 404
        assert "default" not in [group["name"] for group in await shown(member, "cp_groups")]
    assert (await changed(members[1], "cp_reset")).status == 200
    assert (await shown(members[0], "cp_group", name="default"))["id"]["id"] == 9


@pytest.mark.parametrize(
    ("name", "status"), [("METADATA", 400), ("metadata", 400), ("other", 400), ("shard-1", 409)]
)
async def test_other_groups_are_not_removed(several: Several, name: str, status: int) -> None:
    members = await founded(several)
    before = dict(several.groups.streams)
    assert (await changed(members[0], "cp_group_remove", name=name)).status == status
    assert several.groups.streams == before


async def test_sessions_are_the_leases_of_the_members(several: Several) -> None:
    members = await founded(several)
    lite = several.add(lite=True, cp_member_count=3)
    await several.run(lite.start())
    found = await shown(members[1], "cp_sessions", name="default")
    assert [session["endpoint"] for session in found] == [
        *(f"[10.0.0.{number}]:5701" for number in range(1, 5))
    ]
    now_ms = int(several.time.now_s * 1000)
    for session in found:
        assert session["id"] == session["creationTime"] <= now_ms
        assert now_ms < session["expirationTime"] <= now_ms + LEASE_S * 1000
        assert session["version"] > 0
        assert session["endpointType"] == "SERVER"
        assert session["endpointName"].startswith("m-10.0.0.")
    assert await shown(members[0], "cp_sessions", name="shard-0")
    assert (await asked(members[0], "cp_sessions", name="METADATA")).status == 409
    for session, status in ((str(found[0]["id"]), 409), ("1", 400), ("x", 400)):
        answer = await changed(members[0], "cp_session_remove", name="default", id=session)
        assert answer.status == status
    await gone(members[2])
    assert len(await shown(members[1], "cp_sessions", name="default")) == 3


async def test_what_the_servers_do_not_do_is_no_success_and_changes_nothing(
    several: Several,
) -> None:
    members = await founded(several, 4)
    await changed(members[3], "cp_promote")
    before = await cp_uuids(members[0])
    several.groups.stuck = True
    for operation, names in (
        ("cp_reset", {}),
        ("cp_member_remove", {"uuid": members[0].uuid}),
        ("cp_group_remove", {"name": "default"}),
    ):
        answer = await changed(members[1], operation, **names)
        assert answer.status == 503
        assert dict(answer.headers)["Retry-After"]
        assert await cp_uuids(members[2]) == before
    several.groups.stuck = False
    assert (await changed(members[1], "cp_member_remove", uuid=members[0].uuid)).status == 200


async def test_no_change_without_a_majority_of_the_members(several: Several) -> None:
    members = await founded(several)
    members[1].engine.cut_off()
    for operation, names in (
        ("cp_promote", {}),
        ("cp_reset", {}),
        ("cp_member_remove", {"uuid": members[0].uuid}),
    ):
        assert (await changed(members[1], operation, **names)).status == 503


async def test_one_change_at_a_time(several: Several) -> None:
    members = await founded(several)
    async with members[0].membership.locks.hold("cp", "test"):
        answer = await changed(members[1], "cp_reset")
    assert answer.status == 409
    assert "CP" in content(answer)["message"]


async def test_groups_that_went_elsewhere_are_brought_back(several: Several) -> None:
    members = await founded(several, 4)
    several.groups.streams["cp-default"] = frozenset(
        peer_id(server(member)) for member in members[1:]
    )
    await several.time.advance(5)
    assert on(several, *members[:3])
    del several.groups.streams["cp-default"]
    await several.time.advance(5)
    assert on(several, *members[:3])


async def test_the_cluster_is_not_safe_while_a_copy_of_a_group_is_missing(
    several: Several,
) -> None:
    members = await founded(several)
    assert all(member.member.safe for member in members)
    await gone(members[2])
    assert [member.member.moving_replicas for member in members[:2]] == [1, 1]
    unsafe = await members[0].call("health_cluster_safe", method="GET")
    assert "1 copies of CP groups are missing" in dict(unsafe.headers)["X-Grid-Error"]
    await changed(members[0], "cp_member_remove", uuid=members[2].uuid)
    await several.time.advance(5)
    assert all(member.member.safe for member in members[:2])
    await changed(members[0], "cp_group_remove", name="default")
    await several.time.advance(5)
    assert members[1].member.safe


async def test_a_member_with_an_empty_disk_has_the_place_of_the_one_before(
    several: Several,
) -> None:
    members = await founded(several)
    await gone(members[2])
    heir = several.add(address=members[2].member.address, cp_member_count=3)
    several.groups.start(server(heir))
    await several.run(heir.start())
    await several.time.advance(5)
    assert await cp_uuids(members[0]) == uuids(members)
    assert (await shown(heir, "cp_member_local"))["uuid"] == members[2].uuid


async def test_a_member_at_another_address_stays_one(several: Several) -> None:
    members = await founded(several)
    await members[2].stop()
    moved = several.add(uuid=members[2].uuid, address="10.0.0.9:5701", cp_member_count=3)
    several.groups.start(server(moved))
    await several.run(moved.start())
    await several.time.advance(5)
    assert await shown(moved, "cp_member_local") == {
        "uuid": members[2].uuid,
        "address": "[10.0.0.9]:5701",
    }


async def test_copies_stay_where_they_are_unless_the_cluster_is_active(several: Several) -> None:
    members = await founded(several, 4)
    answer = await several.run(members[0].call("change_state", "no_migration"))
    assert answer.status == 200
    several.groups.streams["cp-default"] = astray = frozenset(
        peer_id(server(member)) for member in members[1:]
    )
    await several.time.advance(10)
    assert several.groups.streams["cp-default"] == astray
    assert (await several.run(members[0].call("change_state", "active"))).status == 200
    await several.time.advance(5)
    assert on(several, *members[:3])


async def test_a_member_that_leaves_for_good_hands_its_place_over(several: Several) -> None:
    members = await founded(several, 4)
    key = LEAVING + server(members[1])
    members[0].engine.system_put(key, b"", lambda _: None)
    await several.time.advance(5)
    assert on(several, members[0], members[2], members[3])
    found = await cp_uuids(members[0])
    assert found[:2] == [members[0].uuid, members[2].uuid]
    assert (await shown(members[3], "cp_member_local"))["uuid"] == found[2]
    # Nobody is left to take the next one's.
    members[0].engine.system_put(LEAVING + server(members[2]), b"", lambda _: None)
    await several.time.advance(5)
    assert on(several, members[0], members[3])


async def test_what_is_kept_can_be_read_by_all(several: Several) -> None:
    members = await founded(several)
    kept = members[2].engine.system_items("cp/")
    assert [key for key, _ in kept] == [
        *("cp/group/default", *(f"cp/member/{member.uuid}" for member in members))
    ]
    assert json.loads(kept[0][1]) == {"number": 8, "members": uuids(members)}
