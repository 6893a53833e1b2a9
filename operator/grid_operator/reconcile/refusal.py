"""The status of a cluster whose spec, or whose children, somebody refuses."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from grid_operator.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    ConfigValidReason,
    ProgressingReason,
    ReadyReason,
    find_condition,
    make_condition,
)
from grid_operator.api.status import GridClusterStatus
from grid_operator.decide.model import ClusterEvent

if TYPE_CHECKING:
    from datetime import datetime

    from grid_operator.api.gridcluster import InvalidClusterError
    from grid_operator.api.objects import KubeObject
    from grid_operator.ports.errors import NotReady, Rejected

SPEC_FAULTS: Final = frozenset({"Invalid", "BadRequest", "RequestEntityTooLarge"})
"""Reasons of a refusal that only another spec can help against."""


STATUS_FIELD: Final = "status."
"""What the path of a problem begins with that is not the spec's."""
UNREADABLE_STATUS: Final = (
    "this operator does not understand what the status says was done, and does nothing: run the "
    "version that wrote it, or put the named field of the status right"
)

_JOURNAL: Final = (
    "observed_uid",
    "operation",
    "last_operations",
    "handled_requests",
    "applied_cluster_state",
    "stopped",
    "resume_state",
    "restored_from",
    "importing",
    "backup",
)
"""Fields of the status that tell what was done."""


class RefusalReason(StrEnum):
    """Reasons of conditions that the API server's answer gives, not the operator's judgement."""

    API_REFUSED = "ApiRefused"
    """False: the API server refused to write an object; the message is its own."""
    NAME_TAKEN = "NameTaken"
    """False: an object with a child's name exists and belongs to somebody else."""


def refusal_reason(refusal: Rejected) -> RefusalReason:
    """Return the reason under which a refusal is reported."""
    taken = refusal.reason == RefusalReason.NAME_TAKEN
    return RefusalReason.NAME_TAKEN if taken else RefusalReason.API_REFUSED


def previous_status(cluster: KubeObject) -> GridClusterStatus:
    """Return the status that the cluster carries; an empty one if it is not readable."""
    try:
        return GridClusterStatus.model_validate_json(json.dumps(cluster.get("status") or {}))
    except ValidationError:
        return GridClusterStatus()


def invalid_cluster_status(
    cluster: KubeObject, error: InvalidClusterError, now: datetime
) -> KubeObject:
    """Return the status, as JSON, of a GridCluster that the operator's own schema refuses.

    It is the live one but for conditions: what tells of things that were done, and that another
    operator may be able to read, is never lost here.
    """
    live = cluster.get("status") or {}
    generation = cluster["metadata"].get("generation", 0)
    before = GridClusterStatus(conditions=_readable_conditions(live))
    changed = _Conditions(before, generation, now)
    message = "; ".join(error.problems)
    if any(problem.startswith(STATUS_FIELD) for problem in error.problems):
        message = f"{message}; {UNREADABLE_STATUS}"
    busy = ConditionStatus.TRUE if live.get("operation") else ConditionStatus.FALSE
    changed.set(ConditionType.CONFIG_VALID, ConfigValidReason.INVALID_SPEC, message)
    changed.set(ConditionType.PROGRESSING, ProgressingReason.BLOCKED, message, busy)
    changed.set(ConditionType.READY, ReadyReason.CONFIG_INVALID, message)
    changed.stall(ConfigValidReason.INVALID_SPEC, message)
    told = changed.status(before).to_kube()
    return {**live, "conditions": told["conditions"], "observedGeneration": generation}


def _readable_conditions(status: KubeObject) -> tuple[Condition, ...]:
    found: list[Condition] = []
    for content in status.get("conditions") or ():
        try:
            found.append(Condition.model_validate_json(json.dumps(content)))
        except ValidationError:
            continue
    return tuple(found)


