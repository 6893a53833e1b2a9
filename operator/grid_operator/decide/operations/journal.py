"""The journal: one entry in the status, written before anything of it is done.

    begin ──▶ step: attempt ──▶ call ──▶ record_outcome ──▶ next step … ──▶ finish

A decision has effects only for the step that the API server holds already. Every attempt of a step
has the same Idempotency-Key, so that whatever was cut off is asked for again, and done once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.conditions import timestamp
from grid_operator.api.phase import Step
from grid_operator.api.status import (
    GIVES_UP_DATA,
    MAX_LAST_OPERATIONS,
    MAX_STATUS_TEXT_LENGTH,
    FinishedOperation,
    GridClusterStatus,
    OperationKind,
    OperationOutcome,
    OperationStatus,
)
from grid_operator.decide.calls import CallDone, CallRefused, CallUnknown, Endpoint, MemberCall
from grid_operator.decide.situation import moment, since

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.calls import CallOutcome
    from grid_operator.decide.situation import Situation

ID_DIGITS: Final = 8
FIRST_BACKOFF_S: Final = 2.0
MAX_BACKOFF_S: Final = 60.0
MAX_DOUBLINGS: Final = 5
"""2, 4, 8, 16, 32, 60 seconds."""
MAX_TARGET_LENGTH: Final = 253

_AFTER_DONE: Final[Mapping[tuple[OperationKind, str], Step]] = {
    (OperationKind.CHANGE_STATE, Step.CALL): Step.CONFIRM,
    (OperationKind.STOP, Step.PASSIVE): Step.SHUTDOWN,
    (OperationKind.STOP, Step.SHUTDOWN): Step.SCALE_DOWN,
    (OperationKind.START, Step.RESUME): Step.FINISH,
    (OperationKind.RESTART, Step.SHUT_DOWN_MEMBER): Step.DELETE_POD,
    (OperationKind.SHRINK, Step.LEAVE): Step.AWAIT_LEFT,
    (OperationKind.APPLY_LIVE, Step.UPLOAD): Step.LOG_LEVEL,
    (OperationKind.APPLY_LIVE, Step.LOG_LEVEL): Step.LICENSE,
    (OperationKind.APPLY_LIVE, Step.LICENSE): Step.FINISH,
    (OperationKind.BACKUP, Step.BEGIN): Step.AWAIT_FINISH,
    (OperationKind.BACKUP, Step.INTERRUPT): Step.FINISH,
    (OperationKind.PARTIAL_START, Step.CALL): Step.AWAIT_READY,
    (OperationKind.FORCE_START, Step.CALL): Step.AWAIT_READY,
    (OperationKind.WAN_PUBLISHER, Step.CALL): Step.CONFIRM,
    (OperationKind.WAN_STATE, Step.CALL): Step.CONFIRM,
    (OperationKind.SHUT_DOWN, Step.PASSIVE): Step.SHUTDOWN,
    (OperationKind.SHUT_DOWN, Step.SHUTDOWN): Step.FINISH,
}
"""Where a step leads when the member has done what it was told."""
_OF_ONE_POD: Final = frozenset(
    {OperationKind.RESTART, OperationKind.SHRINK, OperationKind.WAN_STATE}
)
"""What one pod was told is nothing that its successor was told."""
_FINAL_REFUSALS: Final = frozenset(
    {Endpoint.PARTIAL_START, Endpoint.FORCE_START, Endpoint.CONFIG_UPLOAD, Endpoint.LICENSE}
)
"""Asking again would be answered the same."""
_WAITS_FOR_OTHERS: Final = frozenset({Endpoint.CONFIG_UPLOAD, Endpoint.LICENSE})
"""But of these a conflict: another change of the cluster was under way."""


@dataclass(frozen=True, slots=True)
class Move:
    """What one round does to the journal, and the effect that the journal allows it."""

    operation: OperationStatus | None
    """As it is written now."""
    waiting: str = ""
    """For whom or for what, in words."""
    until: datetime | None = None
    """When to look again because of it; None: the usual time."""
    call: MemberCall | None = None
    delete_pod: KubeObject | None = None
    finished: FinishedOperation | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the status, by name."""
    release: bool = False
    """The finalizer may go."""


