"""The Service that clients use: ready members only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.names import (
    REST_PORT,
    REST_PORT_NAME,
    client_service_name,
    selector_labels,
)
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject


def client_service(cluster: GridCluster) -> KubeObject:
    """Return the Service in front of the REST port."""
    name = cluster.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(cluster, client_service_name(name)),
        "spec": {
            "type": "ClusterIP",
            "selector": selector_labels(name),
            "ports": [
                {
                    "name": REST_PORT_NAME,
                    "port": REST_PORT,
                    "targetPort": REST_PORT_NAME,
                    "protocol": "TCP",
                }
            ],
        },
    }
