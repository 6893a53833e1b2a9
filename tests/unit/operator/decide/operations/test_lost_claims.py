"""A volume claim that somebody deleted lives as long as its pod: nothing takes the pod away."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_operator.api.status import OperationKind
from grid_operator.decide import decide
from tests.unit.operator.decide.state_space import moves
from tests.unit.operator.decide.state_space.journeys import calling, decided, ended, run, settled
from tests.unit.operator.decide.state_space.moves import at_rest, complete

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import Decision
    from tests.unit.operator.decide.state_space.world import World

LOST = "claim data-demo-0 is being deleted, and its data goes with pod demo-0"


def claim(name: str = "data-demo-0", *, deleted: bool = True) -> KubeObject:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    labels = {"gridcluster.io/cluster": "demo"}
    meta = {"name": name, "namespace": "default", "labels": labels, **gone}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta}


def look(world: World, *claims: KubeObject) -> Decision:
    return decide(replace(world.observe(), claims=claims), world.desired(), world.now)


def told(decision: Decision, kind: str) -> tuple[str, str]:
    found = next(c for c in decision.status.conditions if c.type == kind)
    return found.status, found.message


@pytest.mark.parametrize(
    "wish", [moves.STOP, moves.RESTART, moves.ROLL, lambda world: world.with_pod(process="parked")]
)
def test_nothing_begins_that_would_take_the_pod_away(wish: moves.Edit) -> None:
    world = wish(settled().later(5))
    for _ in range(6):
        decision = look(world, claim())
        assert decision.delete_pods == ()
        assert decision.call is None
        world = at_rest(complete(world, decision).later(60))

    assert world.status.operation is None
    assert world.pod is not None
    texts = [c.message for c in world.status.conditions if c.type != "SafeToDisrupt"]
    assert any(LOST in text for text in texts)


def test_it_shows_before_anybody_wants_anything() -> None:
    safe, message = told(look(settled(), claim()), "SafeToDisrupt")

    assert (safe, message.partition(":")[0]) == ("False", LOST)


@pytest.mark.parametrize(
    "other", [claim("demo-backup"), claim("data-demo-1"), claim(deleted=False)]
)
def test_other_claims_hold_up_nothing(other: KubeObject) -> None:
    assert told(look(settled(), other), "SafeToDisrupt")[0] == "True"


def test_a_restart_in_its_middle_keeps_the_pod_and_says_why() -> None:
    world = calling(OperationKind.RESTART)[0]
    world = complete(world, decided(world))
    assert world.status.operation is not None
    assert world.status.operation.step == "DeletePod"

    decision = look(world, claim())

    assert decision.delete_pods == ()
    assert LOST in told(decision, "Progressing")[1]
    assert [pod["metadata"]["name"] for pod in look(world).delete_pods] == ["demo-0"]


def test_a_pod_that_no_node_has_taken_keeps_no_data() -> None:
    world = moves.STOP(settled())
    observed = replace(world.observe(), claims=(claim(),))
    waits = {"type": "PodScheduled", "status": "False", "message": "claim is being deleted"}
    pod = {**observed.pods[0], "status": {"conditions": [waits]}}
    unheard = replace(observed, pods=(pod,), members={})

    decision = decide(unheard, world.desired(), world.now)

    assert decision.status.operation is not None
    assert decision.status.operation.kind is OperationKind.STOP


def test_whoever_deletes_the_pod_gives_the_data_up() -> None:
    world = moves.RESTART(settled().later(5))
    world = complete(world, look(world, claim()))

    world, _ = run(replace(world, pod=None), ended(OperationKind.RESTART))

    assert world.pod is not None
