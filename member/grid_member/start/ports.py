"""Taking ports: those of the listeners, and one for the other members when no setting names it.

A former process of the member may hold the last port to choose from while it ends.

    listed by REST ports    ─▶ the members' port follows from the REST port that was taken
    listed by members'      ─▶ the first of those that the list has for this machine and that is
    ports, nothing on disk     free: the others look at all of them
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_member.http.server.binding import PortError, TakenError, bind, binding_order
from grid_member.start.address import is_local, resolve_host
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.config import ClusterConfig
    from grid_member.config.model.member import ListenerConfig

PORT_PATIENCE_S: Final = 5.0
"""How long who has the last port to choose from may take to end, as with a directory."""
_LOOK_S: Final = 0.05
_CLAIM: Final = "\0grid-members-port-{}"
"""An abstract name, which goes with its socket and is known where the port is: in one network
namespace."""
_log: Final = logging.getLogger("grid.member")
BoundListeners: TypeAlias = "list[tuple[ListenerConfig, list[socket.socket]]]"


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


class GivenUpError(Exception):
    """Nobody waits for the ports any more."""


async def bind_in_time(
    listeners: list[ListenerConfig], given_up: Callable[[], bool]
) -> BoundListeners:
    """Return the listeners with what `bind` returns, as soon as all have a port.

    Meanwhile none is held: a client that comes is refused, and does not wait for an answer.

    Args:
        listeners: of one member.
        given_up: tells whether nobody waits for it any more.

    Raises:
        PortError: as `bind`, which is tried for `PORT_PATIENCE_S` while all ports are taken.
        GivenUpError: the stop came first.
    """
    now_s = asyncio.get_running_loop().time
    ends_s: float | None = None
    while True:
        try:
            return _bind_one(binding_order(listeners))
        except TakenError as error:
            if ends_s is None:
                ends_s = now_s() + PORT_PATIENCE_S
                event(_log, logging.INFO, f"waiting for a port: {error}")
            elif now_s() >= ends_s:
                raise
        if given_up():
            raise GivenUpError
        await asyncio.sleep(_LOOK_S)


def release(bound: BoundListeners) -> None:
    """Give back what nobody is to listen at."""
    for _, sockets in bound:
        for one in sockets:
            one.close()


def _bind_one(listeners: list[ListenerConfig]) -> BoundListeners:
    with contextlib.ExitStack() as unserved:
        bound: BoundListeners = []
        for listener in listeners:
            sockets = bind(listener)
            bound.append((listener, sockets))
            for one in sockets:
                unserved.enter_context(one)
        unserved.pop_all()
    return bound


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
