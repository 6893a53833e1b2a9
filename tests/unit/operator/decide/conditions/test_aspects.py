"""The conditions about cluster state, structures, safety and stops; pauses with an end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from grid_operator.api.conditions import Condition, ConditionType, find_condition
from grid_operator.api.status import OperationKind
from grid_operator.decide.calls import CallUnknown
from grid_operator.decide.model import MemberProblem, MemberView, StructureUse
from tests.unit.operator.decide.fake_store import START, WELL, FakeStore

FROZEN = replace(WELL, cluster_state="FROZEN")
MOVING = replace(WELL, cluster_state="IN_TRANSITION")


def settled(spec: dict[str, Any] | None = None) -> FakeStore:
    store = FakeStore(spec)
    store.settle()
    store.events.clear()
    store.calls.clear()
    return store


def find(store: FakeStore, kind: ConditionType) -> Condition | None:
    return find_condition(store.cluster.status.conditions, kind)


def shown(store: FakeStore, kind: ConditionType) -> tuple[str, str]:
    found = find(store, kind)
    assert found is not None
    return found.status.value, found.reason


def message(store: FakeStore, kind: ConditionType) -> str:
    found = find(store, kind)
    assert found is not None
    return found.message


STATE = ConditionType.CLUSTER_STATE_AS_DESIRED


def test_no_wish_no_condition() -> None:
    assert find(settled(), STATE) is None


def test_a_wish_that_is_true_already_is_applied_without_a_call() -> None:
    store = settled({"clusterState": "Active"})

    assert store.calls == []
    assert store.cluster.status.applied_cluster_state == "Active"
    assert shown(store, STATE) == ("True", "AsDesired")
    assert store.events == []


@pytest.mark.parametrize(
    ("policy", "view", "expected", "begins"),
    [
        ("Report", FROZEN, ("False", "Drifted"), False),
        ("Adopt", FROZEN, ("True", "Adopted"), False),
        ("Correct", FROZEN, ("False", "Changing"), True),
        ("Correct", MOVING, ("False", "Changing"), False),
        ("Report", MemberProblem("hangs"), ("Unknown", "NoMembers"), False),
    ],
)
def test_what_is_done_about_a_state_that_somebody_changed(
    policy: str, view: MemberView | MemberProblem, expected: tuple[str, str], begins: bool
) -> None:
    store = settled({"clusterState": "Active", "clusterStateDriftPolicy": policy})
    store.views = {"demo-0": view}

    store.step()

    assert shown(store, STATE) == expected
    operation = store.cluster.status.operation
    assert (operation is not None) is begins
    assert operation is None or operation.kind is OperationKind.CHANGE_STATE
    told = expected[0] != "True"
    assert (expected[1] in store.events) is (told and expected[0] == "False")
    assert store.cluster.status.applied_cluster_state == "Active"


def test_a_wish_is_forgotten_when_it_is_taken_back() -> None:
    store = settled({"clusterState": "Active"})
    store.change_spec({})
    store.settle()

    assert store.cluster.status.applied_cluster_state is None
    assert find(store, STATE) is None


@pytest.mark.parametrize(
    ("kind", "name", "entries", "matched"),
    [
        ("map", "orders", 3, True),
        ("map", "session-7", 3, True),
        ("map", "session", 3, False),
        ("map", "jobs", 3, False),
        ("map", "jobs", 0, True),
        ("queue", "jobs", 1, True),
        ("queue", "orders", 1, False),
        ("queue", "a-b", 1, True),
        ("queue", "ab", 1, False),
        ("queue", "a-", 1, True),
    ],
)
def test_structures_that_left_the_spec_show(
    kind: str, name: str, entries: int, matched: bool
) -> None:
    spec = {
        "maps": [{"name": "orders"}, {"name": "session-*"}],
        "queues": [{"name": "jobs"}, {"name": "a-*"}],
    }
    store = settled(spec)
    store.views = {"demo-0": replace(WELL, structures=(StructureUse(kind, name, entries),))}

    store.settle()

    retained = ("False", "Retained")
    assert shown(store, ConditionType.STRUCTURES_MATCH) == (
        ("True", "Matched") if matched else retained
    )
    assert (f"{kind} {name}" in message(store, ConditionType.STRUCTURES_MATCH)) is not matched
    assert store.events == ([] if matched else ["Retained"])


def test_default_matches_every_name_and_ten_names_are_told() -> None:
    used = tuple(StructureUse("map", f"m{i:02}", 1) for i in range(13))
    store = settled({"maps": [{"name": "other"}]})
    store.views = {"demo-0": replace(WELL, structures=used)}
    store.settle()
    text = message(store, ConditionType.STRUCTURES_MATCH)
    assert "map m09 and 3 more" in text
    assert "m10" not in text

    store.change_spec({"maps": [{"name": "other"}, {"name": "default"}]})
    store.settle()
    assert shown(store, ConditionType.STRUCTURES_MATCH) == ("True", "Matched")


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (replace(WELL, cluster_safe=False), "demo-0 says that the cluster is not safe"),
        (replace(WELL, migration_queue_size=2), "2 migrations"),
        (MemberProblem("refuses"), "demo-0 does not answer: refuses"),
    ],
)
def test_disruption_is_not_safe_while_a_member_says_so(
    view: MemberView | MemberProblem, told: str
) -> None:
    store = settled()
    assert shown(store, ConditionType.SAFE_TO_DISRUPT) == ("True", "Safe")
    store.views = {"demo-0": view}

    store.settle()

    assert shown(store, ConditionType.SAFE_TO_DISRUPT) == ("False", "Unsafe")
    assert told in message(store, ConditionType.SAFE_TO_DISRUPT)


def test_stopped_and_running_again() -> None:
    store = settled()
    assert shown(store, ConditionType.STOPPED) == ("False", "Running")

    store.change_spec({"runState": "Stopped"})
    store.step()
    assert shown(store, ConditionType.STOPPED) == ("False", "Stopping")
    store.settle()

    assert shown(store, ConditionType.STOPPED) == ("True", "Stopped")
    assert shown(store, ConditionType.READY) == ("False", "Stopped")
    assert shown(store, ConditionType.PROGRESSING) == ("False", "UpToDate")
    assert store.pods == {}
    assert store.events == ["StopStarted", "StopSucceeded"]
    assert [
        o["spec"]["replicas"] for o in store.objects.values() if o["kind"] == "StatefulSet"
    ] == [0]

    store.events.clear()
    store.change_spec({"runState": "Running"})
    store.step()
    assert shown(store, ConditionType.PROGRESSING) == ("True", "Start")
    assert shown(store, ConditionType.STOPPED) == ("False", "Running")
    store.settle()

    assert shown(store, ConditionType.READY) == ("True", "AllMembersReady")
    assert store.events == ["StartStarted", "AllMembersReady", "StartSucceeded"]


def test_a_pause_with_an_end_holds_until_then_and_wakes_in_time() -> None:
    store = settled()
    store.now = START
    store.change_spec({"pausedUntil": "2026-01-01T00:00:25Z", "image": "other:1"})

    store.step()
    assert shown(store, ConditionType.PROGRESSING) == ("False", "Paused")
    assert "spec.pausedUntil is 2026-01-01T00:00:25Z" in message(store, ConditionType.PROGRESSING)
    assert "StatefulSet demo" in message(store, ConditionType.PROGRESSING)
    assert store.decision is not None
    assert store.decision.requeue_after_s == pytest.approx(10)
    store.step()
    assert store.decision.requeue_after_s == pytest.approx(5)
    assert store.replaced == []

    store.settle()
    assert store.replaced == ["demo-0"]


def test_an_operation_under_way_stays_where_it_is_during_a_pause() -> None:
    store = settled()
    store.annotate(restart="r1")
    store.step()
    before = store.cluster.status.operation
    assert before is not None

    store.change_spec({"paused": True})
    store.settle()

    assert store.cluster.status.operation == before
    assert store.calls == []
    assert shown(store, ConditionType.PROGRESSING) == ("True", "Paused")
    assert "Restart stays at ShutDownMember demo-0" in message(store, ConditionType.PROGRESSING)
    assert store.events == ["RestartStarted", "Paused"]

    store.change_spec({})
    store.settle()
    assert store.replaced == ["demo-0"]


def test_an_operation_under_way_stays_where_it_is_while_the_spec_cannot_work() -> None:
    store = settled()
    store.annotate(restart="r1")
    store.step()

    store.change_spec({"pod": {"labels": {"gridcluster.io/mine": "x"}}})
    store.settle()

    assert store.calls == []
    assert shown(store, ConditionType.PROGRESSING) == ("True", "Blocked")
    assert "gridcluster.io/mine" in message(store, ConditionType.PROGRESSING)


def test_the_plan_of_a_change_is_told_before_members_are_restarted() -> None:
    store = settled({"maps": [{"name": "orders"}]})

    store.change_spec({"maps": [{"name": "orders", "maxIdleSeconds": 9}]})
    store.step()

    assert store.replaced == []
    text = message(store, ConditionType.PROGRESSING)
    assert "orders" in text
    assert "restart" in text
    assert store.events == ["Changing"]


def test_the_next_look_is_at_the_next_attempt() -> None:
    store = settled({"clusterState": "Active", "clusterStateDriftPolicy": "Correct"})
    store.views = {"demo-0": FROZEN}
    store.step()
    store.answer = CallUnknown("gave no complete answer")
    store.step()
    assert store.decision is not None
    store.now -= timedelta(seconds=9)
    store.step()

    assert store.decision.call is None
    assert store.decision.requeue_after_s == pytest.approx(1)


def test_a_cluster_that_is_made_stopped_never_starts_a_member() -> None:
    store = FakeStore({"runState": "Stopped"})

    for _ in range(8):
        store.step()
        assert store.pods == {}

    assert shown(store, ConditionType.STOPPED) == ("True", "Stopped")
    store.change_spec({})
    store.settle()
    assert shown(store, ConditionType.READY) == ("True", "AllMembersReady")
