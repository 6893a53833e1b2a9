"""The operations on the CP subsystem. None of them reads or changes a map or a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.cp import CpConflictError, CpInvalidError, CpUnknownError
from grid_member.http.answers import EMPTY, Answer, document, error, failed
from grid_member.http.idempotent import management_of
from grid_member.http.managed import behind, not_joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.cp import CpSubsystem
    from grid_member.http.calls import Call

NOT_CONFIGURED: Final = "cp-subsystem is not configured"


async def cp_groups(call: Call) -> Answer:
    """Return the groups."""
    return await _answered(call, lambda cp: document(cp.groups()), unknown=404)


async def cp_group(call: Call) -> Answer:
    """Return one group."""
    return await _answered(call, lambda cp: document(cp.group(call.names["name"])), unknown=404)


async def cp_group_remove(call: Call) -> Answer:
    """Refuse to remove a group."""
    return await _answered(call, lambda cp: cp.remove_group(call.names["name"]), unknown=400)


async def cp_sessions(call: Call) -> Answer:
    """Return the sessions of a group."""
    return await _answered(call, lambda cp: document(cp.sessions(call.names["name"])), unknown=404)


async def cp_session_remove(call: Call) -> Answer:
    """Refuse to end a session."""
    names = call.names
    return await _answered(
        call, lambda cp: cp.remove_session(names["name"], names["id"]), unknown=400
    )


async def cp_members(call: Call) -> Answer:
    """Return the members."""
    return await _answered(call, lambda cp: document(cp.members()), unknown=404)


async def cp_promote(call: Call) -> Answer:
    """Make this member one of the subsystem, which it is."""
    return await _answered(call, _promoted, unknown=404)


async def cp_member_local(call: Call) -> Answer:
    """Return this member."""
    return await _answered(call, lambda cp: document(cp.local()), unknown=404)


async def cp_member_remove(call: Call) -> Answer:
    """Refuse to remove a member."""
    return await _answered(call, lambda cp: cp.remove_member(call.names["uuid"]), unknown=400)


async def cp_reset(call: Call) -> Answer:
    """Refuse to wipe the groups."""
    return await _answered(call, lambda cp: cp.reset(), unknown=404)


def _promoted(cp: CpSubsystem) -> Answer:
    cp.promote()
    return EMPTY


async def _answered(call: Call, act: Callable[[CpSubsystem], Answer], *, unknown: int) -> Answer:
    cp = management_of(call).cp
    if cp is None:
        return failed(409, NOT_CONFIGURED)
    problem = not_joined(call) or await behind(call)
    if problem is not None:
        return problem
    try:
        return act(cp)
    except CpInvalidError as wrong:
        return error(400, str(wrong))
    except CpUnknownError as wrong:
        return error(unknown, str(wrong))
    except CpConflictError as wrong:
        return failed(409, str(wrong))
