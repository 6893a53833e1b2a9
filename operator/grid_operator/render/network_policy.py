"""The NetworkPolicy of the members: who may reach which port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_operator.api.names import (
    CLIENT_LABEL,
    MANAGEMENT_PORT,
    NAME_LABEL,
    NAMESPACE_NAME_LABEL,
    OPERATOR_NAME,
    REST_PORT,
    network_policy_name,
    selector_labels,
)
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.context import RenderContext


def network_policy(cluster: GridCluster, context: RenderContext) -> KubeObject:
    """Return the policy: labelled clients to the REST port, the operator to both, no way out."""
    clients = {"podSelector": {"matchLabels": {CLIENT_LABEL: "true"}}}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: context.operator_namespace}},
        "podSelector": {"matchLabels": {NAME_LABEL: OPERATOR_NAME}},
    }
    name = cluster.metadata.name
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": child_metadata(cluster, network_policy_name(name)),
        "spec": {
            "podSelector": {"matchLabels": selector_labels(name)},
            # Egress is named without a rule: a single member opens no connection, not even DNS.
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [clients], "ports": [_tcp(REST_PORT)]},
                {"from": [operator], "ports": [_tcp(REST_PORT), _tcp(MANAGEMENT_PORT)]},
            ],
        },
    }


def _tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
