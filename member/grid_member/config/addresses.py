"""The addresses that members of a TCP/IP join are written as."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

MAX_ADDRESSES: Final = 256
"""In one list."""
MAX_HOST_CHARACTERS: Final = 253
MAX_PORT: Final = 65535
ADDRESS_FORMS: Final = "host, host:port, [IPv6] or [IPv6]:port"
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_NUMERIC: Final = re.compile(r"[0-9.]+", re.ASCII)
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


def is_address(text: str) -> bool:
    """Tell whether a text is a host name or an IP address, with or without a port."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        return bool(bracket) and _is_ip(host, 6) and (not rest or _is_port(rest))
    if text.count(":") > 1:
        return _is_ip(text, 6)
    host, colon, _ = text.partition(":")
    return _is_host(host) and (not colon or _is_port(text[len(host) :]))


def split_address(text: str) -> tuple[str, int | None]:
    """Return host, of IPv6 without brackets, and port of what `is_address` takes."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
    elif text.count(":") > 1:
        return text, None
    else:
        host, _, rest = text.partition(":")
    port = rest.removeprefix(":")
    return host, int(port) if port else None


def host_key(host: str) -> str:
    """Return the same text for all ways to write a host."""
    try:
        return ipaddress.ip_address(host).compressed
    except ValueError:
        return host.removesuffix(".").lower()


def _is_port(text: str) -> bool:
    number = text.removeprefix(":")
    return number != text and bool(_PORT.fullmatch(number)) and int(number) <= MAX_PORT


def _is_host(text: str) -> bool:
    if _NUMERIC.fullmatch(text):
        return _is_ip(text, 4)
    return len(text) <= MAX_HOST_CHARACTERS and bool(_HOST.fullmatch(text))


def _is_ip(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False
