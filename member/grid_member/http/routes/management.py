"""The operations on the cluster as a whole: state, version, shutdown, members, what it does."""

from __future__ import annotations

import asyncio
import platform
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_member.cluster.cp.subsystem import bracket
from grid_member.cluster.management.usage import usage_document
from grid_member.cluster.membership.locks import CHANGE
from grid_member.cluster.values.system_store import carry_out
from grid_member.cluster.values.versions import parse_version
from grid_member.engine.api import ClusterState, EngineError, Refused
from grid_member.http.routes.clusterwide import BUSY, BUSY_ALONE, change_everywhere
from grid_member.http.routes.data import refusal
from grid_member.http.routes.idempotent import LEAVE, settle
from grid_member.http.routes.persistence import OPERATION
from grid_member.http.routes.preconditions import (
    UNJOINED,
    lagging_problem,
    starting_problem,
    unjoined_problem,
)
from grid_member.http.wire.answers import (
    Answer,
    document,
    error,
    failure_answer,
    success,
    success_then,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from grid_member.cluster.values.system_store import Put
    from grid_member.cluster.values.versions import ClusterVersion
    from grid_member.http.routes.calls import HttpCall

FOREVER: Final = "forever"
MOVING: Final = failure_answer(
    409, "copies of the data are being moved to other members: try again"
)
_STATES: Final[Mapping[str, ClusterState]] = {
    state.value: state for state in ClusterState if state is not ClusterState.IN_TRANSITION
}


async def change_state(call: HttpCall) -> Answer:
    """Set the cluster state; its effect on data calls holds when this is answered."""
    state = _STATES.get(call.parameters[2].lower())
    if state is None:
        return error(400, f"the third parameter must be one of {', '.join(_STATES)}")
    problem = await _no_change(call)
    if problem is not None:
        return problem
    with call.member.management.change():
        return await change_everywhere(
            call, CHANGE, lambda: _unless_moving(call, lambda: _change(call, state))
        )


async def _change(call: HttpCall, state: ClusterState) -> Answer:
    engine, membership = call.member.engine, call.member.membership
    agreed = membership is None or membership.engine.agreed
    if agreed and engine.cluster_state is state:
        return document({"status": "fail", "state": state.value})
    forgotten: list[Put] = []
    if membership is not None:
        # Nothing counts before every other shard has the state: not the state, nor what is
        # remembered of the call. Then it can be sent again until that is so.
        prepare = membership.engine.prepare_cluster_state
        for refused in filter(None, await carry_out(lambda done: prepare(state, done))):
            return refusal(refused)
        forgotten = membership.forgetting_puts(state)
    return await settle(
        call,
        success(state=state.value),
        lambda done: engine.change_cluster_state(state, done),
        *forgotten,
    )


async def change_version(call: HttpCall) -> Answer:
    """Set the cluster version; the present one again is a success and changes nothing."""
    target = parse_version(call.parameters[2])
    if target is None:
        return error(400, "the third parameter must be a version, major.minor")
    problem = await _no_change(call)
    if problem is not None:
        return problem
    with call.member.management.change():
        return await change_everywhere(
            call, CHANGE, lambda: _unless_moving(call, lambda: _upgrade(call, target))
        )


async def _upgrade(call: HttpCall, target: ClusterVersion) -> Answer:
    versions = call.member.management.versions
    refused = versions.problem(target) or _version_objection(call, target)
    if refused is not None:
        return failure_answer(409, refused)
    answer = success(version=str(target))
    if target == versions.current:
        return answer
    return await settle(call, answer, versions.change(target))


def _version_objection(call: HttpCall, target: ClusterVersion) -> str | None:
    """Return which other member cannot run a cluster of the version, None when all can."""
    for member in call.member.members():
        version = parse_version(member["memberVersion"])
        if member["localMember"]:
            continue
        if version is None or not version.supports(target):
            return (
                f"member {member['address']} of version {member['memberVersion']} cannot run a "
                f"cluster of version {target}"
            )
    return None


async def member_shutdown(call: HttpCall) -> Answer:
    """Answer, then stop this member; at once, or when all that it holds is elsewhere."""
    leave, departing = call.request.headers.get(LEAVE), call.member.management.departing
    if leave is None or departing is None:
        # One that is alone has nobody to leave its data to: the header means nothing to it.
        return await _answer_and_stop(call, "memberShutdown", call.member.request_stop)
    if leave != FOREVER:
        return error(400, f"{LEAVE} is {FOREVER} or left out")
    problem = failure_answer(409, UNJOINED) if call.member.ending else unjoined_problem(call)
    if problem is not None:
        return problem
    try:
        # Now, while it can be refused: at the end it would have nothing to stay with.
        await asyncio.to_thread(call.member.shutdown_marker.check_writable)
    except EngineError as unwritten:
        return failure_answer(409, str(unwritten))
    begun = await departing.begin()
    if isinstance(begun, Refused):
        return refusal(begun)
    return replace(success(), headers=((OPERATION, begun),))


async def cluster_shutdown(call: HttpCall) -> Answer:
    """Answer, then stop all members; without a majority nobody could tell them."""
    problem = unjoined_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    return await _answer_and_stop(call, "clusterShutdown", call.member.request_cluster_stop)


async def _answer_and_stop(call: HttpCall, name: str, stop: Callable[[], None]) -> Answer:
    """Answer, then stop; the name is that of the call, for whoever finds the member parked."""
    problem = unjoined_problem(call)
    if problem is not None:
        return problem
    try:
        await asyncio.to_thread(call.member.shutdown_marker.write, name)
    except EngineError as unwritten:
        return failure_answer(409, str(unwritten))
    return success_then(stop)


async def nodes(call: HttpCall) -> Answer:
    """Return the members as text, the member's version, and that of what it runs on."""
    problem = unjoined_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    members = [
        f"Member {bracket(member['address'])} - {member['uuid']}"
        + (" this" if member["localMember"] else "")
        + (" lite" if member["liteMember"] else "")
        for member in call.member.members()
    ]
    lines = [f"[{', '.join(members)}]", call.member.version, platform.python_version()]
    return success(response="\n".join(lines))


async def operations(call: HttpCall) -> Answer:
    """Return the long operations, the oldest first."""
    problem = starting_problem(call) or await lagging_problem(call)
    return problem or document(call.member.management.operations.documents())


async def usage(call: HttpCall) -> Answer:
    """Return what the structures hold and what the store takes."""
    problem = starting_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    found = await usage_document(call.member.management.usage, call.member)
    if isinstance(found, Refused):
        return refusal(found)
    return await asyncio.to_thread(document, found)


async def _no_change(call: HttpCall) -> Answer | None:
    problem = unjoined_problem(call) or await lagging_problem(call)
    if problem is None and call.member.management.changing:
        return BUSY_ALONE if call.member.membership is None else BUSY
    if problem is None and call.member.migrating:
        return MOVING
    return problem


async def _unless_moving(call: HttpCall, change: Callable[[], Awaitable[Answer]]) -> Answer:
    """Carry out a change unless copies move.

    The lock of the cluster's changes is held: whoever has copies moved needs it, too. What this
    member saw of them before that may be a second old.
    """
    membership = call.member.membership
    if membership is not None and await membership.engine.moving():
        return MOVING
    return await change()
