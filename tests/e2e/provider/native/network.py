"""Network namespaces and links of a native cluster.

The control plane's namespace holds a bridge; every node hangs on it with one virtual cable and
the host with another. No namespace has a default route: nothing leaves the machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.commands import run, succeeds, wait_until
from tests.e2e.provider.layout import POD_CIDR, SERVICE_CIDR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.e2e.provider.layout import Layout, Machine

BRIDGE: Final = "nodes"
HOST_NUMBER: Final = 254
CUT_TABLE: Final = "inet grid_cut"
NETNS_END_TIMEOUT_S: Final = 20.0
NETNS_DIR: Final = Path("/run/netns")


def create_network(layout: Layout) -> None:
    """Make the namespaces of all machines and connect them."""
    for machine in layout.machines:
        run("ip", "netns", "add", machine.netns)
    _batch(layout.control_plane.netns, _control_plane_links(layout))
    _connect_host(layout)
    for node in layout.workers:
        run(
            *("ip", "-n", layout.control_plane.netns, "link", "add", node.name),
            *("type", "veth", "peer", "name", "eth0", "netns", node.netns),
        )
        _batch(node.netns, _node_links(layout, node))
        _batch(layout.control_plane.netns, _cable_end(node))


def delete_network(layout: Layout) -> None:
    """Delete every namespace and link with this cluster's names; missing ones are no error."""
    for netns in namespaces(layout.prefix):
        wait_until(
            lambda name=netns: not run("ip", "netns", "pids", name).split(),  # type: ignore[misc]
            f"end of all processes in {netns}",
            NETNS_END_TIMEOUT_S,
        )
        run("ip", "netns", "delete", netns)
    link = layout.host_link
    # The kernel takes it away by itself as well, a moment after the namespace of its other end.
    succeeds("ip", "link", "delete", link)
    wait_until(
        lambda: not succeeds("ip", "link", "show", link), f"end of {link}", NETNS_END_TIMEOUT_S
    )


def namespaces(prefix: str) -> list[str]:
    if not NETNS_DIR.is_dir():
        return []
    return sorted(path.name for path in NETNS_DIR.iterdir() if path.name.startswith(prefix))


def cut_traffic(node: Machine, others: Iterable[Machine]) -> None:
    """Drop everything between a node with its pods and other machines with theirs."""
    peers = ", ".join(
        cidr for other in others for cidr in (other.address, other.pod_cidr) if cidr is not None
    )
    chains = "\n".join(
        f"chain {hook} {{ type filter hook {hook} priority raw - 10; policy accept;\n"
        f"ip saddr {{ {peers} }} drop\nip daddr {{ {peers} }} drop\n}}"
        for hook in ("prerouting", "output")
    )
    rules = f"table {CUT_TABLE} {{\n{chains}\n}}\n"
    run("nsenter", f"--net={NETNS_DIR / node.netns}", "nft", "-f", "-", stdin=rules)


def heal_traffic(node: Machine) -> None:
    """Undo `cut_traffic`."""
    rules = f"table {CUT_TABLE} {{}}\ndelete table {CUT_TABLE}\n"
    run("nsenter", f"--net={NETNS_DIR / node.netns}", "nft", "-f", "-", stdin=rules)


def _batch(netns: str, lines: Iterable[str]) -> None:
    run("ip", "-n", netns, "-batch", "-", stdin="\n".join(lines) + "\n")


def _control_plane_links(layout: Layout) -> list[str]:
    return [
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"addr add {layout.control_plane.address}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
        f"route add {SERVICE_CIDR} dev {BRIDGE}",
    ]


def _connect_host(layout: Layout) -> None:
    netns = layout.control_plane.netns
    run(
        *("ip", "link", "add", layout.host_link),
        *("type", "veth", "peer", "name", "host", "netns", netns),
    )
    _batch(netns, [f"link set host master {BRIDGE} up"])
    run("ip", "address", "add", f"{layout.address(HOST_NUMBER)}/24", "dev", layout.host_link)
    run("ip", "link", "set", layout.host_link, "up")


def _node_links(layout: Layout, node: Machine) -> list[str]:
    others = [other for other in layout.workers if other != node]
    return [
        "link set lo up",
        "link set eth0 up",
        f"addr add {node.address}/24 dev eth0",
        # Without a default route the kernel must know some way to a service's address, before
        # the packet filter replaces it.
        f"route add {SERVICE_CIDR} dev eth0",
        *(f"route add {other.pod_cidr} via {other.address}" for other in others),
        f"route add unreachable {POD_CIDR}",
    ]


def _cable_end(node: Machine) -> list[str]:
    return [
        f"link set {node.name} master {BRIDGE} up",
        f"route add {node.pod_cidr} via {node.address}",
    ]
