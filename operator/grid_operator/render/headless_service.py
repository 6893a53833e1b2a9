"""The Service without an address of its own: one DNS name per member, ready or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.names import (
    MANAGEMENT_PORT,
    MANAGEMENT_PORT_NAME,
    MEMBERS_PORT,
    MEMBERS_PORT_NAME,
    REST_PORT_NAME,
    headless_service_name,
    selector_labels,
)
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject


def headless_service(cluster: GridCluster) -> KubeObject:
    """Return the Service that names the members."""
    name = cluster.metadata.name
    ports = [(REST_PORT_NAME, cluster.spec.rest_port), (MANAGEMENT_PORT_NAME, MANAGEMENT_PORT)]
    if not cluster.spec.is_alone:
        ports.append((MEMBERS_PORT_NAME, MEMBERS_PORT))
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(cluster, headless_service_name(name)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            # A member has to be found before it is ready, and also while it is not.
            "publishNotReadyAddresses": True,
            "selector": selector_labels(name),
            "ports": [
                {"name": port_name, "port": port, "targetPort": port_name, "protocol": "TCP"}
                for port_name, port in ports
            ],
        },
    }
