"""All children of a cluster, in the order in which they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.render.client_service import client_service
from grid_operator.render.config_map import config_map
from grid_operator.render.headless_service import headless_service
from grid_operator.render.management_secret import management_secret
from grid_operator.render.metadata import with_rendered_hash
from grid_operator.render.network_policy import network_policy
from grid_operator.render.statefulset import member_statefulset

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.context import RenderContext


def render_children(cluster: GridCluster, context: RenderContext) -> tuple[KubeObject, ...]:
    """Return every child, each before those that need it.

    The NetworkPolicy comes before the first pod, so that no member is ever reachable without it.
    """
    children = (
        management_secret(cluster, context),
        config_map(cluster),
        network_policy(cluster, context),
        headless_service(cluster),
        client_service(cluster),
        member_statefulset(cluster, context),
    )
    return tuple(with_rendered_hash(child) for child in children)
