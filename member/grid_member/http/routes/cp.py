"""The operations on the CP subsystem. None of them reads or changes a map or a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.cp.subsystem import (
    LOCK,
    CpConflictError,
    CpInvalidError,
    CpUnavailableError,
    CpUnknownError,
)
from grid_member.http.routes.clusterwide import change_everywhere
from grid_member.http.routes.idempotent import settle
from grid_member.http.routes.preconditions import lagging_problem, unjoined_problem
from grid_member.http.wire.answers import EMPTY, Answer, document, error, failure_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.cluster.cp.subsystem import CpCalls, CpChange
    from grid_member.http.routes.calls import HttpCall

NOT_CONFIGURED: Final = "cp-subsystem is not configured"
BUSY: Final = failure_answer(409, "another change of the CP subsystem is under way: try again")
CHANGE_PATIENCE_S: Final = 10.0
"""How long a change waits for another one to end."""


async def cp_groups(call: HttpCall) -> Answer:
    """Return the groups."""
    return await _show(call, lambda cp: cp.groups())


async def cp_group(call: HttpCall) -> Answer:
    """Return one group."""
    return await _show(call, lambda cp: cp.group(call.names["name"]))


async def cp_group_remove(call: HttpCall) -> Answer:
    """Remove a group; not one that holds maps and queues."""
    return await _change(call, lambda cp: cp.remove_group(call.names["name"]), unknown=400)


async def cp_sessions(call: HttpCall) -> Answer:
    """Return the sessions of a group."""
    return await _show(call, lambda cp: cp.sessions(call.names["name"]))


async def cp_session_remove(call: HttpCall) -> Answer:
    """Refuse to end a session."""
    names = call.names
    return await _change(
        call, lambda cp: cp.remove_session(names["name"], names["id"]), unknown=400
    )


async def cp_members(call: HttpCall) -> Answer:
    """Return the members."""
    return await _show(call, lambda cp: cp.members())


async def cp_promote(call: HttpCall) -> Answer:
    """Make this member one of the subsystem."""
    return await _change(call, lambda cp: cp.promote(), unknown=404)


async def cp_member_local(call: HttpCall) -> Answer:
    """Return this member."""
    return await _show(call, lambda cp: cp.local())


async def cp_member_remove(call: HttpCall) -> Answer:
    """Remove a member; not below a majority."""
    return await _change(call, lambda cp: cp.remove_member(call.names["uuid"]), unknown=400)


async def cp_reset(call: HttpCall) -> Answer:
    """Make the own groups and their members anew."""
    return await _change(call, lambda cp: cp.reset(), unknown=404)


async def _show(call: HttpCall, show: Callable[[CpCalls], Awaitable[object]]) -> Answer:
    async def act(cp: CpCalls) -> Answer:
        return document(await show(cp))

    return await _answer(call, act, unknown=404)


async def _change(
    call: HttpCall, change: Callable[[CpCalls], Awaitable[CpChange]], *, unknown: int
) -> Answer:
    async def act(cp: CpCalls) -> Answer:
        async def change_once() -> Answer:
            return await settle(call, EMPTY, *await change(cp))

        return await change_everywhere(call, LOCK, change_once, CHANGE_PATIENCE_S, busy=BUSY)

    return await _answer(call, act, unknown=unknown)


async def _answer(
    call: HttpCall, act: Callable[[CpCalls], Awaitable[Answer]], *, unknown: int
) -> Answer:
    cp = call.member.management.cp
    if cp is None:
        return failure_answer(409, NOT_CONFIGURED)
    problem = unjoined_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    try:
        return await act(cp)
    except CpInvalidError as wrong:
        return error(400, str(wrong))
    except CpUnknownError as wrong:
        return error(unknown, str(wrong))
    except CpConflictError as wrong:
        return failure_answer(409, str(wrong))
    except CpUnavailableError as wrong:
        return error(503, str(wrong), retry=True)
