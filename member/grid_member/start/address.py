"""The addresses of this machine: the one a member shows, and those that the list of members has.

Whether the list names the member that reads it is a hint, never more: names may be resolved
elsewhere in other ways, and addresses be translated on the way.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import threading
from typing import TYPE_CHECKING, Final

from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_member.config import ClusterConfig, MemberConfig

UNLISTED: Final = (
    "no address in join.tcp-ip.member-list is one of this machine with the members' port of this "
    "member: list every member where the others reach it, or they may not find it"
)
_ANY: Final = "*"
_ELSEWHERE: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses that belong to nobody (RFC 5737, RFC 3849): asked for the way to them only."""
_LOOPBACK: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_log: Final = logging.getLogger("grid.member")


def shown_address(config: MemberConfig, port: int) -> str:
    """Return `host:port`, an IPv6 host in brackets.

    The public address comes first, with its own port if it has one; then the address listened on;
    for a listener on every address the one this machine would use to reach others.
    """
    if config.public_address is not None:
        host, own_port = _split(config.public_address)
        return _join(host, own_port or str(port))
    listener = config.rest or config.management
    return _join(_reachable(listener.interfaces[0] if listener else _ANY), str(port))


def _split(address: str) -> tuple[str, str]:
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        return host, port.removeprefix(":")
    if address.count(":") == 1:
        host, _, port = address.partition(":")
        return host, port
    return address, ""


def _join(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reachable(interface: str) -> str:
    if interface == _ANY:
        families = [socket.AF_INET, socket.AF_INET6]
    elif not ipaddress.ip_address(interface).is_unspecified:
        return interface
    else:
        families = [socket.AF_INET6 if ":" in interface else socket.AF_INET]
    found = (_own_address(family) for family in families)
    return next((address for address in found if address), _LOOPBACK[families[0]])


def _own_address(family: socket.AddressFamily) -> str | None:
    try:
        # Connecting a datagram socket sends nothing; it only asks which address would be used.
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_ELSEWHERE[family], 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def warn_unless_listed(cluster: ClusterConfig) -> None:
    """Look in the background whether the list names this member, and log when it does not.

    Nothing waits for the look: a name may take its time, and a stop does not.
    """
    threading.Thread(target=_look, args=(cluster,), name="grid-listed", daemon=True).start()


def is_listed(cluster: ClusterConfig, resolve: Callable[[str], Iterable[str]]) -> bool:
    """Tell whether an entry with this member's port leads to this machine."""
    hosts = [host for host, port in cluster.members if port == cluster.port]
    return any(is_local(address) for host in hosts for address in resolve(host))


def _look(cluster: ClusterConfig) -> None:
    if not is_listed(cluster, resolve_host):
        event(_log, logging.WARNING, UNLISTED, port=cluster.port)


def resolve_host(host: str) -> set[str]:
    """Return the addresses of a host; none when it has none. Blocks."""
    with contextlib.suppress(OSError, UnicodeError):
        return {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    return set()


def is_local(address: str) -> bool:
    """Tell whether an IP address is one of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Only an address of one's own can be bound; a datagram socket disturbs no listener.
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False
