"""Events on the GridCluster: told when something turns, never again while it stays.

An Event's reason is the reason of the condition that turned, or one of `EventReason`.
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
from grid_operator.decide.drift import differences, is_hand_edited
from grid_operator.decide.model import ClusterEvent

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridClusterStatus
    from grid_operator.decide.model import Observed
    from grid_operator.decide.plan import Plan

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
MAX_EVENT_MESSAGE_LENGTH: Final = 1024
"""The API server's own limit, in characters."""


class EventReason(StrEnum):
    """Reasons of Events that no condition has."""

    DRIFT_REVERTED = "DriftReverted"
    """Somebody edited a field that the operator owns; it is set back."""
    REPLACING_POD = "ReplacingPod"
    """A pod of an older revision is deleted, to come back with the newest."""


_TOLD_PROGRESS: Final = frozenset(
    {ProgressingReason.WAITING_FOR_SAFETY, ProgressingReason.PAUSED, ProgressingReason.DELETING}
)
_READY_WARNINGS: Final = frozenset({ReadyReason.MEMBERS_NOT_READY})


def make_events(
    observed: Observed, plan: Plan, status: GridClusterStatus
) -> tuple[ClusterEvent, ...]:
    """Return what turned since the previous status, and what is being done about it now."""
    before = observed.cluster.status.conditions
    events = [
        event
        for kind in ConditionType
        if (new := find_condition(status.conditions, kind)) is not None
        and (event := _turn(kind, find_condition(before, kind), new)) is not None
    ]
    return (*events, *_reverted(observed, plan), *_replaced(plan))


def _turn(kind: ConditionType, old: Condition | None, new: Condition) -> ClusterEvent | None:
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return None
    if kind is ConditionType.READY:
        return _ready_turn(old, new)
    if kind is ConditionType.CONFIG_VALID:
        return _config_turn(old, new)
    told = new.reason in _TOLD_PROGRESS
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


def _reverted(observed: Observed, plan: Plan) -> list[ClusterEvent]:
    live = {ObjectRef.of(child): child for child in observed.children}
    events = []
    for obj in plan.apply:
        current = live.get(ObjectRef.of(obj))
        if current is not None and is_hand_edited(obj, current):
            # Names of fields only: a value may be a credential.
            fields = ", ".join(differences(obj, current))
            name = f"{obj['kind']} {obj['metadata']['name']}"
            events.append(_event(NORMAL, EventReason.DRIFT_REVERTED, f"{name}: {fields}"))
    return events


def _replaced(plan: Plan) -> list[ClusterEvent]:
    return [
        _event(NORMAL, EventReason.REPLACING_POD, f"pod {pod['metadata']['name']}")
        for pod in plan.roll.delete_pods
    ]


def _event(kind: str, reason: str, message: str) -> ClusterEvent:
    return ClusterEvent(kind, str(reason), message[:MAX_EVENT_MESSAGE_LENGTH])
