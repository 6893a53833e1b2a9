"""One round of the journal: the operation under way moves on, or the next one begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import timestamp
from grid_operator.api.phase import Step
from grid_operator.api.status import (
    GIVES_UP_DATA,
    BackupStatus,
    FinishedOperation,
    GridClusterStatus,
    OperationKind,
    OperationOutcome,
)
from grid_operator.decide import annotation_requests as asked
from grid_operator.decide.operations import (
    apply_live,
    backup,
    change_state,
    recover,
    restart,
    restore,
    shrink,
    start,
    stop,
    wan_publisher,
    wan_state,
)
from grid_operator.decide.operations.choose import Choice, choose
from grid_operator.decide.operations.journal import Move, filed, finish
from grid_operator.decide.situation import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.annotation_requests import Requests
    from grid_operator.decide.situation import Situation

_STEPS: Final[Mapping[OperationKind, Callable[[Situation, OperationStatus], Move]]] = {
    OperationKind.CHANGE_STATE: change_state.step,
    OperationKind.STOP: stop.step,
    OperationKind.START: start.step,
    OperationKind.RESTART: restart.step,
    OperationKind.APPLY_LIVE: apply_live.step,
    OperationKind.PARTIAL_START: recover.step,
    OperationKind.FORCE_START: recover.step,
    OperationKind.RESTORE: restore.step,
    OperationKind.SHRINK: shrink.step,
    OperationKind.WAN_PUBLISHER: wan_publisher.step,
    OperationKind.WAN_STATE: wan_state.step,
}
_RECOVERY: Final = frozenset({Step.CALL, Step.AWAIT_READY, Step.GIVE_UP})
_KNOWN_STEPS: Final[Mapping[OperationKind, frozenset[str]]] = {
    OperationKind.CHANGE_STATE: frozenset({Step.CALL, Step.CONFIRM}),
    OperationKind.STOP: frozenset({Step.PASSIVE, Step.SHUTDOWN, Step.SCALE_DOWN}),
    OperationKind.START: frozenset({Step.SCALE_UP, Step.AWAIT_READY, Step.RESUME, Step.FINISH}),
    OperationKind.RESTART: frozenset({Step.SHUT_DOWN_MEMBER, Step.DELETE_POD, Step.AWAIT_READY}),
    OperationKind.APPLY_LIVE: frozenset(
        {Step.UPLOAD, Step.LOG_LEVEL, Step.LICENSE, Step.FINISH, Step.GIVE_UP}
    ),
    OperationKind.BACKUP: frozenset({Step.BEGIN, Step.AWAIT_FINISH, Step.INTERRUPT, Step.FINISH}),
    OperationKind.RESTORE: frozenset({Step.COPY, Step.CLEAN_UP}),
    OperationKind.SHRINK: frozenset({Step.LEAVE, Step.AWAIT_LEFT, Step.REMOVE_POD}),
    OperationKind.WAN_PUBLISHER: frozenset({Step.CALL, Step.CONFIRM}),
    OperationKind.WAN_STATE: frozenset({Step.CALL, Step.CONFIRM}),
    OperationKind.PARTIAL_START: _RECOVERY,
    OperationKind.FORCE_START: _RECOVERY,
    OperationKind.SHUT_DOWN: frozenset({Step.PASSIVE, Step.SHUTDOWN, Step.FINISH}),
}
_AWAIT_MEMBERS: Final = GIVES_UP_DATA | {
    *(OperationKind.START, OperationKind.RESTART, OperationKind.SHRINK)
}
_GIVE_WAY: Final = frozenset({Step.AWAIT_READY, Step.LEAVE, Step.AWAIT_LEFT})
"""Steps at which they wait. Who was told to leave stays when its process ends before it is off."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a round does to the journal, and what it leaves waiting."""

    status: GridClusterStatus
    """The previous status with the journal as it is now."""
    move: Move
    choice: Choice | None = None
    """What begins, or waits to begin; None: nothing was looked for."""


def operate(situation: Situation, requests: Requests, *, may_act: bool) -> Progress:
    """Return the round's part in the journal.

    Args:
        situation: The facts.
        requests: What annotations ask for.
        may_act: False while the spec cannot work; a pause is known from the facts.
    """
    operation = _with_sane_times(situation)
    if operation is not None and _is_of_former(situation):
        text = "the status is that of a former GridCluster"
        return _moved(
            situation, finish(operation, OperationOutcome.INTERRUPTED, situation.now, text)
        )
    if situation.deleted:
        return _moved(situation, stop.deletion_move(situation, operation))
    if not may_act or situation.paused:
        return Progress(situation.status, Move(operation, until=situation.pause_end))
    if operation is None:
        return _chosen(situation, requests, Move(None))
    progress = _moved(situation, _next_move(situation, requests, operation))
    if progress.status.operation is not None:
        return progress
    # What comes next begins in the same write, so that nobody sees the cluster at rest between.
    after = situation.with_status(progress.status)
    left = {n: i for n, i in requests.ids.items() if not asked.was_handled(progress.status, n, i)}
    return _chosen(after, replace(requests, ids=left), progress.move)


