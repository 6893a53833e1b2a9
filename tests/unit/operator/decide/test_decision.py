from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from grid_operator.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    find_condition,
)
from grid_operator.decide.model import MemberProblem, MemberView
from tests.unit.operator.decide.fake_store import WELL, FakeStore, make_pod


def condition(store: FakeStore, kind: ConditionType) -> Condition:
    found = find_condition(store.cluster.status.conditions, kind)
    assert found is not None
    return found


def settled(spec: dict[str, Any] | None = None) -> FakeStore:
    store = FakeStore(spec)
    store.settle()
    store.events.clear()
    return store


UNSAFE = replace(WELL, cluster_safe=False)
MIGRATING = replace(WELL, migration_queue_size=3)
DISAGREEING = replace(WELL, cluster_size=2)


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (UNSAFE, "demo-0 says that the cluster is not safe"),
        (MIGRATING, "3 migrations"),
        (DISAGREEING, "sees 2 members, there are 1"),
    ],
)
def test_roll_waits_behind_the_gate_and_says_who_says_what(view: MemberView, told: str) -> None:
    store = settled()
    store.views = {"demo-0": view}
    store.change_spec({"clusterName": "other"})

    store.settle()

    assert store.replaced == []
    progressing = condition(store, ConditionType.PROGRESSING)
    assert (progressing.status, progressing.reason) == ("True", "WaitingForSafety")
    assert told in progressing.message
    assert condition(store, ConditionType.READY).reason == "MembersOutdated"
    assert store.events == ["Changing", "WaitingForSafety"]

    store.views = {"demo-0": WELL}
    store.settle()
    assert store.replaced == ["demo-0"]
    assert condition(store, ConditionType.READY).status == "True"


@pytest.mark.parametrize("view", [MemberProblem("connection refused"), UNSAFE])
def test_stuck_pod_of_a_broken_template_is_replaced(view: MemberView | MemberProblem) -> None:
    store = settled()
    store.pods["demo-0"] = make_pod(revision="broken", ready=False)
    store.views = {"demo-0": view}

    store.step()

    assert store.replaced == ["demo-0"]


def test_a_ready_pod_that_does_not_answer_waits_for_the_gate() -> None:
    store = settled()
    store.pods["demo-0"] = make_pod(revision="old")
    store.views = {"demo-0": MemberProblem("gave no complete answer within 3 s")}

    store.step()

    assert store.replaced == []
    waiting = condition(store, ConditionType.PROGRESSING)
    assert waiting.reason == "WaitingForSafety"
    assert "gave no complete answer" in waiting.message


def test_data_in_memory_outlives_a_lost_secret() -> None:
    store = settled()
    store.pods["demo-0"] = make_pod(revision="old")
    store.views = {"demo-0": MemberProblem("refuses", unauthenticated=True)}

    store.settle()

    assert store.replaced == []
    waiting = condition(store, ConditionType.PROGRESSING)
    assert waiting.reason == "WaitingForSafety"
    assert "put the former Secret demo-management back" in waiting.message


def test_a_pod_with_former_credentials_is_replaced() -> None:
    store = settled({"persistence": {"enabled": True}})
    store.pods["demo-0"] = make_pod(revision="old")
    store.views = {"demo-0": MemberProblem("refuses", unauthenticated=True)}

    store.step()

    assert store.replaced == ["demo-0"]


def test_terminating_pod_is_waited_for() -> None:
    store = settled()
    pod = make_pod(revision="old")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    store.pods["demo-0"] = pod

    store.settle()

    assert store.replaced == []
    assert "is being deleted" in condition(store, ConditionType.PROGRESSING).message


def test_nothing_is_replaced_before_the_controller_has_seen_the_template() -> None:
    store = settled()
    store.pods["demo-0"] = make_pod(revision="old")
    statefulset = next(o for o in store.objects.values() if o["kind"] == "StatefulSet")
    statefulset["metadata"]["generation"] += 1

    store.step()

    assert store.replaced == []
    assert condition(store, ConditionType.PROGRESSING).reason == "WaitingForMembers"


def test_paused_cluster_is_only_looked_at() -> None:
    store = settled()
    store.change_spec({"paused": True, "image": "other:1"})

    store.settle()

    assert store.replaced == []
    paused = condition(store, ConditionType.PROGRESSING)
    assert (paused.status, paused.reason) == ("False", "Paused")
    assert "StatefulSet demo" in paused.message
    assert condition(store, ConditionType.READY).reason == "MembersOutdated"
    assert store.events == ["Paused"]

    store.change_spec({"image": "other:1"})
    store.settle()
    assert store.replaced == ["demo-0"]


def test_invalid_spec_applies_nothing_and_keeps_the_members() -> None:
    store = settled()
    before = dict(store.objects)
    store.change_spec({"pod": {"labels": {"gridcluster.io/cluster": "x"}}})

    store.settle()

    assert store.objects == before
    assert store.replaced == []
    assert list(store.pods) == ["demo-0"]
    valid = condition(store, ConditionType.CONFIG_VALID)
    assert (valid.status, valid.reason) == ("False", "InvalidLabel")
    assert "gridcluster.io/cluster" in valid.message
    assert condition(store, ConditionType.READY).reason == "ConfigInvalid"
    assert condition(store, ConditionType.PROGRESSING).reason == "Blocked"
    assert store.cluster.status.ready_members == 1
    assert store.events == ["InvalidLabel"]

    store.change_spec({})
    store.settle()
    assert store.events == ["InvalidLabel", "AllMembersReady", "Valid"]


