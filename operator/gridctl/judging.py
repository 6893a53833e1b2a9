"""Whether what a command asked for has come about, told by the cluster's status alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from grid_operator.api.conditions import (
    ConditionStatus,
    ConditionType,
    ReadyReason,
    find_condition,
)
from grid_operator.api.names import GROUP
from grid_operator.api.status import GridClusterStatus, OperationKind, OperationOutcome
from gridctl.waiting import Ended, Verdict, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject

ACCEPTED: Final = "Accepted"
HOPELESS: Final = frozenset({ReadyReason.RESTORE_FAILED.value, "ApiRefused", "NameTaken"})
"""Reasons that somebody has to do something about first."""


class StatusError(Exception):
    """A status that this version does not understand; the message names the field."""


def status_of(cluster: KubeObject) -> GridClusterStatus:
    """Return the typed status; fields that this version does not know are left out.

    Raises:
        StatusError: A field that it knows holds something else than it knows.
    """
    try:
        return GridClusterStatus.model_validate(cluster.get("status") or {}, strict=False)
    except ValidationError as error:
        fields = {".".join(map(str, ("status", *e["loc"]))) for e in error.errors()}
        raise StatusError(
            f"{', '.join(sorted(fields))}: not understood; was it written by a newer operator? "
            "Use the gridctl of its version"
        ) from error


def pause_text(cluster: KubeObject, now: datetime) -> str | None:
    """Return why the operator only looks, None when it acts."""
    spec: dict[str, Any] = cluster.get("spec") or {}
    if spec.get("paused") is True:
        return "spec.paused is true: the operator changes nothing until it is false"
    until = _moment(spec.get("pausedUntil"))
    if until is not None and until > now:
        return f"spec.pausedUntil is {spec['pausedUntil']}: the operator changes nothing until then"
    return None


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def activity(cluster: KubeObject) -> str:
    """Return in one line what the operator does, or waits for."""
    status = status_of(cluster)
    operation = status.operation
    progressing = find_condition(status.conditions, ConditionType.PROGRESSING)
    message = progressing.message if progressing is not None else ""
    if operation is None:
        return message or "the operator has not begun"
    if progressing is not None and progressing.reason == operation.kind:
        return f"{operation.kind.value}: {message}"  # it names the step and whom it waits for
    tries = f", attempt {operation.attempts}" if operation.attempts > 1 else ""
    why = operation.last_error or message
    return f"{operation.kind.value}, step {operation.step}{tries}" + (f": {why}" if why else "")


@dataclass(frozen=True, slots=True)
class RequestJudge:
    """Follows one request of one annotation to its end."""

    annotation: str
    """Name after `gridcluster.io/`."""
    request: str
    now: Callable[[], datetime]

    def __call__(self, cluster: KubeObject) -> Verdict:
        """Return how far it is."""
        status = status_of(cluster)
        for done in status.last_operations:
            if done.request == self.request:
                return _ended(done.kind, done.outcome, done.message)
        if status.operation is not None and status.operation.request == self.request:
            return self._going_on(cluster)
        refused = self._refused(status)
        if refused is not None:
            return refused
        annotations = cluster["metadata"].get("annotations") or {}
        value = str(annotations.get(f"{GROUP}/{self.annotation}", ""))
        if value.split(",")[0].strip() != self.request:
            return Ended(False, f"another {self.annotation} request took its place")
        return self._going_on(cluster)

    def _refused(self, status: GridClusterStatus) -> Ended | None:
        for handled in status.handled_requests:
            if (handled.annotation, handled.request) == (self.annotation, self.request):
                if handled.outcome == ACCEPTED:
                    return None
                succeeded = handled.outcome == OperationOutcome.SUCCEEDED
                return Ended(succeeded, handled.message or handled.outcome)
        valid = find_condition(status.conditions, ConditionType.REQUESTS_VALID)
        if valid is None or valid.status is not ConditionStatus.FALSE:
            return None
        named = f"{GROUP}/{self.annotation}" in valid.message and self.request in valid.message
        return Ended(False, valid.message) if named else None

    def _going_on(self, cluster: KubeObject) -> Verdict:
        paused = pause_text(cluster, self.now())
        return Ended(False, paused) if paused is not None else Waiting(activity(cluster))


@dataclass(frozen=True, slots=True)
class SpecJudge:
    """Follows a change of the spec until the cluster is as it says."""

    generation: int
    kinds: frozenset[OperationKind]
    """Operations that bring it about; when a new one of them fails, that is the end."""
    known: frozenset[str]
    """Ids of operations that had ended before the change."""
    reached: Callable[[GridClusterStatus], bool]
    done: str
    """What to say then."""
    now: Callable[[], datetime]

    def __call__(self, cluster: KubeObject) -> Verdict:
        """Return how far it is."""
        status = status_of(cluster)
        seen = (status.observed_generation or 0) >= self.generation
        if seen and status.operation is None and self.reached(status):
            return Ended(True, self.done)
        paused = pause_text(cluster, self.now())
        if paused is not None:
            return Ended(False, f"the spec is changed, but {paused}")
        if not seen:
            return Waiting("the operator has not seen the change yet")
        for found in status.conditions:
            invalid = found.type == ConditionType.CONFIG_VALID
            if found.status is ConditionStatus.FALSE and (invalid or found.reason in HOPELESS):
                return Ended(False, f"{found.reason}: {found.message}")
        for over in status.last_operations:
            failed = over.outcome is not OperationOutcome.SUCCEEDED
            if failed and over.kind in self.kinds and over.id not in self.known:
                return _ended(over.kind, over.outcome, over.message)
        return Waiting(activity(cluster))


def is_ready(status: GridClusterStatus) -> bool:
    """Return whether the Ready condition is True."""
    ready = find_condition(status.conditions, ConditionType.READY)
    return ready is not None and ready.status is ConditionStatus.TRUE


def _ended(kind: OperationKind, outcome: OperationOutcome, message: str) -> Ended:
    succeeded = outcome is OperationOutcome.SUCCEEDED
    text = f"{kind.value} {outcome.value.lower()}"
    return Ended(succeeded, f"{text}: {message}" if message else text)