def refused_status(
    cluster: KubeObject, decided: GridClusterStatus, refusal: Rejected, now: datetime
) -> GridClusterStatus:
    """Return the decided status, changed to say that the API server refused a write.

    The journal stays as it was: of what was decided, nothing that it tells of was done.
    """
    before = previous_status(cluster)
    changed = _Conditions(decided, cluster["metadata"].get("generation", 0), now)
    changed.previous = before.conditions
    busy = ConditionStatus.FALSE if before.operation is None else ConditionStatus.TRUE
    changed.set(ConditionType.PROGRESSING, refusal_reason(refusal), str(refusal), busy)
    if refusal.reason in SPEC_FAULTS:
        changed.set(ConditionType.CONFIG_VALID, RefusalReason.API_REFUSED, str(refusal))
        changed.stall(RefusalReason.API_REFUSED, str(refusal))
    else:
        # It is tried again: a quota may be raised, and an object of a child's name may go.
        changed.reconcile(refusal_reason(refusal), str(refusal))
    journal = {name: getattr(before, name) for name in _JOURNAL}
    return changed.status(decided.model_copy(update=journal))


def waiting_status(
    cluster: KubeObject, decided: GridClusterStatus, missing: NotReady, now: datetime
) -> GridClusterStatus:
    """Return the decided status, changed to say what has to be there, or gone, first.

    The journal stays as it was, as in `refused_status`.
    """
    before = previous_status(cluster)
    changed = _Conditions(decided, cluster["metadata"].get("generation", 0), now)
    changed.previous = before.conditions
    reason, text = ProgressingReason.APPLYING, str(missing)
    changed.set(ConditionType.PROGRESSING, reason, text, ConditionStatus.TRUE)
    changed.reconcile(reason, text)
    journal = {name: getattr(before, name) for name in _JOURNAL}
    return changed.status(decided.model_copy(update=journal))


def told_events(
    cluster: KubeObject,
    written: GridClusterStatus,
    events: tuple[ClusterEvent, ...],
    refusal: Rejected,
) -> tuple[ClusterEvent, ...]:
    """Return the Events of a refused round: those of conditions as written, and the refusal.

    All others tell of what was not done; they come again with the round in which it is.
    """
    before = previous_status(cluster).conditions
    known = {(c.type, c.status, c.reason) for c in before}
    turned = {
        (c.reason, c.message)
        for c in written.conditions
        if (c.type, c.status, c.reason) not in known
    }
    told = tuple(event for event in events if (event.reason, event.message) in turned)
    reason = refusal_reason(refusal).value
    old = find_condition(before, ConditionType.PROGRESSING)
    if old is not None and (old.reason, old.message) == (reason, str(refusal)):
        return told
    return (*told, ClusterEvent("Warning", reason, str(refusal)))


class _Conditions:
    """Conditions of a status, some of them replaced by failures."""

    def __init__(self, status: GridClusterStatus, generation: int, now: datetime) -> None:
        self.previous: tuple[Condition, ...] = status.conditions
        self._conditions = {c.type: c for c in status.conditions}
        self._generation = generation
        self._now = now

    def set(
        self,
        kind: ConditionType,
        reason: StrEnum,
        message: str,
        status: ConditionStatus = ConditionStatus.FALSE,
    ) -> None:
        self._conditions[kind.value] = make_condition(
            self.previous, kind, status, reason, message, self._generation, self._now
        )

    def stall(self, reason: StrEnum, message: str) -> None:
        """Say that only a person can help."""
        self._conditions.pop(ConditionType.RECONCILING, None)
        self.set(ConditionType.STALLED, reason, message, ConditionStatus.TRUE)

    def reconcile(self, reason: StrEnum, message: str) -> None:
        """Say that it will be tried again, unless only a person can help anyway."""
        stalled = self._conditions.get(ConditionType.STALLED)
        if stalled is not None and stalled.observed_generation == self._generation:
            return
        self._conditions.pop(ConditionType.STALLED, None)  # it was about a former spec
        self.set(ConditionType.RECONCILING, reason, message, ConditionStatus.TRUE)

    def status(self, base: GridClusterStatus) -> GridClusterStatus:
        return base.model_copy(
            update={
                "conditions": tuple(self._conditions.values()),
                "observed_generation": self._generation,
            }
        )
