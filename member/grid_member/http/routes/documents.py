"""The operations beside data: health, information and cluster management."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.http.routes.preconditions import lagging_problem, starting_problem
from grid_member.http.wire.answers import EMPTY, JSON, Answer, document, error, success

if TYPE_CHECKING:
    from grid_member.http.routes.calls import HttpCall


async def health(call: HttpCall) -> Answer:
    """Return the whole health document; HEAD shows it as headers."""
    found = call.member.health()
    answer = document(found)
    if call.request.method != "HEAD":
        return answer
    headers = (
        ("Grid-NodeState", found["nodeState"]),
        ("Grid-ClusterState", found["clusterState"]),
        ("Grid-MigrationQueueSize", str(found["migrationQueueSize"])),
        ("Grid-ClusterSize", str(found["clusterSize"])),
    )
    return Answer(200, answer.body, answer.content_type, headers)


async def health_ready(call: HttpCall) -> Answer:
    """200 when the member can be used."""
    return EMPTY if call.member.ready else error(503, call.member.problem)


async def health_node_state(call: HttpCall) -> Answer:
    """The node state as a JSON string."""
    return document(call.member.node_state.value)


async def health_cluster_state(call: HttpCall) -> Answer:
    """The cluster state as a JSON string in upper case."""
    return document(call.member.cluster_state.name)


async def health_cluster_safe(call: HttpCall) -> Answer:
    """200 when safe."""
    missing = call.member.unsafe
    return EMPTY if missing is None else error(503, missing)


async def health_migration_queue_size(call: HttpCall) -> Answer:
    """The number of replicas on the move."""
    return document(call.member.health()["migrationQueueSize"])


async def health_cluster_size(call: HttpCall) -> Answer:
    """The number of members."""
    return document(call.member.health()["clusterSize"])


async def health_unknown(call: HttpCall) -> Answer:
    """A check that does not exist."""
    return error(400, "unknown health check")


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
