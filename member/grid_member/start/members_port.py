"""Which port a member listens at for the others, when its configuration does not name one.

listed by REST ports    ─▶ it follows from the REST port that was taken
listed by members'      ─▶ the first of those that the list has for this machine and that is
ports, nothing on disk     free: the others look at all of them
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from typing import TYPE_CHECKING, Final

from grid_member.config.model.cluster import MEMBERS_PORT_OFFSET
from grid_member.http.server.listener import PortError
from grid_member.start.list_check import is_local, resolve_host
from grid_member.start.ports import PORT_PATIENCE_S, GivenUpError
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.config import ClusterConfig

_CLAIM: Final = "\0grid-members-port-{}"
"""An abstract name, which goes with its socket and is known where the port is: in one network
namespace."""
_LOOK_S: Final = 0.05
_log: Final = logging.getLogger("grid.member")


class Claim:
    """A members' port that no other member of this machine chooses meanwhile."""

    def __init__(self, port: int, held: socket.socket | None) -> None:
        """Hold it."""
        self.port = port
        self._socket = held

    def release(self) -> None:
        """Leave it to others."""
        if self._socket is not None:
            self._socket.close()


def members_port(cluster: ClusterConfig, rest_port: int) -> int:
    """Return the members' port of a member that has taken a REST port."""
    return rest_port + MEMBERS_PORT_OFFSET if cluster.by_rest_ports else cluster.port


async def claim_members_port(cluster: ClusterConfig, given_up: Callable[[], bool]) -> Claim | None:
    """Return the members' port of a member that may choose; None: it is the configured one.

    Args:
        cluster: how the member finds the others.
        given_up: tells whether nobody waits for it any more.

    Raises:
        PortError: for `PORT_PATIENCE_S` none was free.
        GivenUpError: the stop came first.
    """
    listed = {port for _, port in cluster.members}
    if not cluster.steps_aside or listed == {cluster.port}:
        return None  # no name is looked up where there is nothing to choose
    ports = await asyncio.to_thread(_ports_here, cluster)
    if not ports:
        return None
    clock = asyncio.get_running_loop().time
    ends_s = clock() + PORT_PATIENCE_S
    while not given_up():
        for port in ports:
            claim = _claim(cluster.host, port)
            if claim is not None:
                if port != cluster.port:
                    event(_log, logging.INFO, "members' port chosen from the list", port=port)
                return claim
        if clock() >= ends_s:
            raise PortError(_all_taken(ports))
        await asyncio.sleep(_LOOK_S)
    raise GivenUpError


def _all_taken(ports: list[int]) -> str:
    return (
        f"all members' ports that the list has for this machine are taken "
        f"({', '.join(map(str, ports))}): list another one, or stop what has one of them; "
        "network.cluster.port: {port: …} names the port of this member"
    )


def _ports_here(cluster: ClusterConfig) -> list[int]:
    """Return the ports that the list has for this machine, the configured one first. Blocks."""
    hosts = {host for host, _ in cluster.members}
    here = {host for host in hosts if any(map(is_local, resolve_host(host)))}
    ports = {port: None for host, port in cluster.members if host in here}
    return sorted(ports, key=lambda port: port != cluster.port)


def _claim(host: str, port: int) -> Claim | None:
    with contextlib.ExitStack() as unclaimed:
        held = None
        if sys.platform == "linux":
            held = unclaimed.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            if held is not None:
                held.bind(_CLAIM.format(port))
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind((host, port))
        except OSError:
            return None
        unclaimed.pop_all()
        return Claim(port, held)