def _is_of_former(situation: Situation) -> bool:
    """Return whether somebody gave this object the status of another, its journal with it."""
    known = situation.status.observed_uid
    return known is not None and known != situation.cluster.metadata.uid


def _next_move(situation: Situation, requests: Requests, operation: OperationStatus) -> Move:
    if operation.step not in _KNOWN_STEPS[operation.kind]:
        text = f"this operator knows no step {operation.step} of {operation.kind.value}"
        return finish(operation, OperationOutcome.FAILED, situation.now, text)
    reason = _interruption(situation, requests, operation)
    if reason:
        return finish(operation, OperationOutcome.INTERRUPTED, situation.now, reason)
    if operation.kind is OperationKind.BACKUP:
        return _backup_move(situation, requests, operation)
    if operation.kind is OperationKind.SHUT_DOWN:
        text = "the GridCluster is not being deleted any more"
        return finish(operation, OperationOutcome.INTERRUPTED, situation.now, text)
    return _STEPS[operation.kind](situation, operation)


def _backup_move(situation: Situation, requests: Requests, operation: OperationStatus) -> Move:
    request = requests.ids.get(asked.BACKUP_INTERRUPT)
    waits = operation.step in (Step.BEGIN, Step.AWAIT_FINISH)
    interrupt = request is not None and waits
    move = backup.step(situation, operation, interrupt=interrupt)
    if request is None or not interrupt:
        return move
    handled = asked.with_handled(situation.status, asked.BACKUP_INTERRUPT, request, asked.ACCEPTED)
    return replace(move, changes={**move.changes, "handled_requests": handled})


def _interruption(
    situation: Situation, requests: Requests, operation: OperationStatus
) -> str | None:
    """Return why an operation that waits for members is ended before they are ready."""
    if operation.kind not in _AWAIT_MEMBERS or operation.step in (Step.FINISH, Step.REMOVE_POD):
        return None
    awaits = operation.step in _GIVE_WAY
    if situation.stop_wanted:
        untold = operation.kind not in GIVES_UP_DATA and operation.attempts == 0
        if awaits or operation.kind is OperationKind.START or untold:
            return "spec.runState is Stopped"
    asks = [name for name in (asked.PARTIAL_START, asked.FORCE_START) if name in requests.ids]
    if awaits and asks and situation.waiting_for_data() is not None:
        # Of several it is refused when some serve; it must not wait for when nobody expects it.
        return f"gridcluster.io/{asks[0]} is carried out or refused first"
    return None


def _moved(situation: Situation, move: Move) -> Progress:
    status = situation.status.model_copy(update={**move.changes, "operation": move.operation})
    if move.finished is not None:
        status = _with_finished(status, move.finished)
    return Progress(status, move)


def _chosen(situation: Situation, requests: Requests, move: Move) -> Progress:
    choice = choose(situation, requests)
    return Progress(choice.status, move, choice)


def _with_finished(status: GridClusterStatus, finished: FinishedOperation) -> GridClusterStatus:
    changed = {
        "last_operations": filed(status.last_operations, finished),
        "handled_requests": asked.after_finish(status, finished),
    }
    if finished.kind is OperationKind.BACKUP:
        good = finished.outcome is OperationOutcome.SUCCEEDED
        field = "last_successful_time" if good else "last_failed_time"
        known = status.backup or BackupStatus()
        return status.model_copy(
            update={**changed, "backup": known.model_copy(update={field: finished.finished})}
        )
    return status.model_copy(update=changed)


def _with_sane_times(situation: Situation) -> OperationStatus | None:
    """Return the operation; what began later than now began now: the clock was set back."""
    operation, now = situation.operation, situation.now
    if operation is None:
        return None
    times = {"started": operation.started, "step_started": operation.step_started}
    ahead = {name for name, text in times.items() if (moment(text) or now) > now}
    return operation.model_copy(update=dict.fromkeys(ahead, timestamp(now))) if ahead else operation


def next_look(progress: Progress) -> datetime | None:
    """Return when the journal wants to be looked at again, None: at the usual time."""
    moments = [progress.move.until] if progress.move.until is not None else []
    if progress.choice is not None:
        moments += progress.choice.until
    return min(moments, default=None)
