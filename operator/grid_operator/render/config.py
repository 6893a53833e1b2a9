"""The member configuration of a cluster, as one tree and as the YAML file that members read.

Values that differ per pod, and credentials, are variables that the member resolves from its
environment: the ConfigMap is the same for all members and holds no secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from grid_operator.api.gridcluster import EndpointGroupName
from grid_operator.api.names import MANAGEMENT_PORT, REST_PORT

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster, GridClusterSpec, MapSpec, QueueSpec

MANAGEMENT_REALM: Final = "management"
USERNAME_VARIABLE: Final = "GRID_MANAGEMENT_USERNAME"
PASSWORD_VARIABLE: Final = "GRID_MANAGEMENT_PASSWORD"  # noqa: S105 - the variable's name
DATA_DIR_VARIABLE: Final = "GRID_DATA_DIR"
BIND_ADDRESS_VARIABLE: Final = "GRID_BIND_ADDRESS"
PUBLIC_ADDRESS_VARIABLE: Final = "GRID_PUBLIC_ADDRESS"
"""Unset in pods: members listen on every address. `gridctl up` sets it to a loopback one."""

_GROUP_ELEMENTS: Final = {
    EndpointGroupName.CLUSTER_READ: "CLUSTER_READ",
    EndpointGroupName.CLUSTER_WRITE: "CLUSTER_WRITE",
    EndpointGroupName.HEALTH_CHECK: "HEALTH_CHECK",
    EndpointGroupName.PERSISTENCE: "PERSISTENCE",
    EndpointGroupName.WAN: "WAN",
    EndpointGroupName.DATA: "DATA",
    EndpointGroupName.CP: "CP",
}


def configuration_tree(cluster: GridCluster) -> dict[str, Any]:
    """Return the member configuration, from its top element `grid` down."""
    spec = cluster.spec
    tree: dict[str, Any] = {
        "cluster-name": spec.cluster_name,
        "instance-name": "${POD_NAME}",
        "network": _network(cluster.spec),
        "security": {"realms": [_management_realm()]},
    }
    if spec.persistence.enabled:
        base_dir = f"${{{DATA_DIR_VARIABLE}}}/persistence"
        tree["persistence"] = {"enabled": True, "base-dir": base_dir}
    if spec.maps:
        tree["map"] = {structure.name: _map(structure) for structure in spec.maps}
    if spec.queues:
        tree["queue"] = {structure.name: _queue(structure) for structure in spec.queues}
    tree["logging"] = {
        "format": spec.logging.format.value.lower(),
        "level": spec.logging.level.value.lower(),
    }
    return {"grid": tree}


def configuration_yaml(cluster: GridCluster) -> str:
    """Return the configuration as the text of `grid.yaml`."""
    text: str = yaml.safe_dump(
        configuration_tree(cluster), sort_keys=False, allow_unicode=True, width=100
    )
    return text


def _network(spec: GridClusterSpec) -> dict[str, Any]:
    return {
        "port": {"port": REST_PORT, "auto-increment": False},
        "public-address": f"${{{PUBLIC_ADDRESS_VARIABLE}}}",
        "interfaces": {"enabled": True, "interfaces": [f"${{{BIND_ADDRESS_VARIABLE}:*}}"]},
        "rest-api": _rest_api(spec),
        "management": {
            "enabled": True,
            "port": {"port": MANAGEMENT_PORT, "auto-increment": False},
            "realm": MANAGEMENT_REALM,
        },
    }


def _rest_api(spec: GridClusterSpec) -> dict[str, Any]:
    element: dict[str, Any] = {"enabled": True}
    if spec.rest.endpoint_groups:
        element["endpoint-groups"] = {
            _GROUP_ELEMENTS[group.name]: {"enabled": group.enabled}
            for group in spec.rest.endpoint_groups
        }
    return element


def _management_realm() -> dict[str, Any]:
    user = {"username": f"${{{USERNAME_VARIABLE}}}", "password": f"${{{PASSWORD_VARIABLE}}}"}
    return {"name": MANAGEMENT_REALM, "authentication": {"simple": {"users": [user]}}}


def _map(structure: MapSpec) -> dict[str, Any]:
    return {"time-to-live-seconds": structure.time_to_live_seconds}


def _queue(structure: QueueSpec) -> dict[str, Any]:
    return {"max-size": structure.max_size}
