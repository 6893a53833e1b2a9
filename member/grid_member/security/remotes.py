"""The addresses that clients come from, as they are shown and counted."""

from __future__ import annotations

from typing import Final

_MAPPED: Final = "::ffff:"


def unmap(address: str | None) -> str | None:
    """Return an address as a port for IPv4 alone shows it.

    A port for both protocols shows an IPv4 client as `::ffff:192.0.2.1`.
    """
    if address is None or not address.startswith(_MAPPED):
        return address
    mapped = address.removeprefix(_MAPPED)
    return mapped if "." in mapped and ":" not in mapped else address
