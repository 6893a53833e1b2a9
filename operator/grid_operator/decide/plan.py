"""What is to be done now, before it is told in a status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grid_operator.api.conditions import ConfigValidReason
from grid_operator.api.objects import ObjectRef
from grid_operator.decide.drift import differences, is_unchanged
from grid_operator.decide.roll import Roll, plan_roll
from grid_operator.decide.validate import SpecProblem, find_problem

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import Observed


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of this round, and what stands in their way."""

    problem: SpecProblem | None = None
    apply: tuple[KubeObject, ...] = ()
    delete: tuple[ObjectRef, ...] = ()
    roll: Roll = field(default=Roll())
    pending: tuple[str, ...] = ()
    """Children that are not as wanted, also when nothing is written because of a pause."""


def make_plan(observed: Observed, desired: tuple[KubeObject, ...]) -> Plan:
    """Return what to write now: nothing when deleted, invalid or paused."""
    cluster = observed.cluster
    live = {ObjectRef.of(child): child for child in observed.children}
    statefulset = next((obj for obj in desired if obj["kind"] == "StatefulSet"), None)
    current = live.get(ObjectRef.of(statefulset)) if statefulset is not None else None
    roll = plan_roll(observed, statefulset, current)
    if cluster.metadata.deletion_timestamp is not None:
        return Plan()
    problem = find_problem(cluster.spec) or _storage_problem(statefulset, current)
    if problem is not None:
        return Plan(problem=problem, roll=roll.without_deletion())
    apply = tuple(obj for obj in desired if _needs_apply(obj, live.get(ObjectRef.of(obj))))
    delete = _leftovers(live, desired)
    pending = tuple(f"{obj['kind']} {obj['metadata']['name']}" for obj in apply)
    pending += tuple(f"{ref.kind} {ref.name}" for ref in delete)
    if cluster.spec.paused:
        return Plan(roll=roll.without_deletion(), pending=pending)
    if any(obj is statefulset for obj in apply):
        roll = roll.without_deletion()
    return Plan(apply=apply, delete=delete, roll=roll, pending=pending)


def _needs_apply(rendered: KubeObject, live: KubeObject | None) -> bool:
    # An object on its way out would take the change with it: it is made anew once it is gone.
    if live is not None and live["metadata"].get("deletionTimestamp"):
        return False
    return live is None or not is_unchanged(rendered, live)


def _leftovers(
    live: dict[ObjectRef, KubeObject], desired: tuple[KubeObject, ...]
) -> tuple[ObjectRef, ...]:
    wanted = {ObjectRef.of(obj) for obj in desired}
    gone = (ref for ref, obj in live.items() if obj["metadata"].get("deletionTimestamp"))
    return tuple(sorted(live.keys() - wanted - set(gone)))


def _storage_problem(rendered: KubeObject | None, live: KubeObject | None) -> SpecProblem | None:
    """Return what the API server would refuse: volume claim templates never change.

    The schema's transition rules refuse it first; this is for objects that got around them.
    """
    if rendered is None or live is None:
        return None
    wanted = rendered["spec"].get("volumeClaimTemplates") or []
    has = live["spec"].get("volumeClaimTemplates") or []
    same_class = [t["spec"].get("storageClassName") for t in wanted] == [
        t["spec"].get("storageClassName") for t in has
    ]
    if same_class and not differences(
        [t["spec"] for t in wanted], [t["spec"] for t in has], "volumeClaimTemplates"
    ):
        return None
    return SpecProblem(
        ConfigValidReason.IMMUTABLE_STORAGE,
        "spec.persistence: the volume claims of an existing cluster cannot change; set it back, "
        "or create a new GridCluster",
    )
