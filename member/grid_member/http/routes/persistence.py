"""The persistence operations: starts from a damaged store, backups and their interruption."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError, Refused
from grid_member.http.routes.data import refusal
from grid_member.http.routes.idempotent import (
    note_start,
    recovery_answer,
    remember,
    settle,
)
from grid_member.http.routes.preconditions import lagging_problem, unjoined_problem
from grid_member.http.wire.answers import CARRIED_OUT, Answer, error, failure_answer, success

if TYPE_CHECKING:
    from grid_member.cluster.persistence.backups import StartedBackup
    from grid_member.http.routes.calls import HttpCall

DEPRECATED: Final = ("Deprecation", "true")
OPERATION: Final = "X-Grid-Operation"
"""The header with the id of the long operation that a call has begun."""


async def force_start(call: HttpCall) -> Answer:
    """Delete the data of a damaged store and start empty."""
    return recovery_answer(
        await call.member.management.persistence.recovery.force_start(note_start(call))
    )


async def partial_start(call: HttpCall) -> Answer:
    """Start with what can be read of a damaged store."""
    return recovery_answer(
        await call.member.management.persistence.recovery.partial_start(note_start(call))
    )


async def backup(call: HttpCall) -> Answer:
    """Begin a backup of this moment; it is written while the member goes on."""
    return await _backup(call, success())


async def backup_interrupt(call: HttpCall) -> Answer:
    """Stop the backup that is being made, if any, and remove what there is of it."""
    backups = call.member.management.persistence.backups
    await backups.interrupt()
    problem = await lagging_problem(call)
    if problem is None and not await backups.interrupt_others():
        return error(503, "a member has not stopped its backup yet", retry=True)
    return problem or success()


async def hot_backup(call: HttpCall) -> Answer:
    """Begin a backup, by its old name."""
    return _add_deprecation(await _backup(call, _add_deprecation(success())))


async def hot_backup_interrupt(call: HttpCall) -> Answer:
    """Stop the backup that is being made, by the call's old name."""
    return _add_deprecation(await backup_interrupt(call))


async def _backup(call: HttpCall, answer: Answer) -> Answer:
    # A backup of another member may be over without this member's knowledge.
    problem = unjoined_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    backups = call.member.management.persistence.backups
    refused = backups.refusal()
    if refused is not None:
        return failure_answer(409, refused)
    try:
        if call.member.membership is None:
            return await _finish_backup(call, answer, await backups.begin())
        # What the log of several refuses it may take later. So nothing is remembered under the
        # call's key before it is known that the backup is made.
        named = partial(_add_operation, answer)
        made = await backups.make(remember(call, named))
    except EngineError as error:
        return failure_answer(409, str(error))
    return refusal(made) if isinstance(made, Refused) else _add_operation(answer, made)


async def _finish_backup(call: HttpCall, answer: Answer, begun: StartedBackup) -> Answer:
    backups = call.member.management.persistence.backups
    try:
        answer = await settle(call, _add_operation(answer, begun.operation), *begun.puts)
    except BaseException:
        await backups.abandon(begun)
        raise
    if answer.status == CARRIED_OUT:
        backups.run(begun)
    else:
        await backups.abandon(begun)
    return answer


def _add_operation(answer: Answer, operation: str) -> Answer:
    return replace(answer, headers=(*answer.headers, (OPERATION, operation)))


def _add_deprecation(answer: Answer) -> Answer:
    if DEPRECATED in answer.headers:
        return answer
    return replace(answer, headers=(*answer.headers, DEPRECATED))
