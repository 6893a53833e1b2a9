"""NetworkPolicy objects compiled to packet filter rules of one node.

The bridge plug-in enforces no policies, so the native provider does it: per node one nftables
table on the forward hook, which sees the packets between pods (also those of one node, through
the bridge) behind the translation of service addresses. Packets of the node itself, such as
the kubelet's probes, do not pass that hook: they are always allowed, as Kubernetes demands.

Connections that are open when a policy comes are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal

from tests.e2e.provider.native.selectors import selects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TABLE: Final = "inet grid_netpol"
Direction = Literal["Ingress", "Egress"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("Ingress", "Egress")
# Which address of a packet is the pod's own, and which is the other side's.
OWN: Final[Mapping[Direction, str]] = {"Ingress": "daddr", "Egress": "saddr"}
OTHER: Final[Mapping[Direction, str]] = {"Ingress": "saddr", "Egress": "daddr"}
RULES_KEY: Final[Mapping[Direction, str]] = {"Ingress": "ingress", "Egress": "egress"}
PEERS_KEY: Final[Mapping[Direction, str]] = {"Ingress": "from", "Egress": "to"}


@dataclass(frozen=True, slots=True)
class Pod:
    """What policies know of a pod."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    address: str
    node: str
    ports: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Named container ports by name and protocol, in lower case."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that decides which connections are allowed."""

    pods: Sequence[Pod]
    namespaces: Mapping[str, Mapping[str, str]]
    policies: Sequence[Mapping[str, Any]]


def pod_of(obj: Mapping[str, Any]) -> Pod | None:
    """Return a pod object's part in policies, or None while it has no address of its own."""
    spec, status, metadata = obj["spec"], obj.get("status", {}), obj["metadata"]
    address = status.get("podIP")
    over = status.get("phase") in ("Succeeded", "Failed")
    if not address or over or spec.get("hostNetwork"):
        return None
    ports = {
        (port["name"], _protocol(port)): int(port["containerPort"])
        for container in spec["containers"]
        for port in container.get("ports") or ()
        if "name" in port
    }
    labels = metadata.get("labels") or {}
    node = spec.get("nodeName", "")
    return Pod(metadata["namespace"], metadata["name"], labels, address, node, ports)


def node_ruleset(snapshot: Snapshot, node: str) -> str:
    """Return the nft script that replaces a node's rules with those of the snapshot."""
    chains: list[str] = []
    jumps: list[str] = []
    for number, pod in enumerate(sorted_pods(snapshot.pods, node)):
        for direction in DIRECTIONS:
            policies = [p for p in snapshot.policies if _isolates(p, pod, direction)]
            if not policies:
                continue
            chain = f"pod{number}_{direction.lower()}"
            rules = sorted({r for p in policies for r in _rules(snapshot, p, pod, direction)})
            chains.append(_chain(chain, [*rules, "drop"]))
            jumps.append(f"ip {OWN[direction]} {pod.address} jump {chain}")
    base = _chain(
        "forward",
        [
            "type filter hook forward priority filter - 10; policy accept;",
            "ct state established,related accept",
            *jumps,
        ],
    )
    body = "\n".join([*chains, base])
    return f"table {TABLE} {{}}\ndelete table {TABLE}\ntable {TABLE} {{\n{body}\n}}\n"


def sorted_pods(pods: Iterable[Pod], node: str) -> list[Pod]:
    """Return the pods of a node in the order of their names: equal input gives equal rules."""
    return sorted((p for p in pods if p.node == node), key=lambda p: (p.namespace, p.name))


def _chain(name: str, lines: Iterable[str]) -> str:
    return f"chain {name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}"


def _isolates(policy: Mapping[str, Any], pod: Pod, direction: Direction) -> bool:
    spec = policy["spec"]
    default_types = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    return (
        policy["metadata"]["namespace"] == pod.namespace
        and direction in (spec.get("policyTypes") or default_types)
        and selects(spec.get("podSelector") or {}, pod.labels)
    )


def _rules(
    snapshot: Snapshot, policy: Mapping[str, Any], pod: Pod, direction: Direction
) -> Iterator[str]:
    namespace = policy["metadata"]["namespace"]
    for rule in policy["spec"].get(RULES_KEY[direction]) or ():
        for peer in _peer_matches(snapshot, namespace, rule.get(PEERS_KEY[direction]), direction):
            for port in _port_matches(snapshot, rule.get("ports"), pod, direction):
                yield " ".join(word for word in (peer, port, "return") if word)


def _peer_matches(
    snapshot: Snapshot,
    namespace: str,
    peers: Sequence[Mapping[str, Any]] | None,
    direction: Direction,
) -> Iterator[str]:
    if not peers:
        yield ""
    for peer in peers or ():
        if block := peer.get("ipBlock"):
            yield from _block_matches(block, direction)
            continue
        addresses = sorted(p.address for p in _peer_pods(snapshot, namespace, peer))
        if addresses:
            yield f"ip {OTHER[direction]} {{ {', '.join(addresses)} }}"


def _block_matches(block: Mapping[str, Any], direction: Direction) -> Iterator[str]:
    network = str(block["cidr"])
    if ip_address(network.partition("/")[0]).version != 4:
        return  # the test network has no other family
    exceptions = block.get("except") or ()
    without = f" ip {OTHER[direction]} != {{ {', '.join(exceptions)} }}" if exceptions else ""
    yield f"ip {OTHER[direction]} {network}{without}"


def _peer_pods(snapshot: Snapshot, namespace: str, peer: Mapping[str, Any]) -> Iterator[Pod]:
    in_namespace = peer.get("namespaceSelector")
    for pod in snapshot.pods:
        if in_namespace is None:
            near = pod.namespace == namespace
        else:
            near = selects(in_namespace, snapshot.namespaces.get(pod.namespace, {}))
        if near and selects(peer.get("podSelector") or {}, pod.labels):
            yield pod


def _port_matches(
    snapshot: Snapshot,
    ports: Sequence[Mapping[str, Any]] | None,
    pod: Pod,
    direction: Direction,
) -> Iterator[str]:
    if not ports:
        yield ""
    for entry in ports or ():
        protocol, port = _protocol(entry), entry.get("port")
        if port is None:
            yield f"meta l4proto {protocol}"
        elif isinstance(port, int):
            last = f"-{entry['endPort']}" if "endPort" in entry else ""
            yield f"{protocol} dport {port}{last}"
        else:
            yield from _named_port_matches(snapshot, port, protocol, pod, direction)


def _protocol(port: Mapping[str, Any]) -> str:
    return str(port.get("protocol", "TCP")).lower()


def _named_port_matches(
    snapshot: Snapshot, name: str, protocol: str, pod: Pod, direction: Direction
) -> Iterator[str]:
    # A name means the receiving pod's container port.
    if direction == "Ingress":
        if (number := pod.ports.get((name, protocol))) is not None:
            yield f"{protocol} dport {number}"
        return
    for other in snapshot.pods:
        if (number := other.ports.get((name, protocol))) is not None:
            yield f"ip daddr {other.address} {protocol} dport {number}"
