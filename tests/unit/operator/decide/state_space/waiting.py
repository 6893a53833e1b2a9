"""What tools that wait by convention should make of a status, and what they do make of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grid_operator.api.conditions import ConditionType, find_condition
from grid_operator.api.status import GIVES_UP_DATA, OperationKind, OperationOutcome
from grid_operator.decide import decide
from tests.unit.operator.decide.state_space.world import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import FinishedOperation, GridClusterStatus
    from tests.unit.operator.decide.state_space.world import World

JUDGED_S = 120.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A GridCluster as the API server shows it, and whether waiting for it should go on."""

    cluster: KubeObject
    wanted: str
    """Current, InProgress, Failed or Terminating."""

    @property
    def key(self) -> str:
        """All that a judgement can depend on."""
        return json.dumps([self.cluster, self.wanted])


def as_shown(world: World, status: GridClusterStatus) -> Shown:
    """Return the cluster without what no judgement depends on: messages and times."""
    metadata: dict[str, Any] = {"name": "demo", "namespace": "default"}
    metadata["generation"] = world.generation
    if world.deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": c.type, "status": c.status.value, "reason": c.reason} for c in status.conditions
    ]
    shown = {"observedGeneration": status.observed_generation, "conditions": conditions}
    cluster = {
        "apiVersion": "gridcluster.io/v1alpha1",
        "kind": "GridCluster",
        "metadata": metadata,
        "status": shown,
    }
    return Shown(cluster, _wanted(world, status))


def judged(program: Path, clusters: Iterable[KubeObject]) -> list[str]:
    """Return what kstatus says of each."""
    lines = "\n".join(map(json.dumps, clusters))
    answer = subprocess.run(
        [program], input=lines, capture_output=True, text=True, check=True, timeout=JUDGED_S
    )
    return answer.stdout.split()


def _wanted(world: World, status: GridClusterStatus) -> str:
    if world.deleted:
        return "Terminating"
    if _needs_a_person(world, status):
        return "Failed"
    return "Current" if _is_reached(world, status) else "InProgress"


def _needs_a_person(world: World, status: GridClusterStatus) -> bool:
    if world.spec.paused:
        return _pause_holds_back(replace(world, status=status))
    if status.operation is not None:
        return False
    failed = {
        finished.kind
        for finished in reversed(status.last_operations)
        if finished.outcome is OperationOutcome.FAILED and finished == _newest(status, finished)
    }
    if world.spec.restores and status.restored_from is None and world.statefulset is None:
        return OperationKind.RESTORE in failed
    waits = world.pod is not None and world.pod.process == DAMAGED and not world.pod.terminating
    return waits and bool(failed & GIVES_UP_DATA)


def _newest(status: GridClusterStatus, of: FinishedOperation) -> FinishedOperation | None:
    """Return the newest operation of those that do the same."""
    alike = GIVES_UP_DATA if of.kind in GIVES_UP_DATA else {of.kind}
    return next((found for found in status.last_operations if found.kind in alike), None)


def _pause_holds_back(world: World) -> bool:
    """Return whether an operator that nobody pauses would go on, or do anything for this spec."""
    restores = world.spec.restores and world.status.restored_from is None
    outdated = world.pod is not None and world.pod.template != world.spec.template
    if world.status.operation is not None or outdated or restores:
        return True
    twin = replace(world, spec=replace(world.spec, paused=False), annotations=())
    decision = decide(twin.observe(), twin.desired(), twin.now)
    acts = decision.apply or decision.delete or decision.delete_pods or decision.call
    return bool(acts) or decision.status.operation is not None


def _is_reached(world: World, status: GridClusterStatus) -> bool:
    ready = find_condition(status.conditions, ConditionType.READY)
    progressing = find_condition(status.conditions, ConditionType.PROGRESSING)
    wanted = world.spec.template
    return (
        ready is not None
        and ready.status == "True"
        and progressing is not None
        and progressing.status == "False"
        and status.operation is None
        and world.spec.run_state == "Running"
        and world.statefulset is not None
        and world.statefulset.template == wanted
        and world.pod is not None
        and world.pod.template == wanted
    )
