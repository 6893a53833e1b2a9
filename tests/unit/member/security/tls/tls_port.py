"""A TLS port in front of a running member, for tests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.security.tls import ServerTls
from grid_member.security.tls_connection import TlsListener
from tests.unit.member.wire import Wire
from tests.unit.serving import close_server

if TYPE_CHECKING:
    import ssl

    from grid_member.config.model.security import TlsConfig
    from tests.unit.member.running import RunningMember
    from tests.unit.member.security.certificates import Authority


class Port:
    """The REST port of a running member once more, over TLS."""

    def __init__(self, member: RunningMember, authority: Authority, config: TlsConfig) -> None:
        self.member = member
        self.authority = authority
        self.tls = ServerTls(config)
        self.listener = TlsListener(member.listeners._open[0].factory, self.tls)
        self.number = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> Port:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.listener, "127.0.0.1", 0)
        self.number = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        assert self._server is not None
        await close_server(self._server)
        self.listener.close()

    async def connect(self, context: ssl.SSLContext | None = None) -> Wire:
        context = context or self.authority.client()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number, ssl=context)
        return Wire(reader, writer)

    async def answers(self) -> bool:
        """Tell whether a new connection is served."""
        async with await self.connect() as wire:
            return (await wire.call("GET", "/grid/health/ready")).status == 200
