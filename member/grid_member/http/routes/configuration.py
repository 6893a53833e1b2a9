"""The operations on license, log level, configuration and the member list of the TCP/IP join.

Those on the log level are for this member alone, and work whatever state it is in.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_member.cluster.management.config_changes import Block, ChangeConflictError, read_blocks
from grid_member.cluster.membership.join_list import (
    MemberListError,
    new_member_list,
    parse_member_list,
)
from grid_member.cluster.membership.locks import CHANGE
from grid_member.cluster.values.licenses import license_problem, new_license, stored_license
from grid_member.config.tree import ConfigError
from grid_member.http.routes.clusterwide import change_everywhere
from grid_member.http.routes.idempotent import settle
from grid_member.http.routes.preconditions import (
    lagging_problem,
    starting_problem,
    unjoined_problem,
)
from grid_member.http.wire.answers import (
    CARRIED_OUT,
    Answer,
    document,
    error,
    failure_answer,
    success,
)
from grid_member.telemetry.levels import LEVELS
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
_OFF: Final = "the TCP/IP join is not enabled: see network.join.tcp-ip.enabled"
_UPDATED: Final = "The member list of TCP-IP join config is updated at run time. "
"""Ends in a space for those who are used to that."""
_log: Final = logging.getLogger("grid.config")


async def license_get(call: HttpCall) -> Answer:
    """Return what is told of the license."""
    problem = starting_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    info = stored_license(call.member.management.store)
    return error(404, "no license is set") if info is None else document({"licenseInfo": info})


async def license_set(call: HttpCall) -> Answer:
    """Keep a license key for the whole cluster."""
    key = call.parameters[2]
    wrong = license_problem(key)
    if wrong is not None:
        return error(400, wrong)
    problem = unjoined_problem(call)
    if problem is not None:
        return problem
    info, put = new_license(key)
    return await settle(call, document({"status": "success", "licenseInfo": info}), put)


async def log_level_get(call: HttpCall) -> Answer:
    """Return the level that was set, null when the configured one holds."""
    return document({"logLevel": call.member.management.log_levels.level})


async def log_level_set(call: HttpCall) -> Answer:
    """Set the level."""
    if not call.member.management.log_levels.change(call.parameters[2]):
        return error(400, f"the third parameter must be one of {', '.join(LEVELS)}")
    return success(message="log level is changed")


async def log_level_reset(call: HttpCall) -> Answer:
    """Restore the configured level."""
    call.member.management.log_levels.reset()
    return success(message="log level is reset")


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
        call.member.management.upload_lock,
        lambda persistence, present: read_blocks(text, _UPLOADED, {}, persistence, present),
        "Configuration Update successfully finished.",
    )


async def config_reload(call: HttpCall) -> Answer:
    """Add what the member's file has beyond the present configuration by now."""
    problem = unjoined_problem(call)
    if problem is not None:
        return problem
    source = call.member.management.config_changes.source
    if source is None:
        return failure_answer(409, "the member was started without a configuration file")
    return await _change(
        call,
        call.member.management.reload_lock,
        source.read_blocks,
        "Configuration Reload successfully finished.",
    )


async def member_list_get(call: HttpCall) -> Answer:
    """Return the present list."""
    problem = starting_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    join_list = call.member.management.join_list
    if not join_list.enabled:
        return failure_answer(409, _OFF)
    return document({"status": "success", "member-list": join_list.addresses})


async def member_list_set(call: HttpCall) -> Answer:
    """Replace the list on all members."""
    try:
        addresses = parse_member_list(call.parameters[2])
    except MemberListError as wrong:
        return error(400, str(wrong))
    problem = unjoined_problem(call)
    if problem is not None:
        return problem
    if not call.member.management.join_list.enabled:
        return failure_answer(409, _OFF)
    answer = document({"status": "success", "message": _UPDATED, "member-list": addresses})
    return await settle(call, answer, new_member_list(addresses))


async def _change(
    call: HttpCall, reading: asyncio.Lock, read: Callable[[bool, int], list[Block]], message: str
) -> Answer:
    changes = call.member.management.config_changes
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
    changes = call.member.management.config_changes
    async with call.member.management.config_lock:
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