def operation_id(
    situation: Situation, kind: OperationKind, target: str, request: str, digest: str = ""
) -> str:
    """Return the id: the same for the same request, and another for each time the spec asks."""
    meta = situation.cluster.metadata
    taken = {finished.id for finished in situation.status.last_operations}
    cause = request or f"{meta.generation} {timestamp(situation.now)} {target} {digest}"
    text = f"{meta.uid} {kind.value} {cause}"
    found = _hashed(kind, text)
    while found in taken and not request:
        # Two within one second, or the clock was set back: another key for another operation.
        text += "+"
        found = _hashed(kind, text)
    return found


def begin(
    situation: Situation,
    kind: OperationKind,
    step: Step,
    *,
    target: str = "",
    target_uid: str = "",
    request: str = "",
    digest: str = "",
) -> OperationStatus:
    """Return a new entry. Nothing of it may be done in the round that writes it first."""
    time = timestamp(situation.now)
    return OperationStatus(
        id=operation_id(situation, kind, target, request, digest),
        kind=kind,
        step=step.value,
        target=target[:MAX_TARGET_LENGTH],
        target_uid=target_uid,
        digest=digest,
        request=request,
        started=time,
        step_started=time,
    )


def advance(operation: OperationStatus, step: Step, now: datetime, **changes: str) -> Move:
    """Return the move to another step."""
    return Move(_entered(operation, step, now, changes), until=now)


def wait(operation: OperationStatus, waiting: str, until: datetime | None = None) -> Move:
    """Return the move that leaves everything as it is, and says what is waited for."""
    return Move(operation, waiting=waiting, until=until)


def attempt(
    situation: Situation,
    operation: OperationStatus,
    pod: KubeObject,
    endpoint: Endpoint,
    parameter: str | None = None,
    *,
    forever: bool = False,
) -> Move:
    """Return the call of this step, or the wait for the time of its next attempt."""
    name = pod["metadata"]["name"]
    due = next_attempt(operation, situation.now)
    if due is not None:
        return wait(operation, f"{name} is told again soon", due)
    key = f"{operation.id}.{operation.step}"
    if operation.kind in _OF_ONE_POD:
        key = f"{key}.{pod['metadata']['uid']}"
    counted = operation.model_copy(
        update={"attempts": operation.attempts + 1, "last_attempt": timestamp(situation.now)}
    )
    call = MemberCall(pod, endpoint, key, parameter, forever=forever)
    return Move(counted, waiting=f"{name} is told", until=situation.now, call=call)


def next_attempt(operation: OperationStatus, now: datetime) -> datetime | None:
    """Return when the step may be tried again, None: now."""
    last = moment(operation.last_attempt)
    if operation.attempts == 0 or last is None or last > now:
        return None
    doublings = min(operation.attempts - 1, MAX_DOUBLINGS)
    due = last + timedelta(seconds=min(FIRST_BACKOFF_S * 2**doublings, MAX_BACKOFF_S))
    return due if due > now else None


def is_over(operation: OperationStatus, limit_s: float, now: datetime) -> bool:
    """Return whether the present step has had its time."""
    return since(operation.step_started, now) >= timedelta(seconds=limit_s)


def tell(
    situation: Situation,
    operation: OperationStatus,
    endpoint: Endpoint,
    parameter: str | None,
    limit_s: float,
) -> Move | None:
    """Return the move that tells one joined member; None when the step has had its time.

    After a pause, or a time without an operator, there is one attempt however late it is.
    """
    joined = situation.joined()
    over = is_over(operation, limit_s, situation.now)
    if over and (operation.attempts > 0 or not joined):
        return None
    end = step_end(operation, limit_s)
    if not joined:
        return wait(operation, f"no member can be told: {situation.no_member_text()}", end)
    move = attempt(situation, operation, joined[0][0], endpoint, parameter)
    if move.call is None and end is not None and move.until is not None:
        return replace(move, until=min(move.until, end))
    return move


