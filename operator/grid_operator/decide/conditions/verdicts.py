"""The conditions that every GridCluster has: status, reason and message of each."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_operator.api.conditions import (
    ConditionStatus,
    ConfigValidReason,
    ProgressingReason,
    ReadyReason,
    RequestsReason,
    RestoredReason,
    SafeToDisruptReason,
    StoppedReason,
)
from grid_operator.api.names import SHUTDOWN_FINALIZER
from grid_operator.api.phase import is_restoring, wanted_replicas
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.annotation_requests import was_handled
from grid_operator.decide.children.departure import former, going, is_overdue
from grid_operator.decide.operations.restore import source_text
from grid_operator.decide.pods import pod_name
from grid_operator.decide.roll import disruption_obstacle

if TYPE_CHECKING:
    from grid_operator.api.status import GridClusterStatus, OperationStatus
    from grid_operator.decide.plan import Plan
    from grid_operator.decide.situation import Situation

TRUE: Final = ConditionStatus.TRUE
FALSE: Final = ConditionStatus.FALSE
CONDITION_UNKNOWN: Final = ConditionStatus.UNKNOWN

Verdict: TypeAlias = tuple[ConditionStatus, StrEnum, str]
"""Status, reason and message of one condition."""


def ready(plan: Plan) -> Verdict:
    """Return whether every wanted member can be used as the spec says."""
    situation = plan.situation
    name = situation.cluster.metadata.name
    if situation.deleted:
        return FALSE, ReadyReason.DELETING, f"GridCluster {name} is being deleted"
    if plan.problem is not None:
        text = f"the spec cannot work, members keep what they run: {plan.problem.message}"
        lacks = situation.member_problems() if situation.pods else []
        text = f"{text}; and {'; '.join(lacks)}" if lacks else text
        return FALSE, ReadyReason.CONFIG_INVALID, text
    absent = _absent(plan)
    if absent is not None:
        return absent
    problems = situation.member_problems()
    if problems:
        return FALSE, ReadyReason.MEMBERS_NOT_READY, "; ".join(problems)
    if situation.roll.outdated:
        text = f"running an older revision: {', '.join(situation.roll.outdated)}"
        return FALSE, ReadyReason.MEMBERS_OUTDATED, text
    size = situation.spec.size
    return TRUE, ReadyReason.ALL_MEMBERS_READY, f"{size} of {size} members are ready"


def _absent(plan: Plan) -> Verdict | None:
    """Return why there are no members, None when there should be."""
    status = plan.progress.status
    cluster = plan.situation.cluster.model_copy(update={"status": status})
    if is_restoring(cluster):
        failure = restore_failure(status)
        if failure is not None:
            return FALSE, ReadyReason.RESTORE_FAILED, failure
        text = f"spec.restoreFrom: the data of {source_text(cluster.spec)} comes first"
        return FALSE, ReadyReason.RESTORING, text
    if wanted_replicas(cluster) == 0:
        asked = "Stopped" if plan.situation.stop_wanted else "Running, and the stop ends first"
        return FALSE, ReadyReason.STOPPED, f"no member is wanted: spec.runState is {asked}"
    return None


def restore_failure(status: GridClusterStatus) -> str | None:
    """Return why the newest restore failed, None when none did or one is under way."""
    if status.operation is not None:
        return None
    newest = next((f for f in status.last_operations if f.kind is OperationKind.RESTORE), None)
    failed = newest is not None and newest.outcome is OperationOutcome.FAILED
    return f"spec.restoreFrom: {newest.message}" if failed and newest is not None else None


def progressing(plan: Plan) -> Verdict:
    """Return what is being done or waited for."""
    held = _held(plan)
    if held is not None:
        return held
    progress, situation = plan.progress, plan.situation
    operation = progress.status.operation
    if operation is not None:
        same = progress.move.operation is not None
        text = operation_text(operation, progress.move.waiting if same else "begins")
        return TRUE, operation.kind, text
    if situation.deleted:
        text = progress.move.waiting or "Kubernetes removes the children"
        return TRUE, ProgressingReason.DELETING, "; ".join((text, *_holders(situation)))
    if plan.pending:
        return TRUE, ProgressingReason.APPLYING, _applying_text(plan)
    choice = progress.choice
    if choice is not None and choice.reason is not None:
        return TRUE, choice.reason, choice.waiting
    return _awaited_members(plan)


def _holders(situation: Situation) -> list[str]:
    """Return what holds a GridCluster that is being deleted, or an object that goes with it."""
    observed, meta = situation.observed, situation.cluster.metadata
    held = [
        f"{obj['kind']} {obj['metadata']['name']} {going(obj, situation.now)}"
        for obj in (*observed.children, *observed.pods, *observed.job_pods)
        if former(obj) or is_overdue(obj, situation.now)
    ]
    others = ", ".join(name for name in meta.finalizers if name != SHUTDOWN_FINALIZER)
    if others:
        text = f"GridCluster {meta.name} is being deleted since {meta.deletion_timestamp}"
        held.append(f"{text}, and its finalizer {others} holds it")
    return held


def _held(plan: Plan) -> Verdict | None:
    """Return what holds everything up, None when nothing does."""
    situation = plan.situation
    operation = plan.progress.status.operation
    status = FALSE if operation is None else TRUE
    if situation.deleted:
        return None
    if plan.problem is not None:
        text = f"nothing is applied: {plan.problem.message}"
        return status, ProgressingReason.BLOCKED, text + _held_text(operation)
    if situation.paused:
        text = _pause_text(plan) + _held_text(operation)
        return status, ProgressingReason.PAUSED, text
    return None


def _held_text(operation: OperationStatus | None) -> str:
    if operation is None:
        return ""
    return f"; {operation.kind.value} stays at {operation_text(operation, '')}"


def _pause_text(plan: Plan) -> str:
    spec = plan.situation.spec
    text = "spec.paused is true" if spec.paused else f"spec.pausedUntil is {spec.paused_until}"
    return f"{text}; not applied: {', '.join(plan.pending)}" if plan.pending else text


def _applying_text(plan: Plan) -> str:
    changes = plan.situation.desired.changes
    text = ", ".join(plan.pending)
    return f"{text} ({'; '.join(changes)})" if changes else text


def _awaited_members(plan: Plan) -> Verdict:
    situation = plan.situation
    cluster = situation.cluster.model_copy(update={"status": plan.progress.status})
    if wanted_replicas(cluster) == 0:
        there = "; ".join(f"{pod_name(p)} {situation.presence(p)}" for p in situation.pods)
        if there:
            text = f"until the pods are gone: {there}"
            return TRUE, ProgressingReason.WAITING_FOR_MEMBERS, text
        return FALSE, ProgressingReason.UP_TO_DATE, "stopped, as spec.runState says"
    if situation.roll.reason is not None:
        return TRUE, situation.roll.reason, situation.roll.waiting
    problems = situation.member_problems()
    if problems:
        return TRUE, ProgressingReason.WAITING_FOR_MEMBERS, "; ".join(problems)
    return FALSE, ProgressingReason.UP_TO_DATE, f"{cluster.metadata.name} is as its spec says"


def operation_text(operation: OperationStatus, waiting: str) -> str:
    """Return what an operation does now, and why it does not get on if it does not."""
    parts = [f"{operation.step} {operation.target}".rstrip()]
    if waiting:
        parts[0] = f"{parts[0]}: {waiting}"
    if operation.attempts > 1:
        parts.append(f"attempt {operation.attempts}")
    if operation.last_error:
        parts.append(f"before: {operation.last_error}")
    return "; ".join(parts)


def config_valid(plan: Plan) -> Verdict:
    """Return whether the spec can work."""
    if plan.problem is not None:
        return FALSE, plan.problem.reason, plan.problem.message
    return TRUE, ConfigValidReason.VALID, ""


def safe_to_disrupt(plan: Plan) -> Verdict:
    """Return whether a member may be taken away now."""
    obstacle = disruption_obstacle(plan.situation.observed)
    if obstacle is not None:
        return FALSE, SafeToDisruptReason.UNSAFE, obstacle
    return TRUE, SafeToDisruptReason.SAFE, ""


def stopped(plan: Plan) -> Verdict:
    """Return whether `spec.runState: Stopped` is reached."""
    status, situation = plan.progress.status, plan.situation
    names = ", ".join(map(pod_name, situation.pods))
    if status.stopped and not names:
        return TRUE, StoppedReason.STOPPED, "there are no pods; what is on disk is kept"
    if status.stopped or situation.stop_wanted:
        text = f"spec.runState is Stopped; still there: {names or 'nothing but the journal'}"
        return FALSE, StoppedReason.STOPPING, text
    return FALSE, StoppedReason.RUNNING, "spec.runState is Running"


def requests_valid(plan: Plan) -> Verdict:
    """Return whether every request annotation asks for something that can be done."""
    problems = plan.requests.problems
    if problems:
        return FALSE, RequestsReason.INVALID_REQUEST, "; ".join(problems)
    choice = plan.progress.choice
    pending = choice.pending if choice is not None else _pending_behind(plan)
    waits = (f"gridcluster.io/{name} {text}" for name, text in sorted(pending.items()))
    return TRUE, RequestsReason.VALID, "; ".join(waits)


def _pending_behind(plan: Plan) -> dict[str, str]:
    """Return the requests that wait while nothing else is looked for, and what for."""
    status, situation = plan.progress.status, plan.situation
    operation = status.operation
    if situation.deleted:
        return {}
    if plan.problem is not None:
        text = "until the spec can work"
    elif situation.paused:
        text = "until the pause is over"
    else:
        text = f"until {operation.kind.value} has ended" if operation is not None else ""
    left = plan.requests.ids.items()
    asks = ((name, request) for name, request in left if not was_handled(status, name, request))
    return {name: f"{request} waits {text}" for name, request in asks}


def restored(plan: Plan) -> Verdict | None:
    """Return whether the data came from the backup, None when it does not have to."""
    spec, status = plan.situation.spec, plan.progress.status
    if spec.restore_from is None:
        return None
    if status.importing:
        text = f"spec.restoreFrom: the members import {status.restored_from} before any serves"
        return FALSE, RestoredReason.RESTORING, text
    if status.restored_from is not None:
        return TRUE, RestoredReason.RESTORED, status.restored_from
    failure = restore_failure(status)
    if failure is not None:
        return FALSE, RestoredReason.RESTORE_FAILED, failure
    return FALSE, RestoredReason.RESTORING, f"spec.restoreFrom: {source_text(spec)}"
