"""Makes the protocols of a listener's connections, and ends them together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web

from grid_member.http.fastpath.connection import FastPathConnection
from grid_member.http.server.admission import Parting
from grid_member.http.wire.connection import ConnectionProtocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.http.fastpath.context import FastPathContext
    from grid_member.http.server.admission import Admission
    from grid_member.http.wire.context import ConnectionContext

ABORT_GRACE_S: Final = 0.05
"""How long a connection has to end when it is aborted; aiohttp takes 0 for no limit."""


class ConnectionFactory(web.Server):
    """Makes a protocol for every connection and knows those that are open."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        context: ConnectionContext,
        admission: Admission,
    ) -> None:
        super().__init__(handler, handler_cancellation=True)
        self.context = context
        self.admission = admission
        self.handshaking: Callable[[], int] = lambda: 0
        """Tells how many more there are that have not shaken hands yet."""
        self.fast_path: FastPathContext | None = None
        """Where the fast path is: without it, every connection is aiohttp's."""
        self.closed = False
        """No new connection is wanted; one that is made all the same ends at once."""

    def __call__(self) -> asyncio.Protocol:  # type: ignore[override]
        """Return the protocol for a new connection."""
        room = self.admission.room
        over = self._count() - room.connections
        if over >= room.probes:
            return Parting(self.admission)
        connection: ConnectionProtocol | FastPathConnection
        if over < 0 and self.fast_path is not None:
            connection = FastPathConnection(self.fast_path)
        else:
            connection = ConnectionProtocol(self, self.context, crowded=over >= 0)
        # Now: more may be accepted before this one is made.
        self.context.watch.add(connection)
        return cast("asyncio.Protocol", connection)  # what loops call is all that they ask for

    def take_over(self) -> ConnectionProtocol:
        """Return the protocol that goes on with a connection of the fast path."""
        return ConnectionProtocol(self, self.context, is_successor=True)

    def full(self) -> bool:
        """Tell, and count it, when a connection that has to shake hands first is too many."""
        room = self.admission.room
        if self._count() < room.connections + room.probes:
            return False
        self.admission.refuse()
        return True

    def _count(self) -> int:
        return len(self.context.watch) + self.handshaking()

    async def finish(self, grace_s: float) -> None:
        """Let the connections answer what has begun to come, for a while, and end all of them."""
        self.closed = True
        if self.fast_path is not None:
            self.fast_path.closed = True
        tasks = [asyncio.create_task(connection.finish()) for connection in self.context.watch]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=grace_s)
        finally:
            for task in tasks:
                task.cancel()
        await self.shutdown(ABORT_GRACE_S)
        for open_one in (*self.context.watch, *self.admission.parting):
            open_one.abort()
        if self.fast_path is not None:
            self.fast_path.lost_clients.close()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Remember a connection; one that was accepted while the listener closed ends at once."""
        super().connection_made(handler, transport)
        if self.closed and not (isinstance(handler, ConnectionProtocol) and handler.is_successor):
            transport.abort()
