"""The address a member shows for itself in the cluster document."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.config import MemberConfig

_ANY: Final = "*"
_ELSEWHERE: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses that belong to nobody (RFC 5737, RFC 3849): asked for the way to them only."""
_LOOPBACK: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


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
