"""The addresses that clients come from, as they are shown and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

_MAPPED: Final = "::ffff:"


def unmap(address: str | None) -> str | None:
    """Return an address as a port for IPv4 alone shows it.

    A port for both protocols shows an IPv4 client as `::ffff:192.0.2.1`.
    """
    if address is None or not address.startswith(_MAPPED):
        return address
    mapped = address.removeprefix(_MAPPED)
    return mapped if "." in mapped and ":" not in mapped else address


def remote_of(transport: asyncio.BaseTransport) -> str | None:
    """Return the address at the other end of a connection, None once the connection is lost."""
    peer = transport.get_extra_info("peername")
    return unmap(str(peer[0])) if peer else None
