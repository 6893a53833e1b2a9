"""What the status tells, where no other test looks at the field."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from grid_operator.api.conditions import Condition, ConditionStatus, timestamp
from grid_operator.api.status import GridClusterStatus, OperationKind
from grid_operator.decide.calls import CallUnknown, Endpoint
from grid_operator.decide.model import MemberProblem
from tests.unit.operator.decide.fake_store import WELL, FakeStore
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.journeys import (
    CASES,
    calling,
    decided,
    ended,
    run,
    settled,
)
from tests.unit.operator.decide.state_space.moves import complete
from tests.unit.operator.decide.state_space.world import Spec, World
from tests.unit.operator.reconcile import test_calls as calls


def one(status: GridClusterStatus, kind: str) -> Condition:
    (found,) = (c for c in status.conditions if c.type == kind)
    return found


def test_a_member_is_shown_with_its_address_and_version() -> None:
    store = FakeStore()
    store.views = {"demo-0": replace(WELL, address="host:5701", version="7.8.9", uuid="u-1")}
    store.settle()

    (member,) = store.cluster.status.members

    assert (member.pod, member.address, member.version) == ("demo-0", "host:5701", "7.8.9")
    assert (member.uuid, member.ready, member.node_state) == ("u-1", True, "Active")


def test_a_member_that_is_silent_keeps_its_identity_alone() -> None:
    store = FakeStore()
    store.settle()
    store.views = {"demo-0": MemberProblem("hangs")}
    store.settle()

    status = store.cluster.status

    (member,) = status.members
    assert (member.address, member.version, member.ready) == ("", "", False)
    assert (member.uuid, member.node_state) == (WELL.uuid, "Unknown")
    assert (status.size, status.ready_members) == (1, 0)
    assert (status.cluster_state, status.cluster_version) == ("Unknown", "Unknown")


@pytest.mark.parametrize(
    ("cluster_state", "shown"),
    [("NO_MIGRATION", "NoMigration"), ("IN_TRANSITION", "InTransition"), ("FROZEN", "Frozen")],
)
def test_the_cluster_state_is_shown_as_the_spec_writes_it(cluster_state: str, shown: str) -> None:
    store = FakeStore()
    store.views = {"demo-0": replace(WELL, cluster_state=cluster_state, cluster_version="3.4")}
    store.settle()

    assert store.cluster.status.cluster_state == shown
    assert store.cluster.status.cluster_version == "3.4"


def test_what_was_brought_about_tells_a_new_wish_from_drift() -> None:
    store = FakeStore({"clusterState": "Frozen", "clusterStateDriftPolicy": "Report"})
    while store.cluster.status.operation is None:
        store.step()

    wish = one(store.cluster.status, "ClusterStateAsDesired")
    assert (wish.reason, store.cluster.status.applied_cluster_state) == ("Changing", None)

    store.views = {"demo-0": replace(WELL, cluster_state="FROZEN")}
    store.settle()
    assert store.cluster.status.applied_cluster_state == "Frozen"
    store.views = {"demo-0": WELL}
    store.settle()
    assert one(store.cluster.status, "ClusterStateAsDesired").reason == "Drifted"
    assert store.cluster.status.operation is None


def test_the_size_is_that_of_the_pods() -> None:
    store = FakeStore()
    store.settle()
    store.change_spec({"runState": "Stopped"})
    store.settle()

    status = store.cluster.status
    assert (status.size, status.ready_members, status.members) == (0, 0, ())


def test_an_operation_tells_when_it_and_its_step_began_and_was_tried() -> None:
    world = calling(OperationKind.STOP)[0]
    begun = world.status.operation
    assert begun is not None
    assert timestamp(CASES[OperationKind.STOP][0].now) <= begun.started <= timestamp(world.now)
    world = world.later(7)
    tried = decided(world).status.operation

    assert tried is not None
    assert (tried.kind, tried.step, tried.attempts) == (OperationKind.STOP, "Passive", 1)
    assert (tried.started, tried.step_started) == (begun.started, begun.step_started)
    assert tried.last_attempt == timestamp(world.now)
    after = complete(world, decided(world)).status.operation
    assert after is not None
    assert (after.step, after.attempts, after.last_attempt) == ("Shutdown", 0, None)
    assert after.started == begun.started
    assert after.step_started == timestamp(world.now)


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (OperationKind.CHANGE_STATE, "Frozen"),
        (OperationKind.APPLY_LIVE, "demo-0"),
        (OperationKind.RESTART, "demo-0"),
        (OperationKind.STOP, "Active"),
        (OperationKind.START, "Frozen"),
        (OperationKind.FORCE_START, "demo-0"),
        (OperationKind.PARTIAL_START, "demo-0"),
        (OperationKind.BACKUP, "b0"),
    ],
)
def test_an_ended_operation_tells_what_it_was_done_to_and_when(
    kind: OperationKind, target: str
) -> None:
    start = CASES[kind][0]
    world, _ = run(start, lambda world: world.status.operation is not None)
    begun = world.status.operation
    assert begun is not None
    world, _ = run(world, ended(kind))

    over = world.status.last_operations[0]

    assert (over.id, over.kind, over.target) == (begun.id, kind, target)
    assert over.started == begun.started
    assert timestamp(start.now) <= over.started <= over.finished <= timestamp(world.now)
    if kind is not OperationKind.RESTART:
        assert over.request == begun.request


def test_a_failed_backup_tells_when_and_takes_no_success_away() -> None:
    world, _ = run(moves.BACKUP(settled()), ended(OperationKind.BACKUP))
    known = world.status.backup
    assert known is not None
    assert known.last_failed_time is None
    world = moves.BACKUP_AGAIN(world.later(60))
    while not any(stage == "STARTED" for _, stage in world.disk.backups):
        world = complete(world, decided(world)).later(1)

    world = world.with_disk(backups=())
    after = decided(world).status

    assert after.backup is not None
    assert after.backup.last_failed_time == timestamp(world.now)
    assert after.backup.last_successful_time == known.last_successful_time
    assert one(after, "BackupSucceeded").status is ConditionStatus.FALSE


def test_a_restored_cluster_tells_where_its_data_came_from() -> None:
    start = World(spec=Spec(restores=True))
    world = complete(start, decided(start))
    assert one(world.status, "Restored").reason == "Restoring"
    assert one(world.status, "Ready").reason == "Restoring"

    world, _ = run(world, ended(OperationKind.RESTORE))

    restored = one(world.status, "Restored")
    assert (restored.status, restored.reason) == (ConditionStatus.TRUE, "Restored")
    assert restored.message == world.status.restored_from == "source-backup/source-0/newest"


def test_the_error_of_an_attempt_is_told() -> None:
    store = FakeStore({"clusterState": "Frozen"})
    store.answer = CallUnknown("gave no complete answer")
    for _ in range(8):
        store.step()
    operation = store.cluster.status.operation
    assert operation is not None
    assert operation.last_error == "demo-0: gave no complete answer"
    assert operation.last_error in one(store.cluster.status, "Progressing").message


async def test_the_id_and_step_of_the_journal_are_the_key_of_the_call() -> None:
    world = calls.World()
    await world.settle()
    world.kube.edit(clusterState="Frozen")
    await world.until(lambda: bool(world.operation))
    begun = dict(world.operation)

    await world.until(lambda: bool(world.members.calls))

    (call,) = world.members.calls
    assert call.endpoint is Endpoint.CHANGE_STATE
    assert call.key.startswith(f"{begun['id']}.{begun['step']}")


def test_conditions_carry_the_generation_and_the_time_of_their_turn() -> None:
    store = FakeStore()
    store.settle()
    store.now += timedelta(hours=1)
    store.change_spec({"runState": "Stopped"})
    store.settle()

    ready = one(store.cluster.status, "Ready")

    assert store.cluster.status.observed_generation == 2
    assert ready.observed_generation == 2
    assert ready.status is ConditionStatus.FALSE
    assert ready.last_transition_time >= "2026-01-01T01:00:00Z"
    valid: Any = one(store.cluster.status, "ConfigValid")
    assert valid.observed_generation == 2
    assert valid.last_transition_time < "2026-01-01T01:00:00Z"
