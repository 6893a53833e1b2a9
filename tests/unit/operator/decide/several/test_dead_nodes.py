"""Pods that Kubernetes cannot take away, because their nodes do not answer."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from grid_operator.api.conditions import ConditionType
from grid_operator.decide.children.departure import OVERDUE_S
from tests.unit.operator.decide.several.leaving import (
    SILENT,
    Leavers,
    condition,
    ended,
    names,
    step_of,
)

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

NODE = "node-b"


class OfDeadNode(Leavers):
    """One pod of it is told to go, and does not."""

    dead = ""

    def run_controller(self) -> None:
        """Let the controller do its work; it makes no second pod before the first is gone."""
        kept, member = self.pods.pop(self.dead, None), self.members.pop(self.dead, None)
        super().run_controller()
        if kept is None or member is None:
            return
        wanted = self.pods.get(self.dead) is not None
        self.pods[self.dead], self.members[self.dead] = kept, member
        if not wanted:
            kept["metadata"].setdefault("deletionTimestamp", self.now.isoformat())
            kept["spec"] = {"nodeName": NODE}

    def lose(self, name: str) -> None:
        self.dead, self.shown = name, {name: SILENT}

    def rounds(self, number: int) -> None:
        for _ in range(number):
            self.step()

    def stateful_set(self) -> KubeObject:
        found = next(o for o in self.objects.values() if o["kind"] == "StatefulSet")
        spec: dict[str, Any] = found["spec"]
        return spec


def overdue_rounds() -> int:
    return int(timedelta(seconds=OVERDUE_S) / timedelta(seconds=10)) + 2


def test_a_stop_that_waits_for_a_dead_node_can_be_taken_back() -> None:
    store = OfDeadNode(3)
    store.lose("demo-2")
    store.spec(runState="Stopped")
    store.until(lambda: step_of(store) == "ScaleDown" and len(store.pods) == 1)
    store.rounds(overdue_rounds())
    assert step_of(store) == "ScaleDown", "who is to be stopped may run"

    store.spec(runState="Running")
    store.until(lambda: sorted(store.pods) == names(0, 1, 2))
    assert ended(store, "Stop") == [("Active", "Succeeded")]
    store.until(lambda: ended(store, "Start") != [])
    assert ended(store, "Start") == [("Active", "Succeeded")], "the others write without it"
    assert condition(store, ConditionType.READY).status == "False"

    del store.pods["demo-2"]
    store.shown = {}
    store.settle()
    assert condition(store, ConditionType.READY).status == "True"


def test_a_stop_that_is_taken_back_waits_for_pods_that_go_in_time() -> None:
    store = OfDeadNode(3)
    store.lose("demo-2")
    store.spec(runState="Stopped")
    store.until(lambda: step_of(store) == "ScaleDown" and len(store.pods) == 1)
    store.spec(runState="Running")
    store.rounds(3)
    assert (step_of(store), sorted(store.pods)) == ("ScaleDown", names(2))


def test_a_stop_begins_although_the_pod_of_one_that_left_does_not_go() -> None:
    store = OfDeadNode(3)
    store.spec(size=2)
    store.until(lambda: step_of(store) == "RemovePod")
    store.dead = "demo-2"
    store.rounds(overdue_rounds())
    assert step_of(store) == "RemovePod"
    assert store.stateful_set()["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Delete"

    store.spec(size=2, runState="Stopped")
    store.until(lambda: not {"demo-0", "demo-1"} & store.pods.keys())

    assert ended(store) == [("demo-2", "Succeeded")]
    (told,) = (o for o in store.cluster.status.last_operations if o.kind.value == "Shrink")
    assert f"pod demo-2 is still on node {NODE}" in told.message
    assert "delete claim data-demo-2" in told.message
    assert store.stateful_set()["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Retain"
    assert {"data-demo-0", "data-demo-1"} <= {c["metadata"]["name"] for c in store.claims.values()}
    assert "demo-2" in condition(store, ConditionType.STOPPED).message
