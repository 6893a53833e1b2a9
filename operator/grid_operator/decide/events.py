"""Events on the GridCluster: told when something turns, never again while it stays.

An Event's reason is the reason of the condition that turned, the kind of an operation with what
became of it (`StopStarted`, `BackupFailed`), or one of `EventReason`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    ProgressingReason,
    ReadyReason,
    find_condition,
)
from grid_operator.api.objects import ObjectRef
from grid_operator.api.status import OperationOutcome
from grid_operator.decide.annotation_requests import REFUSED
from grid_operator.decide.children.admission import object_name, unsettled
from grid_operator.decide.children.drift import is_same_rendering
from grid_operator.decide.model import ClusterEvent
from grid_operator.decide.reports import NO_RIGHT

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import GridClusterStatus, OperationStatus
    from grid_operator.decide.plan import Plan

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
MAX_EVENT_MESSAGE_LENGTH: Final = 1024
"""The API server's own limit, in characters."""


class EventReason(StrEnum):
    """Reasons of Events that no condition and no operation has."""

    DRIFT_REVERTED = "DriftReverted"
    """Somebody edited a field that the operator owns; it is set back."""
    REPLACING_POD = "ReplacingPod"
    """A pod is deleted, to come back with the newest revision."""
    CHANGING = "Changing"
    """The configuration changes; the message says what, and whether members restart for it."""
    POD_REFUSED = "PodRefused"
    """A pod that is wanted cannot be made; the message has the words of what forbids it."""
    REQUEST_REFUSED = "RequestRefused"
    """What an annotation asks for cannot be done; the message says why."""


_TOLD_PROGRESS: Final = frozenset(
    {ProgressingReason.WAITING_FOR_SAFETY, ProgressingReason.PAUSED, ProgressingReason.DELETING}
)
_TOLD_WHEN_BAD: Final = frozenset(
    {
        ConditionType.CLUSTER_STATE_AS_DESIRED,
        ConditionType.STRUCTURES_MATCH,
        ConditionType.CHILDREN_MATCH,
        ConditionType.DEFINITION_MATCHES,
        ConditionType.REQUESTS_VALID,
    }
)
_TOLD_BY_MESSAGE: Final = frozenset({ConditionType.REQUESTS_VALID, ConditionType.CHILDREN_MATCH})
_READY_WARNINGS: Final = frozenset({ReadyReason.MEMBERS_NOT_READY})


def make_events(plan: Plan, status: GridClusterStatus) -> tuple[ClusterEvent, ...]:
    """Return what turned since the previous status, and what is being done about it now."""
    before = plan.situation.status
    events = [
        event
        for kind in ConditionType
        if (new := find_condition(status.conditions, kind)) is not None
        and (event := _turn(kind, find_condition(before.conditions, kind), new)) is not None
    ]
    return (
        *events,
        *_operations(before, status),
        *_requests(before, status),
        *_notes(plan),
        *_refusals(plan, status),
        *_written(plan),
        *_replaced(plan),
    )


def _turn(kind: ConditionType, old: Condition | None, new: Condition) -> ClusterEvent | None:
    same = old is not None and (old.status, old.reason) == (new.status, new.reason)
    # Another annotation may be wrong, or another field admitted, than the one told of.
    if same and (kind not in _TOLD_BY_MESSAGE or old is None or old.message == new.message):
        return None
    if kind is ConditionType.READY:
        return _ready_turn(old, new)
    if kind is ConditionType.CONFIG_VALID:
        return _config_turn(old, new)
    if kind in _TOLD_WHEN_BAD:
        bad = new.status is ConditionStatus.FALSE
        return _event(WARNING, new.reason, new.message) if bad else None
    told = kind is ConditionType.PROGRESSING and new.reason in _TOLD_PROGRESS
    return _event(NORMAL, new.reason, new.message) if told else None


def _ready_turn(old: Condition | None, new: Condition) -> ClusterEvent | None:
    if new.status is ConditionStatus.TRUE:
        return _event(NORMAL, new.reason, new.message)
    # A cluster that was not ready before has lost nothing.
    was_ready = old is not None and old.status is ConditionStatus.TRUE
    if not was_ready or new.reason not in _READY_WARNINGS:
        return None
    return _event(WARNING, new.reason, new.message)


