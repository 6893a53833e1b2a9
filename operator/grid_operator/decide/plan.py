"""What is to be done now, before it is told in a status."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import ConfigValidReason
from grid_operator.api.desired import SpecProblem
from grid_operator.api.objects import ObjectRef
from grid_operator.api.phase import Step
from grid_operator.api.status import GIVES_UP_DATA, OperationKind
from grid_operator.decide.annotation_requests import (
    Requests,
    inherited,
    read_requests,
    with_refused,
)
from grid_operator.decide.children.admission import object_name, still_admitted, unsettled
from grid_operator.decide.children.departure import going, is_terminating
from grid_operator.decide.children.drift import is_same_rendering
from grid_operator.decide.operations import restore, shrink
from grid_operator.decide.operations.drive import Progress, operate
from grid_operator.decide.operations.stop import finalizers
from grid_operator.decide.roll import plan_roll
from grid_operator.decide.situation import Situation
from grid_operator.decide.validate import find_problem

if TYPE_CHECKING:
    from datetime import datetime

    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import AdmittedField, GridClusterStatus
    from grid_operator.decide.model import Desired, Observed


_CLAIM_SPECS: Final = re.compile(r"spec\.volumeClaimTemplates($|\[\d+\]\.spec\b)")
"""Places in a StatefulSet that say what is claimed."""


@dataclass(frozen=True, slots=True)
class Writes:
    """Objects to write."""

    apply: tuple[KubeObject, ...] = ()
    delete: tuple[ObjectRef, ...] = ()

    def without(self, obj: KubeObject | None) -> Writes:
        """Return the same but for one object, which stays as it is."""
        return replace(self, apply=tuple(found for found in self.apply if found is not obj))

    def texts(self) -> tuple[str, ...]:
        """Return what is not as wanted, by kind and name."""
        applied = tuple(f"{obj['kind']} {obj['metadata']['name']}" for obj in self.apply)
        deleted = tuple(f"{ref.kind} {ref.name}" for ref in self.delete)
        return applied + deleted


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of this round, what stands in their way, and the journal."""

    situation: Situation
    requests: Requests
    progress: Progress
    problem: SpecProblem | None = None
    writes: Writes = field(default=Writes())
    pending: tuple[str, ...] = ()
    """Children that are not as wanted, also when nothing is written because of a pause."""
    delete_pods: tuple[KubeObject, ...] = ()
    finalizers: tuple[str, ...] | None = None
    admitted: tuple[AdmittedField, ...] = ()
    """Noted fields that still differ."""
    ask_again: tuple[KubeObject, ...] = ()
    """Children with such fields, while nothing stands in the way of writing them."""


def make_plan(observed: Observed, desired: Desired, now: datetime) -> Plan:
    """Return what to write now: no objects when deleted, invalid or paused."""
    live = {ObjectRef.of(obj): obj for obj in (*observed.children, *observed.claims)}
    statefulset = next((obj for obj in desired.children if obj["kind"] == "StatefulSet"), None)
    current = live.get(ObjectRef.of(statefulset)) if statefulset is not None else None
    roll = plan_roll(observed, statefulset, current, shrink.kept_pods(observed), now)
    situation = Situation(observed, desired, roll, now)
    problem = None
    writes = pending = Writes()
    if not situation.deleted:
        problem = find_problem(situation.spec) or desired.problem
        problem = problem or _storage_problem(statefulset, current, situation.status)
        pending = Writes() if problem is not None else _writes(situation, live)
    may_write = problem is None and not situation.deleted and not situation.paused
    if may_write:
        writes = pending.without(statefulset) if shrink.is_held_up(situation) else pending
    if not may_write or any(obj is statefulset for obj in writes.apply):
        situation = situation.with_roll(situation.roll.without_deletion())
    requests = read_requests(observed.cluster)
    former = inherited(observed.cluster, requests)
    asked = replace(requests, ids={n: i for n, i in requests.ids.items() if n not in former})
    progress = operate(situation, asked, may_act=problem is None)
    progress = replace(
        progress, status=with_refused(progress.status, former, observed.dropped or ())
    )
    admitted = still_admitted(situation.status, desired.children, live.values())
    return Plan(
        situation,
        asked,
        progress,
        problem,
        writes,
        (*pending.texts(), *_departing(situation, live)),
        _deletable(situation, progress),
        finalizers(situation, release=progress.move.release),
        admitted,
        _changeable(admitted, desired.children) if may_write else (),
    )


