"""Whether the list of members names the member that reads it: a hint, never more.

Names may be resolved elsewhere in other ways, and addresses be translated on the way.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_member.config import ClusterConfig

    Resolve: TypeAlias = Callable[[str], Iterable[str]]

UNLISTED: Final = (
    "no address in join.tcp-ip.member-list is one of this machine with the members' port of this "
    "member: list every member where the others reach it, or they may not find it"
)
_log: Final = logging.getLogger("grid.member")


def warn_unless_listed(cluster: ClusterConfig) -> None:
    """Look in the background whether the list names this member, and log when it does not.

    Nothing waits for the look: a name may take its time, and a stop does not.
    """
    threading.Thread(target=_look, args=(cluster,), name="grid-listed", daemon=True).start()


def is_listed(cluster: ClusterConfig, resolve: Resolve) -> bool:
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
