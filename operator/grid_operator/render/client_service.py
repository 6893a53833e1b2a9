"""The Service that clients use: ready members only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_operator.api.names import (
    REST_PORT,
    REST_PORT_NAME,
    client_service_name,
    selector_labels,
)
from grid_operator.api.network import ExposureType
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.network import ExposureSpec
    from grid_operator.api.objects import KubeObject


def client_service(cluster: GridCluster) -> KubeObject:
    """Return the Service in front of the REST port. Its own port is the same for all clusters."""
    name = cluster.metadata.name
    exposure = cluster.spec.exposure
    metadata = child_metadata(cluster, client_service_name(name))
    if exposure.annotations:
        metadata["annotations"] = dict(exposure.annotations)
    port: dict[str, Any] = {
        "name": REST_PORT_NAME,
        "port": REST_PORT,
        "targetPort": REST_PORT_NAME,
        "protocol": "TCP",
    }
    if exposure.node_port is not None:
        port["nodePort"] = exposure.node_port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": exposure.type.value,
            "selector": selector_labels(name),
            "ports": [port],
            **_from_outside(exposure),
        },
    }


def _from_outside(exposure: ExposureSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if exposure.load_balancer_class is not None:
        fields["loadBalancerClass"] = exposure.load_balancer_class
    if exposure.type is not ExposureType.CLUSTER_IP and exposure.allowed_cidrs:
        # Nodes that pass connections on hide the clients' addresses, which the policy goes by.
        fields["externalTrafficPolicy"] = "Local"
    return fields
