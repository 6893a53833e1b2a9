"""The Secret with the credentials of the members' management listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.names import PASSWORD_KEY, USERNAME_KEY, management_secret_name
from grid_operator.render.metadata import child_metadata
from grid_operator.render.secrets import encoded

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.context import RenderContext


def management_secret(cluster: GridCluster, context: RenderContext) -> KubeObject:
    """Return the Secret with the keys `username` and `password`.

    While it exists the context carries its own content, so that applying it changes nothing.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": child_metadata(cluster, management_secret_name(cluster.metadata.name)),
        "type": "Opaque",
        "data": {
            USERNAME_KEY: encoded(context.management_username),
            PASSWORD_KEY: encoded(context.management_password),
        },
    }
