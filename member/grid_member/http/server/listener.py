"""Listeners: what each serves, counting their connections, closing them gently."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.io.ending import end_tasks
from grid_member.engine.io.listening import close_servers
from grid_member.http.fastpath.context import FastPathContext, has_fast_path
from grid_member.http.metrics.request_counting import ListenerFigures
from grid_member.http.routes.calls import ConnectionCounts
from grid_member.http.server.admission import (
    Admission,
    is_probe,
    open_files_limit,
    room,
    warn_of_room,
)
from grid_member.http.server.binding import BACKLOG_CONNECTIONS
from grid_member.http.server.factory import ConnectionFactory
from grid_member.http.server.services import Services
from grid_member.http.wire.answers import WireResponse
from grid_member.http.wire.connection import connection_of
from grid_member.http.wire.context import ConnectionContext
from grid_member.http.wire.uploads import Uploads
from grid_member.security.tls import ServerTls, keep_fresh
from grid_member.security.tls_connection import TlsListener
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    import socket

    from aiohttp import web

    from grid_member.cluster.member.member import Member
    from grid_member.config.model.member import ListenerConfig
    from grid_member.http.server.admission import Room
    from grid_member.http.server.services import ListenerService, WanParts

MOST_EARS: Final = 8
"""Sockets by which a listener accepts on uvloop, duplicates of its own; each is a file."""
_log: Final = logging.getLogger("grid.http")


@dataclass(slots=True)
class _OpenListener:
    config: ListenerConfig
    service: ListenerService | None
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


class Listeners:
    """The ports of one member."""

    def __init__(self, member: Member, wan: WanParts | None = None) -> None:
        """Take the member, and what its WAN listener hands batches to, if it has one."""
        self._member = member
        self._services = Services(member, wan, self)
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

    def _factory(
        self, config: ListenerConfig, service: ListenerService | None
    ) -> ConnectionFactory:
        answering = self._services.handler(service)
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
        service = self._services.service(config)
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
