"""The Service that takes changes of other clusters: ready members only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_operator.api.names import (
    WAN_PORT,
    WAN_PORT_NAME,
    selector_labels,
    wan_service_name,
)
from grid_operator.api.network import ExposureType
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject


def wan_service(cluster: GridCluster) -> KubeObject | None:
    """Return the Service in front of the WAN port, None when members take no changes."""
    listener, name = cluster.spec.wan_listener, cluster.metadata.name
    if not listener.enabled:
        return None
    wanted = listener.service
    metadata = child_metadata(cluster, wan_service_name(name))
    if wanted.annotations:
        metadata["annotations"] = dict(wanted.annotations)
    port: dict[str, Any] = {
        "name": WAN_PORT_NAME,
        "port": WAN_PORT,
        # A container of the user's may have a port of the same name.
        "targetPort": listener.port,
        "protocol": "TCP",
    }
    if wanted.node_port is not None:
        port["nodePort"] = wanted.node_port
    spec: dict[str, Any] = {
        "type": wanted.type.value,
        "selector": selector_labels(name),
        "ports": [port],
    }
    networks = any(sender.cidr is not None for sender in listener.allowed_from)
    if wanted.type is not ExposureType.CLUSTER_IP and networks:
        # Nodes that pass connections on hide the senders' addresses, which the policy goes by.
        spec["externalTrafficPolicy"] = "Local"
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