def step_end(operation: OperationStatus, limit_s: float) -> datetime | None:
    """Return when the present step has had its time."""
    started = moment(operation.step_started)
    return started + timedelta(seconds=limit_s) if started is not None else None


def finish(
    operation: OperationStatus,
    outcome: OperationOutcome,
    now: datetime,
    message: str = "",
    **changes: Any,
) -> Move:
    """Return the move that takes the entry out of the journal into what was done."""
    finished = FinishedOperation(
        id=operation.id,
        kind=operation.kind,
        target=operation.target,
        request=operation.request,
        outcome=outcome,
        message=message[:MAX_STATUS_TEXT_LENGTH],
        started=operation.started,
        finished=timestamp(now),
    )
    return Move(None, finished=finished, changes=changes, until=now)


def filed(
    known: tuple[FinishedOperation, ...], finished: FinishedOperation
) -> tuple[FinishedOperation, ...]:
    """Return what was done, the newest first, each id once.

    Of what the spec asks for and what fails every minute only the last failure is kept: it would
    push everything else out. What gave up data stays longest: its request must never come true a
    second time, whatever was asked for and done since.
    """
    others = tuple(one for one in known if one.id != finished.id and not _repeats(finished, one))
    kept = [finished, *others]
    while len(kept) > MAX_LAST_OPERATIONS:
        dropped = next((one for one in reversed(kept) if one.kind not in GIVES_UP_DATA), kept[-1])
        kept.remove(dropped)
    return tuple(kept)


def _repeats(finished: FinishedOperation, before: FinishedOperation) -> bool:
    failed = {finished.outcome, before.outcome} == {OperationOutcome.FAILED}
    same = (finished.kind, finished.target) == (before.kind, before.target)
    return failed and same and not finished.request and not before.request


def record_outcome(
    status: GridClusterStatus, call: MemberCall, outcome: CallOutcome, now: datetime
) -> GridClusterStatus:
    """Return the status, the one that held the call's intent, with what became of the call."""
    operation = status.operation
    if operation is None or not f"{call.key}.".startswith(f"{operation.id}.{operation.step}."):
        return status
    if isinstance(outcome, CallDone):
        step = _AFTER_DONE[operation.kind, operation.step]
        changed = _entered(operation, step, now, _begun(call, outcome))
    else:
        changed = _failed(operation, call, outcome, now)
    return status.model_copy(update={"operation": changed})


def _begun(call: MemberCall, outcome: CallDone) -> dict[str, str]:
    """Return where the journal keeps the id of the long operation that the call began."""
    if call.endpoint is Endpoint.BACKUP:
        return {"target": outcome.operation}
    return {"member_operation": outcome.operation} if call.forever else {}


def _failed(
    operation: OperationStatus, call: MemberCall, outcome: CallRefused | CallUnknown, now: datetime
) -> OperationStatus:
    error = f"{call.pod['metadata']['name']}: {outcome.message}"[:MAX_STATUS_TEXT_LENGTH]
    if isinstance(outcome, CallRefused) and _is_final(call.endpoint, outcome):
        return _entered(operation, Step.GIVE_UP, now, {"last_error": error})
    stops = call.endpoint is Endpoint.MEMBER_SHUTDOWN and not call.forever
    if isinstance(outcome, CallUnknown) and stops:
        # It may be stopping already, and the end of its pod stops it as gently.
        return _entered(operation, Step.DELETE_POD, now, {"last_error": error})
    return operation.model_copy(update={"last_error": error})


def _is_final(endpoint: Endpoint, refusal: CallRefused) -> bool:
    waits = refusal.conflict and endpoint in _WAITS_FOR_OTHERS
    return endpoint in _FINAL_REFUSALS and not waits


def _entered(
    operation: OperationStatus, step: Step, now: datetime, changes: Mapping[str, str]
) -> OperationStatus:
    fresh = {"attempts": 0, "last_attempt": None, "last_error": ""}
    entry = {**fresh, "step": step.value, "step_started": timestamp(now), **changes}
    return operation.model_copy(update=entry)


def _hashed(kind: OperationKind, text: str) -> str:
    return f"{kind.value.lower()}-{hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]}"
