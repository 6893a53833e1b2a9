"""Objects that are being deleted and do not go: what holds them is named in the conditions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from grid_operator.api.conditions import ConditionType, find_condition
from grid_operator.decide.children.departure import OVERDUE_S, going
from tests.unit.operator.decide.fake_store import START, FakeStore, make_pod
from tests.unit.operator.decide.several.leaving import Leavers, step_of
from tests.unit.operator.decide.several.test_several import three

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

HOLD = "example.com/hold"
END = "2026-01-01T00:01:00Z"
"""Of the grace; the deletion was asked for a minute before."""
HELD = f"is being deleted since 2026-01-01T00:00:00Z, and its finalizer {HOLD} holds it"
LATE = f"is being deleted and should have been gone at {END}: look whether node n1 works"
RUNS: dict[str, Any] = {"containerStatuses": [{"name": "member", "state": {"running": {}}}]}
ENDED: dict[str, Any] = {"containerStatuses": [{"name": "member", "state": {"terminated": {}}}]}


def leave(obj: KubeObject, *finalizers: str) -> KubeObject:
    obj["metadata"] |= {"deletionTimestamp": END, "deletionGracePeriodSeconds": 60}
    obj["metadata"]["finalizers"] = list(finalizers)
    return obj


def leaving_pod(status: dict[str, Any], *finalizers: str, name: str = "demo-0") -> KubeObject:
    pod = make_pod(name, ready=False)
    pod["status"] |= status
    return leave({**pod, "spec": {"nodeName": "n1"}}, *finalizers)


@pytest.mark.parametrize(
    ("obj", "seconds", "told"),
    [
        (leaving_pod(RUNS, HOLD), 59, "is being deleted"),
        (leaving_pod(ENDED, HOLD), 61, HELD),
        (leaving_pod(ENDED, HOLD), 61 + OVERDUE_S, HELD),
        (leaving_pod(ENDED, HOLD, "b"), 61, HELD.replace(HOLD, f"{HOLD}, b")),
        (leaving_pod(RUNS), 61, "is being deleted"),
        (leaving_pod(RUNS), 61 + OVERDUE_S, LATE),
        (leaving_pod(RUNS, HOLD), 61 + OVERDUE_S, f"{LATE}; its finalizer {HOLD} holds it"),
        (leave({"kind": "Service", "metadata": {"name": "demo"}}, HOLD), 1e6, HELD),
        (leave({"kind": "Service", "metadata": {"name": "demo"}}), 1e6, "is being deleted"),
    ],
)
def test_what_holds_an_object(obj: KubeObject, seconds: float, told: str) -> None:
    assert going(obj, START + timedelta(seconds=seconds)) == told


def message(store: FakeStore | Leavers, kind: ConditionType) -> str:
    found = find_condition(store.cluster.status.conditions, kind)
    assert found is not None
    return found.message


def held(store: FakeStore, name: str) -> None:
    """Let a pod of the store be held by a finalizer, its containers ended."""
    labels = store.pods[name]["metadata"]["labels"]
    store.pods[name] = leaving_pod(ENDED, HOLD, name=name)
    store.pods[name]["metadata"]["labels"] = labels
    store.now = START + timedelta(seconds=61)


def test_a_finalizer_that_holds_a_member_pod_is_in_the_conditions() -> None:
    store = three()
    held(store, "demo-1")

    store.step()

    assert message(store, ConditionType.READY) == f"demo-1 {HELD}"
    assert message(store, ConditionType.PROGRESSING) == f"demo-1 {HELD}"


def test_a_finalizer_that_holds_up_a_roll_is_named() -> None:
    store = three()
    held(store, "demo-1")
    store.pods["demo-2"]["metadata"]["labels"] = {"controller-revision-hash": "former"}
    store.annotate(restart="r1")

    store.step()

    assert message(store, ConditionType.PROGRESSING) == f"pod demo-1 {HELD}"
    assert f"pod demo-1 {HELD}" in message(store, ConditionType.REQUESTS_VALID)


def test_a_finalizer_that_holds_a_child_is_named_while_the_child_is_waited_for() -> None:
    store = FakeStore()
    store.settle()
    service = next(o for r, o in store.objects.items() if (r.kind, r.name) == ("Service", "demo"))
    leave(service, HOLD)
    store.now = START + timedelta(seconds=61)

    store.step()

    found = find_condition(store.cluster.status.conditions, ConditionType.PROGRESSING)
    assert found is not None
    assert (found.status.value, found.reason) == ("True", "Applying")
    assert found.message == f"Service demo {HELD}"


def test_what_holds_a_cluster_that_is_being_deleted_is_named() -> None:
    store = FakeStore()
    store.settle()
    held(store, "demo-0")
    finalizers = ("foregroundDeletion",)
    gone = {"deletion_timestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}
    meta = store.cluster.metadata.model_copy(update=gone)
    store.cluster = store.cluster.model_copy(update={"metadata": meta})

    store.step()

    assert message(store, ConditionType.PROGRESSING).endswith(
        f"; Pod demo-0 {HELD}; GridCluster demo is being deleted since 2026-01-01T00:00:00Z, and "
        "its finalizer foregroundDeletion holds it"
    )


def test_a_claim_that_is_held_when_a_member_has_left_is_told() -> None:
    store = Leavers(3)
    store.spec(size=2)
    store.until(lambda: step_of(store) == "RemovePod")
    claim = store.claims["demo-2"]
    store.step()
    store.claims["demo-2"] = leave(claim, HOLD)

    store.step()

    assert message(store, ConditionType.PROGRESSING).endswith(
        f"until claim data-demo-2 is gone, which Kubernetes deletes now: it {HELD}"
    )
