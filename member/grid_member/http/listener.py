"""Listening ports: binding them, counting their connections, closing them gently."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.cluster.logs import event
from grid_member.http.answers import WireResponse
from grid_member.http.calls import ConnectionCounts
from grid_member.http.connection import ConnectionFactory, ConnectionProtocol
from grid_member.http.service import Service

if TYPE_CHECKING:
    from aiohttp import web

    from grid_member.cluster.member import Member
    from grid_member.config.model import ListenerConfig

BACKLOG_CONNECTIONS: Final = 2048
MAX_PORT: Final = 65535
ANY_PORT_ATTEMPTS: Final = 16
"""How often the system is asked for a port that is free on all interfaces at once."""
_ANY: Final = "*"
_log: Final = logging.getLogger("grid.http")


class PortError(Exception):
    """No port could be taken; the message says which were tried and what to do."""


def bind(listener: ListenerConfig) -> list[socket.socket]:
    """Return a listening socket for each interface, all on the first port that is free.

    Raises:
        PortError: none of the ports is free, or an interface does not exist.
    """
    ports = _candidates(listener)
    for port in ports:
        try:
            return _bind_all(port, listener.interfaces)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise _cannot_listen(listener, port, problem) from None
    raise _taken(listener, ports)


def _candidates(listener: ListenerConfig) -> range | list[int]:
    if listener.port == 0:
        return [0] * ANY_PORT_ATTEMPTS
    count = listener.port_count if listener.auto_increment else 1
    return range(listener.port, min(listener.port + count - 1, MAX_PORT) + 1)


def _cannot_listen(listener: ListenerConfig, port: int, problem: OSError) -> PortError:
    if problem.errno in (errno.EACCES, errno.EPERM):
        return PortError(
            f"no right to listen on port {port}: "
            f"change {listener.port_setting}, usually to one above 1023"
        )
    where = ", ".join(listener.interfaces)
    if problem.errno == errno.EADDRNOTAVAIL:
        return PortError(
            f"cannot listen on {where}: this machine has no such address; "
            f"change the interfaces that go with {listener.port_setting}"
        )
    return PortError(f"cannot listen on {where}: {problem.strerror}")


def _taken(listener: ListenerConfig, ports: range | list[int]) -> PortError:
    setting = listener.port_setting
    if listener.port == 0:
        return PortError(f"no port is free on every interface at once; choose one in {setting}")
    if len(ports) == 1:
        hint = "" if listener.auto_increment else ", or its auto-increment"
        return PortError(
            f"port {listener.port} is taken; stop what uses it or change {setting}{hint}"
        )
    return PortError(
        f"all ports {ports[0]} to {ports[-1]} are taken; "
        f"stop what uses one of them or change {setting}"
    )


def _bind_all(port: int, interfaces: tuple[str, ...]) -> list[socket.socket]:
    with contextlib.ExitStack() as undo:
        sockets: list[socket.socket] = []
        for interface in interfaces:
            bound = undo.enter_context(_bound(interface, port))
            port = bound.getsockname()[1]
            sockets.append(bound)
        undo.pop_all()
    return sockets


def _bound(interface: str, port: int) -> socket.socket:
    dual = interface == _ANY and socket.has_dualstack_ipv6()
    host = interface if interface != _ANY else "::" if dual else "0.0.0.0"  # noqa: S104
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # An address that was written as IPv6 stands for IPv6 alone, `*` for both.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual)
        sock.bind((host, port))
        # Two sockets may bind one port, only one may listen: a taken port shows here.
        sock.listen(BACKLOG_CONNECTIONS)
    except OSError:
        sock.close()
        raise
    return sock


@dataclass(slots=True)
class _Open:
    config: ListenerConfig
    factory: ConnectionFactory
    servers: list[asyncio.Server]


class Listeners:
    """The REST port and the management port of one member."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._open: list[_Open] = []

    def counts(self) -> ConnectionCounts:
        """Return how many connections are open now."""
        sizes = [(o.config.users is None, len(o.factory.connections)) for o in self._open]
        clients = sum(size for public, size in sizes if public)
        return ConnectionCounts(clients, sum(size for _, size in sizes))

    async def open(self, config: ListenerConfig, sockets: list[socket.socket]) -> int:
        """Serve on bound sockets; return their port."""
        service = Service(self._member, config, self.counts)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            answer = await service.answer(request)
            protocol = request.protocol
            if not isinstance(protocol, ConnectionProtocol):
                raise ConnectionResetError("not one of our connections")
            return WireResponse(answer, protocol)

        factory = ConnectionFactory(handle, self._member.config.limits)
        loop = asyncio.get_running_loop()
        servers = [
            await loop.create_server(factory, sock=sock, backlog=BACKLOG_CONNECTIONS)
            for sock in sockets
        ]
        self._open.append(_Open(config, factory, servers))
        port = int(sockets[0].getsockname()[1])
        kind = "rest" if config.users is None else "management"
        event(
            _log,
            logging.INFO,
            "listening",
            listener=kind,
            port=port,
            groups=",".join(sorted(group.value for group in config.groups)),
        )
        return port

    async def close(self, grace_s: float) -> None:
        """Take no new connection, let answers that are under way finish, close the rest."""
        loop = asyncio.get_running_loop()
        servers = [server for opened in self._open for server in opened.servers]
        for server in servers:
            for listening in server.sockets:
                loop.remove_reader(listening.fileno())
        # What was accepted a moment ago must be a connection before its server closes, or it leaks.
        await asyncio.sleep(0)
        for server in servers:
            server.close()
        await asyncio.gather(*(opened.factory.finish(grace_s) for opened in self._open))
