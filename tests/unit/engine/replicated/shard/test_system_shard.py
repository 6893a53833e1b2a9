"""The shard of a member that holds no data: what is about the cluster, and nothing else."""

from __future__ import annotations

import asyncio

from grid_member.engine.api import ClusterState, Refused
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.replicated.system_shard import SystemState
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import (
    ClusterStateChange,
    QueueOffer,
    Record,
    SystemPut,
    WanAgree,
    WanMemberState,
    WanMerge,
)
from grid_member.engine.state.snapshot import parts
from grid_member.engine.wan.agreement import MergePolicy, PublisherState
from grid_member.engine.wan.changes import Change, ChangeKind
from tests.unit.engine.cluster.proposals import OTHER, OWN, HandLog, put
from tests.unit.engine.drive import condition
from tests.unit.engine.wan.agreements import LONDON, agreement

EVERYTHING = (
    put("a"),
    QueueOffer("q", b"v", None, 9),
    SystemPut("key", b"value", 0),
    ClusterStateChange(ClusterState.FROZEN),
)


def only_about_the_cluster(state: State) -> bool:
    """Tell whether a state has the value, the cluster state and the member, and no data."""
    assert state.system.get("key", 0) == b"value"
    assert state.cluster_state is ClusterState.FROZEN
    assert OTHER in state.members
    return not (state.maps.by_name or state.queues.by_name or state.queues.arrivals)


def test_an_image_of_everything_is_read_without_data() -> None:
    whole = State()
    whole.apply(1, 1, Record(OTHER, 1, 1, EVERYTHING))
    assert not only_about_the_cluster(whole)
    state = SystemState()
    state.load(list(parts(whole.snapshot())))
    assert only_about_the_cluster(state)
    assert state.sequence == 1


def test_no_outcome_of_wan_replication_is_made_up() -> None:
    """A merge that answers None would count as one that was taken."""
    change = Change("m", ChangeKind.PUT, "k", 5, b"v", None, 0, 0, ())
    operations = (
        WanAgree(agreement()),
        WanMemberState(LONDON, OTHER, PublisherState.PAUSED),
        WanMerge(change, MergePolicy.LATEST_UPDATE, None),
    )
    state = SystemState()
    outcomes = state.apply(1, 1, Record(OTHER, 1, 1, operations))
    assert outcomes is not None
    assert all(isinstance(each, Refused) for each in outcomes)
    assert state.wan.agreement is None


async def test_records_are_applied_without_data_also_when_they_are_read_anew() -> None:
    log = HandLog()
    shard = ReplicatedShard(log, OWN, 1, lambda shard, names: None, state=SystemState())
    shard.replay()
    shard.start(asyncio.get_running_loop())
    log.committed(Record(OTHER, 1, 1, EVERYTHING))
    shard.take_committed(log.kept)
    assert only_about_the_cluster(shard.state)
    shard.reload()
    await condition(lambda: log.resumed == 1)
    assert only_about_the_cluster(shard.state)
    await shard.close()
