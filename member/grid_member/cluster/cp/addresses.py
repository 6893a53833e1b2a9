"""The other form of a member's address, which some answers use."""

from __future__ import annotations


def bracket(address: str) -> str:
    """Return `[host]:port` for `host:port` or `[IPv6]:port`."""
    host, colon, port = address.rpartition(":")
    return address if host.startswith("[") else f"[{host}]{colon}{port}"
