"""The members' port of a member that the list of members names by its REST port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.config.model_cluster import MEMBERS_PORT_OFFSET

if TYPE_CHECKING:
    from grid_member.config import ClusterConfig


def members_port(cluster: ClusterConfig, rest_port: int) -> int:
    """Return the members' port of a member that has taken a REST port."""
    return rest_port + MEMBERS_PORT_OFFSET if cluster.by_rest_ports else cluster.port
