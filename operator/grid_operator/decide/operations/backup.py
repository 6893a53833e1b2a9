"""Backup: one backup, from the call that begins it to its end in the member's own list.

Begin ──▶ AwaitFinish ──▶ finished
  └──────────┴──▶ Interrupt ──▶ Finish ──▶ finished

The member's id of it is the journal's target from AwaitFinish on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.model import MemberProblem
from grid_operator.decide.operations.journal import (
    Move,
    advance,
    begin,
    finish,
    is_over,
    step_end,
    tell,
    wait,
)

if TYPE_CHECKING:
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.model import MemberOperation
    from grid_operator.decide.situation import Situation

BEGIN_LIMIT_S: Final = 3600.0
"""Another backup, that somebody else began, may have to end first."""
FINISH_LIMIT_S: Final = 6 * 3600.0
"""For a member that does not answer while it makes the backup."""
INTERRUPT_LIMIT_S: Final = 60.0
FINISHED: Final = "FINISHED"
FAILED: Final = "FAILED"


def wanted(situation: Situation, request: str) -> OperationStatus | None:
    """Return the backup for a request or a scheduled time, None while nobody can make it."""
    if not situation.joined():
        return None
    return begin(situation, OperationKind.BACKUP, Step.BEGIN, request=request)


def step(situation: Situation, operation: OperationStatus, *, interrupt: bool) -> Move:
    """Return the next move; `interrupt`: somebody wants the backup to be given up."""
    if operation.step == Step.FINISH:
        return _interrupted(situation, operation)
    if operation.step == Step.INTERRUPT:
        return _interrupt(situation, operation)
    if interrupt:
        return _turn(situation, operation)
    if operation.step == Step.BEGIN:
        return _begin(situation, operation)
    return _await_finish(situation, operation)


def _turn(situation: Situation, operation: OperationStatus) -> Move:
    if operation.step == Step.BEGIN and operation.attempts == 0:
        return finish(operation, OperationOutcome.INTERRUPTED, situation.now, "before it began")
    return advance(operation, Step.INTERRUPT, situation.now)


def _begin(situation: Situation, operation: OperationStatus) -> Move:
    if situation.stop_wanted and operation.attempts == 0:
        text = "spec.runState is Stopped"
        return finish(operation, OperationOutcome.INTERRUPTED, situation.now, text)
    move = tell(situation, operation, Endpoint.BACKUP, None, BEGIN_LIMIT_S)
    if move is not None:
        return move
    reason = operation.last_error or situation.no_member_text()
    return finish(operation, OperationOutcome.FAILED, situation.now, reason)


def _await_finish(situation: Situation, operation: OperationStatus) -> Move:
    now = situation.now
    joined = situation.joined()
    if not joined:
        gone = _is_gone(situation)
        if gone or is_over(operation, FINISH_LIMIT_S, now):
            text = f"the member did not stay until its end: {situation.no_member_text()}"
            return finish(operation, OperationOutcome.FAILED, now, text)
        text = f"until a member answers: {situation.no_member_text()}"
        return wait(operation, text, step_end(operation, FINISH_LIMIT_S))
    name = joined[0][0]["metadata"]["name"]
    found = find_backup(situation, operation)
    unheard = len(joined) < len(situation.pods)
    if found is None and unheard and not is_over(operation, FINISH_LIMIT_S, now):
        text = f"until a member answers that knows it: {situation.no_member_text()}"
        return wait(operation, text, step_end(operation, FINISH_LIMIT_S))
    if found is None:
        text = f"{name} does not know it: the member stopped before its end, or forgot it"
        return finish(operation, OperationOutcome.FAILED, now, text)
    if found.stage == FINISHED:
        return finish(operation, OperationOutcome.SUCCEEDED, now)
    if found.stage == FAILED:
        return finish(operation, OperationOutcome.FAILED, now, f"{name}: {found.error}")
    stop = "; spec.runState Stopped waits for it: the annotation gridcluster.io/backup-interrupt "
    stop = f"{stop}ends it" if situation.stop_wanted else ""
    return wait(operation, f"{name} says {found.stage}, {found.progress} %{stop}")


def _interrupt(situation: Situation, operation: OperationStatus) -> Move:
    if operation.target and situation.joined() and not _is_running(situation, operation):
        # Nobody is told: what runs now, if anything, is somebody else's backup.
        after = _interrupted if operation.attempts > 0 else _await_finish
        return after(situation, operation)
    move = tell(situation, operation, Endpoint.BACKUP_INTERRUPT, None, INTERRUPT_LIMIT_S)
    if move is not None:
        return move
    reason = operation.last_error or situation.no_member_text()
    return finish(operation, OperationOutcome.FAILED, situation.now, f"not interrupted: {reason}")


def _is_running(situation: Situation, operation: OperationStatus) -> bool:
    found = find_backup(situation, operation)
    return found is not None and found.stage not in (FINISHED, FAILED)


def _interrupted(situation: Situation, operation: OperationStatus) -> Move:
    found = find_backup(situation, operation)
    if found is not None and found.stage == FINISHED:
        return finish(operation, OperationOutcome.SUCCEEDED, situation.now)
    return finish(operation, OperationOutcome.INTERRUPTED, situation.now, "on request")


def find_backup(situation: Situation, operation: OperationStatus) -> MemberOperation | None:
    """Return the backup in the lists of joined members, None when none knows it."""
    if not operation.target:
        return None
    known = (found for _, view in situation.joined() for found in view.operations)
    return next((found for found in known if found.id == operation.target), None)


def _is_gone(situation: Situation) -> bool:
    """Return whether the process that made the backup, of any member, is there no more."""
    views = [situation.view(pod) for pod in situation.pods]
    return all(isinstance(view, MemberProblem) and view.node_state for view in views)