def _config_turn(old: Condition | None, new: Condition) -> ClusterEvent | None:
    if new.status is ConditionStatus.FALSE:
        return _event(WARNING, new.reason, new.message)
    was_invalid = old is not None and old.status is ConditionStatus.FALSE
    return _event(NORMAL, new.reason, "the spec is valid again") if was_invalid else None


def _operations(before: GridClusterStatus, status: GridClusterStatus) -> list[ClusterEvent]:
    known = {(finished.id, finished.finished) for finished in before.last_operations}
    events = []
    for finished in reversed(status.last_operations):
        if (finished.id, finished.finished) in known:
            continue
        kind = WARNING if finished.outcome is OperationOutcome.FAILED else NORMAL
        text = f"{finished.target or finished.id}: {finished.message or 'done'}"
        events.append(_event(kind, f"{finished.kind.value}{finished.outcome.value}", text))
    if status.operation is not None and _id(before.operation) != status.operation.id:
        operation = status.operation
        cause = f"request {operation.request}" if operation.request else "the spec"
        text = f"{operation.target or operation.id}, for {cause}"
        events.append(_event(NORMAL, f"{operation.kind.value}Started", text))
    return events


def _id(operation: OperationStatus | None) -> str | None:
    return operation.id if operation is not None else None


def _requests(before: GridClusterStatus, status: GridClusterStatus) -> list[ClusterEvent]:
    known = {(handled.annotation, handled.request) for handled in before.handled_requests}
    return [
        _event(
            WARNING,
            EventReason.REQUEST_REFUSED,
            f"gridcluster.io/{handled.annotation} {handled.request}: {handled.message}",
        )
        for handled in status.handled_requests
        if handled.outcome == REFUSED and (handled.annotation, handled.request) not in known
    ]


def _notes(plan: Plan) -> list[ClusterEvent]:
    choice = plan.progress.choice
    return [_event(WARNING, *note) for note in choice.notes] if choice is not None else []


def _refusals(plan: Plan, status: GridClusterStatus) -> list[ClusterEvent]:
    """Return what Kubernetes reports of missing pods, in the round that puts it in a condition.

    Without a condition nothing would tell that it was told before. One that is full, or speaks of
    something else first, leaves reports out.
    """
    observed = plan.situation.observed
    before, now = _messages(plan.situation.status), _messages(status)
    there = {obj["metadata"]["name"] for obj in (*observed.pods, *observed.claims)}
    there |= {pod["metadata"]["name"] for pod in observed.job_pods}
    return [
        _event(WARNING, EventReason.POD_REFUSED, f"{name}: {text}")
        for name, text in observed.reports.items()
        if name not in there and text in now and text not in before and text != NO_RIGHT
    ]


def _messages(status: GridClusterStatus) -> str:
    return "\n".join(condition.message for condition in status.conditions)


def _written(plan: Plan) -> list[ClusterEvent]:
    live = {ObjectRef.of(child): child for child in plan.situation.observed.children}
    wanted = {ObjectRef.of(obj): obj for obj in plan.situation.desired.children}
    events = [
        drift_event(wanted[ref], live[ref], plan.situation.status)
        for ref in (*map(ObjectRef.of, plan.writes.apply), *plan.writes.delete)
        if ref in live and ref in wanted and is_same_rendering(wanted[ref], live[ref])
    ]
    changes = plan.situation.desired.changes
    if changes and plan.writes.apply:
        events.append(_event(NORMAL, EventReason.CHANGING, "; ".join(changes)))
    return events


def drift_event(rendered: KubeObject, live: KubeObject, status: GridClusterStatus) -> ClusterEvent:
    """Return the Event of a child that somebody changed, and that is set back now."""
    # Names of fields only: a value may be a credential.
    fields = ", ".join(difference.place for difference in unsettled(rendered, live, status))
    text = f"{object_name(rendered)}: {fields}"
    return _event(NORMAL, EventReason.DRIFT_REVERTED, text)


def _replaced(plan: Plan) -> list[ClusterEvent]:
    return [
        _event(NORMAL, EventReason.REPLACING_POD, f"pod {pod['metadata']['name']}")
        for pod in plan.delete_pods
    ]


def _event(kind: str, reason: str, message: str) -> ClusterEvent:
    return ClusterEvent(kind, str(reason), message[:MAX_EVENT_MESSAGE_LENGTH])
