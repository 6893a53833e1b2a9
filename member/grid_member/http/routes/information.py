"""What a member says of itself and its cluster: members, name, state, version, interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.http.routes.preconditions import lagging_problem, starting_problem
from grid_member.http.wire.answers import JSON, Answer, document, success

if TYPE_CHECKING:
    from grid_member.http.routes.calls import HttpCall


async def cluster(call: HttpCall) -> Answer:
    """Return the cluster status document."""
    problem = starting_problem(call)
    if problem is not None:
        return problem
    members = call.member.members()
    return document(
        {
            "members": members,
            "connectionCount": call.connections.clients,
            "allConnectionCount": call.connections.total + len(members) - 1,
        }
    )


async def instance(call: HttpCall) -> Answer:
    """Return the instance name document."""
    return document({"name": call.member.name})


async def cluster_state(call: HttpCall) -> Answer:
    """Return the cluster state as the management calls name it."""
    problem = await lagging_problem(call)
    if problem is not None:
        return problem
    return success(state=call.member.cluster_state.value)


async def cluster_version(call: HttpCall) -> Answer:
    """Return the cluster version document."""
    problem = await lagging_problem(call)
    if problem is not None:
        return problem
    return success(version=call.member.cluster_version)


async def openapi(call: HttpCall) -> Answer:
    """The description of the interface."""
    # Most members are never asked for it.
    from grid_member.http.openapi.description import encode

    return Answer(200, encode(call.member.version), JSON)
