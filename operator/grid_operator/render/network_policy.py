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
from grid_operator.api.wan import wan_endpoint_port
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

    Clusters that the spec names reach the WAN port, and members what their publishers send to.
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
            + [{"from": [members], "ports": [_tcp(MEMBERS_PORT)]} for members in peers]
            + _senders(cluster),
            # Named without a rule: a single member opens no connection, not even DNS, unless it
            # has publishers.
            "egress": _ways_out(peers, _targets(cluster)),
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


def _senders(cluster: GridCluster) -> list[dict[str, Any]]:
    """Return the rule of the clusters that may send changes, none when there are none."""
    listener = cluster.spec.wan_listener
    found = [
        {"ipBlock": {"cidr": _network(sender.cidr)}}
        if sender.cidr is not None
        else _members_of(sender.name or "", sender.namespace or cluster.metadata.namespace)
        for sender in listener.allowed_from
    ]
    return [{"from": found, "ports": [_tcp(listener.port)]}] if listener.enabled and found else []


def _targets(cluster: GridCluster) -> list[dict[str, Any]]:
    """Return the rules of what publishers send to: members by their labels, others by the port."""
    rules: list[dict[str, Any]] = []
    for publisher in (p for replication in cluster.spec.wan for p in replication.publishers):
        target = publisher.target
        if target is not None:
            members = _members_of(target.name, target.namespace or cluster.metadata.namespace)
            rule: dict[str, Any] = {"to": [members], "ports": [_tcp(target.port)]}
        else:
            # An endpoint that is no address is refused: nothing of this is applied.
            ports = {wan_endpoint_port(text) or 0 for text in publisher.endpoints}
            rule = {"ports": [_tcp(port) for port in sorted(ports)]}
        if rule not in rules:
            rules.append(rule)
    return rules


def _members_of(name: str, namespace: str) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: namespace}},
        "podSelector": {"matchLabels": selector_labels(name)},
    }


def _ways_out(peers: list[dict[str, Any]], targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the egress rules, none for a single member without publishers."""
    if not peers and not targets:
        return []
    # Where DNS answers differs from cluster to cluster, down to addresses of the node itself.
    dns = {"ports": [{"protocol": "UDP", "port": DNS_PORT}, _tcp(DNS_PORT)]}
    members = [{"to": peers, "ports": [_tcp(MEMBERS_PORT)]}] if peers else []
    return [*members, dns, *targets]


def _network(text: str) -> str:
    """Return a network as Kubernetes wants it: an address alone is written with its length."""
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        return text  # `decide` refuses it: nothing of this is applied


def _tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
