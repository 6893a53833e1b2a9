"""The ConfigMap that holds the member configuration: always the newest, read at the next start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.names import config_map_name
from grid_operator.render.configuration.tree import configuration_file
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject


def config_map(cluster: GridCluster) -> KubeObject:
    """Return the ConfigMap with `grid.yaml` or `grid.xml`."""
    name, text = configuration_file(cluster)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(cluster, config_map_name(cluster.metadata.name)),
        "data": {name: text},
    }
