"""The operations on the member list of the TCP/IP join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.join_list import (
    MemberListError,
    new_member_list,
    parse_member_list,
)
from grid_member.http.routes.idempotent import management_of, settle
from grid_member.http.routes.preconditions import (
    lagging_problem,
    starting_problem,
    unjoined_problem,
)
from grid_member.http.wire.answers import Answer, document, error, failure_answer

if TYPE_CHECKING:
    from grid_member.http.routes.calls import HttpCall

_OFF: Final = "the TCP/IP join is not enabled: see network.join.tcp-ip.enabled"
_UPDATED: Final = "The member list of TCP-IP join config is updated at run time. "
"""Ends in a space for those who are used to that."""


async def member_list_get(call: HttpCall) -> Answer:
    """Return the present list."""
    problem = starting_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    join_list = management_of(call).join_list
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
    if not management_of(call).join_list.enabled:
        return failure_answer(409, _OFF)
    answer = document({"status": "success", "message": _UPDATED, "member-list": addresses})
    return await settle(call, answer, new_member_list(addresses))
