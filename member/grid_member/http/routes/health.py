"""The health of a member: the whole document, and one check a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.http.wire.answers import EMPTY, Answer, document, error

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
