"""WAN replication on one running member: what is configured is agreed on, and its queue grows."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from grid_member.cluster.values.system_store import Put, carry_out
from grid_member.cluster.values.versions import ClusterVersion
from grid_member.engine.state.operations import WanMemberState
from grid_member.engine.wan.agreement import PublisherName, PublisherState
from grid_member.wan.agreement.calls import UNSYNCED
from tests.unit.member.running import ALL_GROUPS, RunningMember, configuration
from tests.unit.member.wire import once
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

EXTRA = """
  wan-replication:
    r:
      batch-publisher:
        london: {cluster-name: london, target-endpoints: "127.0.0.1:1", realm: to}
"""
LONDON = PublisherName("r", "london")
MAPS = "m: {wan-replication-ref: {r: {}}}, plain: {}"


def text(extra: str = EXTRA) -> str:
    realm = "\n      - {name: to, identity: {username-password: {username: u, password: p}}}"
    found = configuration(ALL_GROUPS, extra)
    assert "  map: {" in found
    found = found.replace("  map: {", f"  map: {{{MAPS}, ", 1)
    head, realms, tail = found.partition("    realms:")
    assert realms
    return head + realms + realm + tail


def agreed(member: RunningMember) -> bool:
    part: Any = member.member.management.wan
    shards = part.calls.keeper.shards.with_data()
    return all(shard.state.wan.agreement is not None for shard in shards)


async def tell(member: RunningMember, name: str, *parameters: str, **headers: str) -> Any:
    body = "&".join(("dev", "", *(quote(each, safe="") for each in parameters)))
    return await once(member.port, "POST", f"/grid/rest/wan/{name}", body.encode(), **headers)


async def status(member: RunningMember) -> dict[str, Any]:
    reply = await once(member.port, "GET", "/grid/rest/wan/status")
    assert reply.status == 200
    found: dict[str, Any] = json.loads(reply.body)["replications"][0]["publishers"][0]
    return found


async def put(member: RunningMember, *keys: str, name: str = "m") -> None:
    for key in keys:
        reply = await once(member.port, "POST", f"/grid/rest/maps/{name}/{key}", b"v")
        assert reply.status == 200


async def test_the_queue_of_a_member_grows_and_is_told(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    await put(member, "a", "b", "a")
    await put(member, "c", name="plain")

    found = await status(member)
    assert found["queued"] == {"own": 2, "all": 2}
    assert found["needsSync"] == []
    assert [(each["state"], each["queued"]) for each in found["members"]] == [("REPLICATING", 2)]

    assert (await tell(member, "clearWanQueues", "r", "london")).status == 200
    found = await status(member)
    assert (found["queued"]["all"], found["needsSync"]) == (0, ["m"])


async def test_the_state_of_a_publisher_says_what_is_queued(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    for call, state, queued in (
        ("pausePublisher", "PAUSED", 1),
        ("stopPublisher", "STOPPED", 1),
        ("resumePublisher", "REPLICATING", 2),
    ):
        assert (await tell(member, call, "r", "")).status == 200
        assert (await tell(member, call, "r", "")).status == 200, "again changes nothing"
        await put(member, call)
        found = await status(member)
        assert [each["state"] for each in found["members"]] == [state]
        assert found["queued"]["own"] == queued
    assert found["needsSync"] == ["m"], "what was not queued needs a synchronisation"


async def test_a_key_answers_again_and_is_not_that_of_another_call(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    key = {"Idempotency_Key": "k"}
    first = await tell(member, "pausePublisher", "r", "", **key)
    await tell(member, "resumePublisher", "r", "")
    assert (await tell(member, "pausePublisher", "r", "", **key)).body == first.body
    assert (await status(member))["members"][0]["state"] == "REPLICATING"
    assert (await tell(member, "stopPublisher", "r", "", **key)).status == 409


async def test_a_removed_publisher_is_not_brought_back_by_the_same_file(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    await put(member, "a")
    assert (await tell(member, "removeWanConfig", "r", "london")).status == 200
    part: Any = member.member.management.wan
    await part.calls.keeper.look()
    reply = await once(member.port, "GET", "/grid/rest/wan/status")
    assert json.loads(reply.body)["replications"] == [{"name": "r", "publishers": []}]

    reply = await tell(member, "addWanConfig", addition())
    assert json.loads(reply.body)["addedPublisherIds"] == ["london"]
    await put(member, "b")
    found = await status(member)
    assert found["queued"]["own"] == 1
    assert found["needsSync"] == ["m"], "what was there before is not in the queue"


def addition(cluster_name: str = "london", **more: object) -> str:
    """Return the JSON that adds the publisher `london`."""
    block = {
        "publisherId": "london",
        "clusterName": cluster_name,
        "targetEndpoints": "127.0.0.1:1",
        "properties": {"realm": "to"},
    }
    return json.dumps({"name": "r", "batchPublishers": [block | more]})


async def test_what_a_call_adds_counts_and_not_the_removed_definition_of_the_file(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    for cluster_name in ("paris", "london", "rome"):
        assert (await tell(member, "removeWanConfig", "r", "london")).status == 200
        reply = await once(member.port, "GET", "/grid/rest/wan/status")
        assert json.loads(reply.body)["replications"] == [{"name": "r", "publishers": []}]
        reply = await tell(member, "addWanConfig", addition(cluster_name))
        assert json.loads(reply.body)["addedPublisherIds"] == ["london"]
        assert (await status(member))["clusterName"] == cluster_name


async def test_a_replication_that_a_call_added_goes_with_its_last_publisher(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    added = addition().replace('"r"', '"new"')
    assert (await tell(member, "addWanConfig", added)).status == 200
    assert (await tell(member, "removeWanConfig", "new", "")).status == 200
    part: Any = member.member.management.wan
    stored = part.calls.keeper.stored.config
    assert list(stored.section.replications) == ["r"]
    await part.calls.keeper.look()
    assert part.calls.keeper.stored.config == stored, "the members agree once"


async def test_members_do_not_agree_while_a_call_changes_the_configuration(
    start_member: Callable[..., RunningMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    management = member.member.management
    part: Any = management.wan
    await part.close()
    keeper = part.calls.keeper
    revision = keeper.stored.config.revision
    monkeypatch.setattr(keeper, "_is_agreed", lambda _: False)
    async with management.config_lock:
        look = asyncio.create_task(keeper.look())
        # What the look would propose is in the store before this is.
        await carry_out(Put("test", b"").begin(management.store))
        assert keeper.stored.config.revision == revision
    await look
    assert keeper.stored.config.revision == revision + 1


async def test_a_call_that_sets_a_state_is_not_undone_half_way(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    part: Any = member.member.management.wan
    await part.close()
    keeper = part.calls.keeper
    shard, own = keeper.shards.with_data()[0], uuid.UUID(keeper.own_uuid).bytes

    async def look() -> PublisherState:
        await keeper.look()
        tell_nothing = WanMemberState(PublisherName("r", "none"), own, PublisherState.PAUSED)
        await carry_out(lambda done: keeper.shards.propose(tell_nothing, done))
        found: PublisherState = shard.state.wan.member_state(LONDON, own)
        return found

    assert (await tell(member, "stopPublisher", "r", "")).status == 200
    # As if a call were under way: the shard has the new state, and the store does not yet.
    resumed = WanMemberState(LONDON, own, PublisherState.REPLICATING)
    await carry_out(lambda done: keeper.shards.propose(resumed, done))
    assert await look() is PublisherState.REPLICATING
    assert await look() is PublisherState.STOPPED, "a shard that still lacks it is told"


async def test_a_full_queue_says_what_lets_changes_be_queued_again(
    start_member: Callable[..., RunningMember],
) -> None:
    small = EXTRA.replace("realm: to", "realm: to, queue-capacity: 100")
    member = await start_member(text(small)).start()
    await until(lambda: agreed(member))
    await put(member, *map(str, range(101)))
    await put(member, "later")
    found = await status(member)
    assert (found["queued"]["own"], found["needsSync"]) == (0, ["m"])
    assert found["needsSyncReason"] == (
        "a queue was full: changes of m are not queued until a synchronisation begins, which it "
        "does when the target answers and a member is REPLICATING"
    )

    assert (await tell(member, "removeWanConfig", "r", "london")).status == 200
    assert (await tell(member, "addWanConfig", addition(queueCapacity=100))).status == 200
    await put(member, "a")
    found = await status(member)
    assert (found["queued"]["own"], found["needsSync"]) == (1, ["m"])
    assert found["needsSyncReason"] == UNSYNCED


async def upload(member: RunningMember, content: str) -> Any:
    body = f"dev&&{quote(content, safe='')}".encode()
    return await once(member.port, "POST", "/grid/rest/config/upload", body)


async def test_an_uploaded_map_refers_to_a_replication_of_the_members(
    start_member: Callable[..., RunningMember],
) -> None:
    member = await start_member(text()).start()
    await until(lambda: agreed(member))
    part: Any = member.member.management.wan

    assert (await upload(member, "grid: {map: {u: {wan-replication-ref: {r: {}}}}}")).status == 200
    await part.calls.keeper.look()
    await until(lambda: not part.calls.keeper.lacking_shards())
    await put(member, "a", name="u")
    assert (await status(member))["queued"]["own"] == 1

    for declared in ("", "wan-replication: {new: {}}, "):
        content = f"grid: {{{declared}map: {{v: {{wan-replication-ref: {{new: {{}}}}}}}}}}"
        reply = await upload(member, content)
        assert reply.status == 400
        assert reply.header("X-Grid-Error") == (
            "map.v.wan-replication-ref.new: no member declares this replication: add it with "
            "wan/addWanConfig, or write it into wan-replication of the members' files and restart "
            "them one after the other"
        )
        assert "v" not in member.member.config.maps

    added = addition().replace('"r"', '"new"')
    assert (await tell(member, "addWanConfig", added)).status == 200
    assert (await upload(member, content)).status == 200
    assert list(member.member.config.maps)[-1] == "v"


WAITS = "the cluster version is 0.1: WAN replication needs 0.2"


async def test_nothing_is_written_before_the_cluster_has_version_0_2(
    start_member: Callable[..., RunningMember],
) -> None:
    member = start_member(text())
    versions: Any = member.member.management.versions
    versions.own_version = ClusterVersion(0, 1)
    await member.start()
    part: Any = member.member.management.wan
    await part.calls.keeper.look()
    await put(member, "a")

    for name, parameters in (
        ("pausePublisher", ("r", "x")),
        ("sync/map", ("x", "", "m")),
        ("addWanConfig", ("{}",)),
    ):
        reply = await tell(member, name, *parameters)
        assert (reply.status, reply.json["message"]) == (409, WAITS)
    reply = await once(member.port, "GET", "/grid/rest/wan/status")
    assert (reply.status, reply.json["message"]) == (409, WAITS)
    assert not part.calls.keeper.stored.used
    assert not agreed(member)

    versions.own_version = ClusterVersion(0, 2)
    where = "/grid/rest/management/cluster/version"
    assert (await once(member.port, "POST", where, b"dev&&0.2")).status == 200
    await until(lambda: agreed(member))
    await put(member, "b")
    found = await status(member)
    assert (found["queued"]["own"], found["needsSync"]) == (1, ["m"])
