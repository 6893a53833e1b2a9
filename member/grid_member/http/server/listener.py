"""Listening ports: binding them, counting their connections, closing them gently."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.io.ending import end_tasks
from grid_member.engine.io.listening import close_servers
from grid_member.http.fastpath.context import FastPathContext, has_fast_path
from grid_member.http.metrics.request_counting import ListenerFigures, measured
from grid_member.http.routes.calls import ConnectionCounts
from grid_member.http.server.admission import (
    Admission,
    is_probe,
    open_files_limit,
    room,
    warn_of_room,
)
from grid_member.http.server.factory import ConnectionFactory
from grid_member.http.server.service import Service
from grid_member.http.wire.answers import WireResponse
from grid_member.http.wire.connection import connection_of
from grid_member.http.wire.context import ConnectionContext
from grid_member.http.wire.uploads import Uploads
from grid_member.security.tls import ServerTls, keep_fresh
from grid_member.security.tls_connection import TlsListener
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from aiohttp import web

    from grid_member.cluster.member.member import Member
    from grid_member.config.model.member import ListenerConfig
    from grid_member.http.metrics.request_counting import RequestHandler
    from grid_member.http.server.admission import Room
    from grid_member.http.server.wan_service import WanService
    from grid_member.wan.figures import WanFigures
    from grid_member.wan.receiver import Receiver

BACKLOG_CONNECTIONS: Final = 2048
KEEPALIVE_IDLE_S: Final = 20
"""Until the system asks whether the other end of a quiet connection is still there."""
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 4
"""With so many unanswered the connection is lost: forty seconds after the last sign."""
MOST_EARS: Final = 8
"""Sockets by which a listener accepts on uvloop, duplicates of its own; each is a file."""
MAX_PORT: Final = 65535
ANY_PORT_ATTEMPTS: Final = 16
"""How often the system is asked for a port that is free on all interfaces at once."""
_ANY: Final = "*"
_log: Final = logging.getLogger("grid.http")


class PortError(Exception):
    """No port could be taken; the message says which were tried and what to do."""


class TakenError(PortError):
    """None of the ports is free now."""


def bind(listener: ListenerConfig) -> list[socket.socket]:
    """Return a listening socket for each interface, all on the first port that is free.

    Raises:
        PortError: an interface does not exist; `TakenError`: none of the ports is free.
    """
    ports = _candidates(listener)
    for port in ports:
        try:
            return _bind_all(port, listener.interfaces)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise _cannot_listen(listener, port, problem) from None
    raise _taken_error(listener, ports)


def binding_order(listeners: list[ListenerConfig]) -> list[ListenerConfig]:
    """Return the listeners of a member, those with the fewest ports to choose from first.

    Who has a choice then leaves the others theirs; any port at all is chosen last.
    """
    return sorted(listeners, key=lambda each: (each.port == 0, len(_candidates(each))))


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


def _taken_error(listener: ListenerConfig, ports: range | list[int]) -> TakenError:
    setting = listener.port_setting
    if listener.port == 0:
        return TakenError(f"no port is free on every interface at once; choose one in {setting}")
    if len(ports) == 1:
        hint = "" if listener.auto_increment else ", or its auto-increment"
        return TakenError(
            f"port {listener.port} is taken; stop what uses it or change {setting}{hint}"
        )
    return TakenError(
        f"all ports {ports[0]} to {ports[-1]} are taken; "
        f"stop what uses one of them or change {setting}"
    )


def _bind_all(port: int, interfaces: tuple[str, ...]) -> list[socket.socket]:
    with contextlib.ExitStack() as undo:
        sockets: list[socket.socket] = []
        for interface in interfaces:
            bound = undo.enter_context(_bind_one(interface, port))
            port = bound.getsockname()[1]
            sockets.append(bound)
        undo.pop_all()
    return sockets


def _bind_one(interface: str, port: int) -> socket.socket:
    dual = interface == _ANY and socket.has_dualstack_ipv6()
    host = interface if interface != _ANY else "::" if dual else "0.0.0.0"  # noqa: S104
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections have these from here: no poll waits for a machine that is gone.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
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
class _OpenListener:
    config: ListenerConfig
    service: Service | WanService | None
    """None shows metrics."""
    factory: ConnectionFactory
    tls: TlsListener | None
    servers: list[asyncio.Server]


def ears(sock: socket.socket, count: int, loop: asyncio.AbstractEventLoop) -> list[socket.socket]:
    """Return the listening socket as often as a loop needs it to accept so many at once.

    uvloop accepts one connection of a socket in each turn. While many connections are busy a turn
    is long, and new ones, probes among them, would wait behind all that came before.
    """
    if isinstance(loop, asyncio.BaseEventLoop):
        return [sock]
    return [sock, *(sock.dup() for _ in range(count - 1))]


class WanParts(Protocol):
    """What a member has of WAN replication, as the listeners need it."""

    @property
    def receiver(self) -> Receiver:
        """Takes the batches of other clusters."""

    @property
    def figures(self) -> WanFigures:
        """What was counted."""


class Listeners:
    """The ports of one member."""

    def __init__(self, member: Member, wan: WanParts | None = None) -> None:
        """Take the member, and what its WAN listener hands batches to, if it has one."""
        self._member = member
        self._wan = wan
        self._open: list[_OpenListener] = []
        self._tls: dict[str, ServerTls] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._room: Room | None = None

    def counts(self) -> ConnectionCounts:
        """Return how many connections are open now."""
        sizes = [(o.config.kind, len(o.factory.context.watch)) for o in self._open]
        clients = sum(size for kind, size in sizes if kind == "rest")
        return ConnectionCounts(clients, sum(size for _, size in sizes))

    def uploads(self, kind: str) -> Uploads:
        """Return what counts the bodies of the open listener of this kind."""
        return next(o.factory.context.uploads for o in self._open if o.config.kind == kind)

    def figures(self) -> list[ListenerFigures]:
        """Return what each listener has to tell."""
        return [
            ListenerFigures(
                kind=o.config.kind,
                connections=len(o.factory.context.watch),
                refused_count=o.factory.admission.refused_count,
                slowed_logins=o.service.slowed_logins if o.service else 0,
            )
            for o in self._open
        ]

    def _service(self, config: ListenerConfig) -> Service | WanService | None:
        if config.metrics:
            return None
        if not config.wan or self._wan is None:
            return Service(self._member, config, self.counts)
        from grid_member.http.server.wan_service import WanService  # loaded only where it is used

        return WanService(self._member, config, self._wan.receiver)

    def _handler_of(self, service: Service | WanService | None) -> RequestHandler:
        measurements = self._member.measurements
        if service is None:
            from grid_member.http.metrics.member import (
                MetricsService,  # loaded only where it is used
            )

            wan = None if self._wan is None else self._wan.figures
            return MetricsService(self._member, self.figures, wan).answer
        return service.answer if measurements is None else measured(service.answer, measurements)

    def _factory(
        self, config: ListenerConfig, service: Service | WanService | None
    ) -> ConnectionFactory:
        answering = self._handler_of(service)
        admission = Admission(self._shared_room(), config.kind)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            connection = connection_of(request)
            if not connection.crowded:
                answer = await answering(request)
            elif is_probe(request):
                answer = replace(await answering(request), close=True)
            else:
                answer = admission.refuse()
            return WireResponse(answer, connection)

        own = self._member.config
        context = ConnectionContext(own.limits, own.http, Uploads(), admission.refuse)
        context.draining = lambda: self._member.draining
        if service is not None and self._member.measurements is not None:
            context.on_refusal = self._member.measurements.count_refusal
        factory = ConnectionFactory(handle, context, admission)
        if has_fast_path(config, own):
            shared = context.watch, context.uploads, factory.take_over, context.receipts
            factory.fast_path = FastPathContext(self._member, *shared)
        return factory

    def _shared_room(self) -> Room:
        if self._room is None:
            own, files = self._member.config, open_files_limit()
            listeners = own.rest, own.management, own.metrics, own.wan_listener
            count = sum(config is not None for config in listeners)
            self._room = room(own.http.max_connections, files, count)
            warn_of_room(self._room, own.http.max_connections, files)
        return self._room

    def prepare(self, config: ListenerConfig) -> None:
        """Read the files of a listener that speaks TLS; `open` does it otherwise.

        Raises:
            TlsError: they cannot be used.
        """
        if config.tls is not None and config.tls.setting not in self._tls:
            self._tls[config.tls.setting] = ServerTls(config.tls)

    async def open(self, config: ListenerConfig, sockets: list[socket.socket]) -> int:
        """Serve on bound sockets; return their port."""
        self.prepare(config)
        service = self._service(config)
        factory = self._factory(config, service)
        loop = asyncio.get_running_loop()
        tls = None
        if config.tls is not None:
            tls = TlsListener(factory, self._tls[config.tls.setting], crowded=factory.full)
            factory.handshaking = partial(getattr, tls, "handshaking")
        at_once = max(1, factory.admission.room.accepted_at_once // len(sockets))
        count = min(at_once, max(1, MOST_EARS // len(sockets)))
        servers = [
            await loop.create_server(tls or factory, sock=ear, backlog=at_once)
            for sock in sockets
            for ear in ears(sock, count, loop)
        ]
        for sock in sockets:
            # asyncio takes the one number for both: how many wait, how many it accepts at once.
            sock.listen(BACKLOG_CONNECTIONS)
        self._open.append(_OpenListener(config, service, factory, tls, servers))
        self._refresh()
        port = int(sockets[0].getsockname()[1])
        event(
            _log,
            logging.INFO,
            "listening",
            listener=config.kind,
            port=port,
            tls=tls is not None,
            groups=",".join(sorted(group.value for group in config.groups)),
        )
        return port

    def _refresh(self) -> None:
        if self._tls and self._refreshing is None:
            polling = keep_fresh(
                self._tls.values(), wait=asyncio.sleep, in_thread=asyncio.to_thread
            )
            self._refreshing = asyncio.create_task(polling)

    async def close(self, grace_s: float) -> None:
        """Take no new connection, let answers that are under way finish, close the rest."""
        await end_tasks(self._refreshing)
        await close_servers([server for opened in self._open for server in opened.servers])
        for opened in self._open:
            if opened.tls is not None:
                opened.tls.close()
        await asyncio.gather(*(opened.factory.finish(grace_s) for opened in self._open))
