"""The NetworkPolicy of the members: who may reach which port."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import (
    CLIENT_LABEL,
    MANAGEMENT_PORT,
    MEMBERS_PORT,
    METRICS_LABEL,
    NAME_LABEL,
    NAMESPACE_NAME_LABEL,
    OPERATOR_NAME,
    network_policy_name,
    pod_labels,
    selector_labels,
)
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.context import RenderContext

DNS_PORT: Final = 53


def network_policy(cluster: GridCluster, context: RenderContext) -> KubeObject:
    """Return the policy: clients to the REST port, the operator to REST and management, no way out.

    Labelled pods of any namespace, such as Prometheus, reach the metrics port.

    Several members reach each other as well, and DNS, which tells them where the others are.

    Clients are labelled pods of the namespace and the networks that the spec allows.
    """
    clients: list[dict[str, Any]] = [{"podSelector": {"matchLabels": {CLIENT_LABEL: "true"}}}]
    allowed = map(_network, cluster.spec.exposure.allowed_cidrs)
    clients += ({"ipBlock": {"cidr": cidr}} for cidr in allowed)
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: context.operator_namespace}},
        "podSelector": {"matchLabels": {NAME_LABEL: OPERATOR_NAME}},
    }
    name, rest_port = cluster.metadata.name, cluster.spec.rest_port
    several = not cluster.spec.is_alone
    peers = [{"podSelector": {"matchLabels": selector_labels(name)}}] if several else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": child_metadata(cluster, network_policy_name(name)),
        "spec": {
            # The restoring Job's pod as well.
            "podSelector": {"matchLabels": pod_labels(name)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": clients, "ports": [_tcp(rest_port)]},
                {"from": [operator], "ports": [_tcp(rest_port), _tcp(MANAGEMENT_PORT)]},
            ]
            + _metrics(cluster.spec.metrics_port)
            + [{"from": [members], "ports": [_tcp(MEMBERS_PORT)]} for members in peers],
            # Named without a rule: a single member opens no connection, not even DNS.
            "egress": _ways_out(peers),
        },
    }


def _metrics(port: int | None) -> list[dict[str, Any]]:
    """Return the rule of those who read metrics, none when nothing listens for them."""
    if port is None:
        return []
    # Every namespace has this label. An empty selector would mean the same, but nobody could see
    # in the live object whether it was taken away, which leaves the cluster's own namespace.
    every = [{"key": NAMESPACE_NAME_LABEL, "operator": "Exists"}]
    readers = {
        "namespaceSelector": {"matchExpressions": every},
        "podSelector": {"matchLabels": {METRICS_LABEL: "true"}},
    }
    return [{"from": [readers], "ports": [_tcp(port)]}]


def _ways_out(peers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the egress rules, none for a single member."""
    if not peers:
        return []
    # Where DNS answers differs from cluster to cluster, down to addresses of the node itself.
    dns = {"ports": [{"protocol": "UDP", "port": DNS_PORT}, _tcp(DNS_PORT)]}
    return [{"to": peers, "ports": [_tcp(MEMBERS_PORT)]}, dns]


def _network(text: str) -> str:
    """Return a network as Kubernetes wants it: an address alone is written with its length."""
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        return text  # `decide` refuses it: nothing of this is applied


def _tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
