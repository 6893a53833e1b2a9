"""The addresses that members of a TCP/IP join are written as.

A host is what resolvers take: labels of letters, digits, hyphens and, though RFC 1123 has none,
underscores, which the names of containers have. A name whose last label is a number is none, as in
the URL standard: resolvers take it for an IPv4 address.
"""

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
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?", re.ASCII)
"""What a resolver takes for an IPv4 address."""
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_RANGE: Final = re.compile(r"[0-9]+(?:-[0-9]*)?(?:\.[0-9]*(?:-[0-9]*)?){3}", re.ASCII)
_RANGE6: Final = re.compile(r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*-[0-9A-Fa-f:.]*", re.ASCII)
_BROADCAST: Final = "255.255.255.255"
_PATTERN: Final = re.compile(r"(?=.*[.:])[0-9A-Fa-f.:]*[*-][0-9A-Fa-f.:*-]*", re.ASCII)
_EACH: Final = "write the address of each member as an item of its own"
_WRITE: Final = f"write {ADDRESS_FORMS}"


def member_problem(text: str) -> str | None:
    """Return why a text cannot be an item of a member list, None when it can.

    What it returns says what to write and quotes nothing: in a wrong place the text may be a
    password.
    """
    problem = _shape_problem(text) or _parts_problem(text)
    if problem is not None:
        return problem
    host, _ = split_address(text)
    if "%" in host:
        return "has a zone, which other machines do not know: leave out the % and what follows it"
    if is_ip(host):
        found = ipaddress.ip_address(host)
        if found.is_unspecified or found.is_multicast or host == _BROADCAST:
            return "is not the address of one machine: write that of the member"
    return None


def is_address(text: str) -> bool:
    """Tell whether a text is a host name or an IP address, with or without a port."""
    return _shape_problem(text) is None and _parts_problem(text) is None


def is_pattern(text: str) -> bool:
    """Tell whether a text stands for several IP addresses, which does no harm where it is off."""
    return bool(_PATTERN.fullmatch(text)) and not is_address(text)


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


def _shape_problem(text: str) -> str | None:
    """Return what a text is that is an address of something else, or of several."""
    for sign, problem in _SIGNS.items():
        if sign in text:
            return problem
    if any(character.isspace() for character in text):
        return f"holds spaces: {_EACH}"
    if not text.isascii():
        return "is not in ASCII: write a host name as xn--..."
    host, _, port = text.rpartition(":")
    if re.fullmatch(r"[0-9]+-[0-9]*", port, re.ASCII) and host and not host.endswith(":"):
        return "holds a range of ports: write the one port of the member"
    if (_RANGE.fullmatch(text.partition(":")[0]) and "-" in text) or _RANGE6.fullmatch(text):
        return f"is a range of addresses, which names no member: {_EACH}"
    return None


_SIGNS: Final = {
    "://": "is a URL: write its host and port alone",
    "@": "holds a user: write host and port alone, an identity is set in security.realms",
    "/": "holds a slash, as a network or a path has: write the address of one member",
    "*": f"holds a wildcard, which names no member: {_EACH}",
    ";": f"holds a semicolon: {_EACH}",
    ",": f"holds a comma: {_EACH}",
    "$": "holds a $: write a variable as ${NAME}",
}


def _parts_problem(text: str) -> str | None:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return f"has brackets that do not fit: {_WRITE}"
        if not is_ip(host, 6):
            return f"has brackets and no IPv6 address in them: {_WRITE}"
        return _port_problem(rest)
    if text.count(":") > 1:
        return None if is_ip(text, 6) else f"is no IPv6 address: {_WRITE}"
    host, _, _ = text.partition(":")
    return _host_problem(host) or _port_problem(text[len(host) :])


def _port_problem(text: str) -> str | None:
    number = text.removeprefix(":")
    if not text or (_PORT.fullmatch(number) and int(number) <= MAX_PORT):
        return None
    return f"must have a port from 1 to {MAX_PORT}, or none, behind the colon"


def _host_problem(host: str) -> str | None:
    if _NUMERIC.fullmatch(host) and not is_ip(host, 4):
        return "ends in a number and is no IPv4 address, which has four from 0 to 255"
    if len(host) <= MAX_HOST_CHARACTERS and _HOST.fullmatch(host):
        return None
    return f"is neither an IP address nor a host name: {_WRITE}"


def is_ip(text: str, *versions: int) -> bool:
    """Tell whether a text is an IP address, of one of the versions if any are given."""
    try:
        found = ipaddress.ip_address(text).version
    except ValueError:
        return False
    return not versions or found in versions
