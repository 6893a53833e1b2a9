"""The operations that add to the configuration: upload of a text, reload of the member's file."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.cluster.management.config_changes import Block, ChangeConflictError, read_blocks
from grid_member.cluster.membership.locks import CHANGE
from grid_member.config.tree import ConfigError
from grid_member.http.routes.clusterwide import change_everywhere
from grid_member.http.routes.idempotent import management_of, settle
from grid_member.http.routes.preconditions import unjoined_problem
from grid_member.http.wire.answers import CARRIED_OUT, Answer, document, error, failure_answer
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.http.routes.calls import HttpCall

MAX_LOGGED_PROBLEMS: Final = 20
CONFIG_PATIENCE_S: Final = 10.0
"""How long a change waits for another one of the cluster."""
_BUSY: Final = error(503, "another change of the cluster is under way", retry=True)
_UNANSWERED: Final = error(
    503, "nothing is added: a member that lives does not tell whether it can be", retry=True
)
_UPLOADED: Final = "configuration"
"""What problems call an uploaded text."""
_log: Final = logging.getLogger("grid.config")


async def config_upload(call: HttpCall) -> Answer:
    """Add what a YAML or XML text has beyond the present configuration.

    Variables in it have their defaults: what the environment holds may differ between members.
    """
    problem = unjoined_problem(call)
    if problem is not None:
        return problem
    text = call.parameters[2]
    return await _change(
        call,
        management_of(call).upload_lock,
        lambda persistence, present: read_blocks(text, _UPLOADED, {}, persistence, present),
        "Configuration Update successfully finished.",
    )


async def config_reload(call: HttpCall) -> Answer:
    """Add what the member's file has beyond the present configuration by now."""
    problem = unjoined_problem(call)
    if problem is not None:
        return problem
    source = management_of(call).config_changes.source
    if source is None:
        return failure_answer(409, "the member was started without a configuration file")
    return await _change(
        call,
        management_of(call).reload_lock,
        source.read_blocks,
        "Configuration Reload successfully finished.",
    )


async def _change(
    call: HttpCall, reading: asyncio.Lock, read: Callable[[bool, int], list[Block]], message: str
) -> Answer:
    changes = management_of(call).config_changes
    try:
        async with reading:
            blocks = await asyncio.to_thread(read, changes.persistence, changes.block_count)
        answer = await change_everywhere(
            call, CHANGE, lambda: _add(call, blocks, message), CONFIG_PATIENCE_S, busy=_BUSY
        )
    except ConfigError as wrong:
        return _refusal(wrong)
    except ChangeConflictError as wrong:
        return failure_answer(409, str(wrong))
    return answer


async def _add(call: HttpCall, blocks: list[Block], message: str) -> Answer:
    changes = management_of(call).config_changes
    async with management_of(call).config_lock:
        change = changes.plan(blocks)
        content = {"status": "success", "message": message, "result": change.result}
        put = changes.keep(change)
        refused = None if put is None else await _objection(call, put.value or b"")
        if refused is not None:
            return refused
        puts = () if put is None else (put,)
        answer = await settle(call, document(content), *puts)
        changes.apply_stored()
    if answer.status == CARRIED_OUT:
        event(_log, logging.INFO, "configuration changed", added=len(change.added_blocks))
    return answer


async def _objection(call: HttpCall, content: bytes) -> Answer | None:
    """Return the answer when another member cannot go by what is to be added."""
    membership = call.member.membership
    if membership is None:
        return None
    objections = await membership.configuration_vote.objections(content)
    if objections is None:
        return _UNANSWERED
    for objection in objections:
        event(_log, logging.WARNING, "configuration refused", problem=objection)
    return failure_answer(409, f"nothing is added: {objections[0]}") if objections else None


def _refusal(wrong: ConfigError) -> Answer:
    for problem in wrong.problems[:MAX_LOGGED_PROBLEMS]:
        event(_log, logging.WARNING, "configuration refused", problem=str(problem))
    more = len(wrong.problems) - 1
    return error(400, str(wrong.problems[0]) + (f" (and {more} more, see the log)" if more else ""))