@pytest.mark.parametrize(
    "persistence",
    [
        {"enabled": False},
        {"enabled": True, "size": "2Gi"},
        {"enabled": True, "storageClassName": "fast"},
    ],
)
def test_changed_volume_claim_is_told_instead_of_being_tried(persistence: dict[str, Any]) -> None:
    store = settled({"persistence": {"enabled": True}})
    store.change_spec({"persistence": persistence})

    store.settle()

    assert condition(store, ConditionType.CONFIG_VALID).reason == "ImmutableStorage"


def test_same_size_in_other_words_is_no_change() -> None:
    store = settled({"persistence": {"enabled": True}})
    store.change_spec({"persistence": {"enabled": True, "size": "1024Mi"}})

    store.settle()

    assert condition(store, ConditionType.CONFIG_VALID).status == "True"


def test_deleted_cluster_is_left_alone() -> None:
    store = settled()
    gone = store.cluster.metadata.model_copy(update={"deletion_timestamp": "2026-01-01T00:00:00Z"})
    store.cluster = store.cluster.model_copy(update={"metadata": gone})
    store.objects.clear()

    store.settle()

    assert store.objects == {}
    assert condition(store, ConditionType.READY).reason == "Deleting"
    assert condition(store, ConditionType.PROGRESSING).reason == "Deleting"


def test_member_that_stops_answering_turns_ready_false_once() -> None:
    store = settled()
    store.views = {"demo-0": MemberProblem("connection refused")}
    store.settle()

    ready = condition(store, ConditionType.READY)
    assert (ready.status, ready.reason) == ("False", "MembersNotReady")
    assert ready.message == "demo-0 does not answer: connection refused"
    assert store.cluster.status.members[0].node_state == "Unknown"
    assert store.events == ["MembersNotReady"]
    since = ready.last_transition_time

    store.now += timedelta(hours=1)
    assert store.step() == 0
    assert condition(store, ConditionType.READY).last_transition_time == since


def test_status_shows_the_members_as_they_see_themselves() -> None:
    status = settled().cluster.status

    assert (status.size, status.ready_members) == (1, 1)
    assert (status.cluster_state, status.cluster_version) == ("Active", "0.1")
    assert status.selector == (
        "app.kubernetes.io/name=grid,app.kubernetes.io/instance=demo,"
        "app.kubernetes.io/component=member"
    )
    (member,) = status.members
    assert (member.pod, member.uuid, member.node_state, member.ready) == (
        "demo-0",
        WELL.uuid,
        "Active",
        True,
    )


_AS_JSON = (
    '{"time": "2026-01-01T00:00:00.000Z", "level": "ERROR", "message": "cannot start: no room"}'
)
_AS_TEXT = "2026-01-01T00:00:00.000Z ERROR cannot start: no room"


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            {
                "containerStatuses": [
                    {"name": "member", "state": {"waiting": {"reason": "ErrImagePull"}}}
                ]
            },
            "demo-0 container member: ErrImagePull",
        ),
        (
            {"containerStatuses": [{"name": "member", "state": {"terminated": {"exitCode": 3}}}]},
            "demo-0 container member ended with code 3",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]},
            "demo-0 cannot be scheduled: no room",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "member",
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
                    }
                ]
            },
            "demo-0 container member: CrashLoopBackOff; it ended with code 2 before",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "member",
                        "state": {"running": {}},
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    }
                ]
            },
            "demo-0 container member is not ready yet; it ended with code 137 (OOMKilled) before",
        ),
        ({}, "demo-0 is not ready yet"),
        *(
            (
                {
                    "containerStatuses": [
                        {
                            "name": "member",
                            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                            "lastState": {
                                "terminated": {"exitCode": code, "reason": "Error", "message": said}
                            },
                        }
                    ]
                },
                "demo-0 container member: CrashLoopBackOff; "
                f"it ended with code {code} before{shown}",
            )
            for code, said, shown in (
                (3, "first\n" + _AS_JSON + "\n", ": cannot start: no room"),
                (3, _AS_TEXT, ": cannot start: no room"),
                (2, "grid.yaml:3: unknown element", ": grid.yaml:3: unknown element"),
                (2, "[1]", ": [1]"),
                (2, " \n", ""),
                (137, _AS_TEXT, ""),
            )
        ),
    ],
)
def test_message_says_why_a_pod_is_not_ready(status: dict[str, Any], told: str) -> None:
    store = settled()
    store.pods["demo-0"]["status"] = status

    store.settle()

    assert condition(store, ConditionType.READY).message == told


def test_a_field_that_leaves_the_template_makes_the_pods_outdated_at_once() -> None:
    store = settled({"pod": {"annotations": {"example.org/edition": "first"}}})
    store.change_spec({})

    store.step()

    ready = condition(store, ConditionType.READY)
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "MembersOutdated")
