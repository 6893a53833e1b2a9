"""The operations on the cluster as a whole: state, version, shutdown, members, what it does."""

from __future__ import annotations

import asyncio
import platform
from typing import TYPE_CHECKING, Final

from grid_member.cluster.addresses import bracketed
from grid_member.cluster.usage import usage_document
from grid_member.cluster.versions import parse_version
from grid_member.engine.api import ClusterState
from grid_member.http.answers import Answer, document, error, failed, success
from grid_member.http.idempotent import management_of, settle
from grid_member.http.managed import not_joined, starting, stopped_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_member.http.calls import Call

_STATES: Final[Mapping[str, ClusterState]] = {
    state.value: state for state in ClusterState if state is not ClusterState.IN_TRANSITION
}
_CHANGING: Final = "another change of the cluster state or version is under way: try again"


async def change_state(call: Call) -> Answer:
    """Set the cluster state; its effect on data calls holds when this is answered."""
    state = _STATES.get(call.parameters[2].lower())
    if state is None:
        return error(400, f"the third parameter must be one of {', '.join(_STATES)}")
    problem = _no_change(call)
    if problem is not None:
        return problem
    member = call.member
    if member.cluster_state is state:
        return document({"status": "fail", "state": state.value})
    with management_of(call).change():
        return await settle(
            call,
            success(state=state.value),
            lambda done: member.engine.change_cluster_state(state, done),
        )


async def change_version(call: Call) -> Answer:
    """Set the cluster version; the present one again is a success and changes nothing."""
    target = parse_version(call.parameters[2])
    if target is None:
        return error(400, "the third parameter must be a version, major.minor")
    problem = _no_change(call)
    if problem is not None:
        return problem
    management = management_of(call)
    refused = management.versions.problem(target)
    if refused is not None:
        return failed(409, refused)
    answer = success(version=str(target))
    if target == management.versions.current:
        return answer
    with management.change():
        return await settle(call, answer, management.versions.change(target))


async def cluster_shutdown(call: Call) -> Answer:
    """Answer, then stop the cluster, which is this member."""
    return await stopped_by(call, "clusterShutdown", call.member.request_cluster_stop)


async def nodes(call: Call) -> Answer:
    """Return the members as text, the member's version, and that of what it runs on."""
    problem = not_joined(call)
    if problem is not None:
        return problem
    members = [
        f"Member {bracketed(member['address'])} - {member['uuid']}"
        + (" this" if member["localMember"] else "")
        + (" lite" if member["liteMember"] else "")
        for member in call.member.members()
    ]
    lines = [f"[{', '.join(members)}]", call.member.version, platform.python_version()]
    return success(response="\n".join(lines))


async def operations(call: Call) -> Answer:
    """Return the long operations, the oldest first."""
    return starting(call) or document(management_of(call).operations.documents())


async def usage(call: Call) -> Answer:
    """Return what the structures hold and what the store takes."""
    problem = starting(call)
    if problem is not None:
        return problem
    member = call.member
    source = management_of(call).usage
    uuid = member.engine.member_uuid
    found = await usage_document(source, member.config, uuid, member.address)
    return await asyncio.to_thread(document, found)


def _no_change(call: Call) -> Answer | None:
    problem = not_joined(call)
    if problem is None and management_of(call).changing:
        return failed(409, _CHANGING)
    return problem