def _writes(situation: Situation, live: dict[ObjectRef, KubeObject]) -> Writes:
    desired = situation.desired.children
    wanted = [obj for obj in desired if _needs_apply(obj, live.get(ObjectRef.of(obj)), situation)]
    frozen = [obj for obj in wanted if _is_frozen(live.get(ObjectRef.of(obj)))]
    return Writes(
        apply=tuple(obj for obj in wanted if obj not in frozen),
        delete=(*map(ObjectRef.of, frozen), *_leftovers(situation, desired)),
    )


def _departing(situation: Situation, live: dict[ObjectRef, KubeObject]) -> list[str]:
    """Return which wanted objects are being deleted, and can be made again only once they are gone.

    A restore tells of its Job itself.
    """
    found = (live.get(ObjectRef.of(obj)) for obj in situation.desired.children)
    return [
        f"{obj['kind']} {obj['metadata']['name']} {going(obj, situation.now)}"
        for obj in found
        if obj is not None and obj["kind"] != restore.JOB and is_terminating(obj)
    ]


def _needs_apply(rendered: KubeObject, live: KubeObject | None, situation: Situation) -> bool:
    held = ObjectRef.of(rendered) in situation.observed.held
    if live is None:
        return not held
    # An object on its way out would take the change with it: it is made anew once it is gone.
    if live["metadata"].get("deletionTimestamp"):
        return False
    # The template of a Job cannot change: one of another rendering is made when this one is gone.
    same = is_same_rendering(rendered, live)
    if rendered["kind"] == "Job" and not same:
        return False
    if same and held:
        return False
    return bool(unsettled(rendered, live, situation.status))


def _changeable(
    admitted: tuple[AdmittedField, ...], children: tuple[KubeObject, ...]
) -> tuple[KubeObject, ...]:
    names = {field.object for field in admitted}
    found = (child for child in children if child["kind"] != "Job")
    return tuple(child for child in found if object_name(child) in names)


def _is_frozen(live: KubeObject | None) -> bool:
    """Return whether somebody made a ConfigMap immutable: only another one can differ from it."""
    return live is not None and live["kind"] == "ConfigMap" and live.get("immutable") is True


def _leftovers(situation: Situation, desired: tuple[KubeObject, ...]) -> tuple[ObjectRef, ...]:
    # The members' own StatefulSet goes with the GridCluster, never before.
    kept = situation.statefulset
    rendered = {ObjectRef.of(obj): obj for obj in desired}
    return tuple(
        sorted(
            ObjectRef.of(child)
            for child in situation.observed.children
            if _is_unwanted(situation, rendered.get(ObjectRef.of(child)), child)
            and child is not kept
            and not child["metadata"].get("deletionTimestamp")
        )
    )


def _is_unwanted(situation: Situation, rendered: KubeObject | None, live: KubeObject) -> bool:
    if rendered is None:
        return True
    pods = situation.observed.job_pods
    return live["kind"] == restore.JOB and restore.is_outdated_job(rendered, live, pods)


def _deletable(situation: Situation, progress: Progress) -> tuple[KubeObject, ...]:
    """Return the pods to delete: of the journal's present step, and those that serve nobody."""
    of_step = progress.move.delete_pod
    operation = situation.operation
    chosen = [] if of_step is None else [of_step]
    kind = None if operation is None else operation.kind
    if situation.stop_wanted or kind is OperationKind.STOP or of_step is not None:
        # Pods that are about to go all together go when the StatefulSet says so.
        return tuple(chosen)
    gives_up = kind in GIVES_UP_DATA
    if gives_up and operation is not None and operation.step == Step.CALL:
        # The answer to a call that gives up data must not be lost together with the pod.
        return tuple(chosen)
    return (*chosen, *situation.roll.delete_pods)


def _storage_problem(
    rendered: KubeObject | None, live: KubeObject | None, status: GridClusterStatus
) -> SpecProblem | None:
    """Return what the API server would refuse: volume claim templates never change.

    The schema's transition rules refuse it first; this is for objects that got around them.
    """
    if rendered is None or live is None:
        return None
    found = (difference.place for difference in unsettled(rendered, live, status))
    if not any(_CLAIM_SPECS.match(place) for place in found):
        return None
    return SpecProblem(
        ConfigValidReason.IMMUTABLE_STORAGE,
        "spec.persistence: the volume claims of an existing cluster cannot change; set it back, "
        "or create a new GridCluster",
    )
