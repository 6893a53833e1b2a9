"""Servers of tests; closed, they leave no connection behind.

What is left behind is found when it is collected, in another test: warnings are errors.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

from grid_member.engine.io.listening import close_servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

HOST: Final = "127.0.0.1"
SHUTDOWN_S: Final = 0.1
TURNS_TO_BEGIN: Final = 2
"""A connection is made, and the task begins that closes it at its end."""


@asynccontextmanager
async def listening(
    connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None],
) -> AsyncIterator[int]:
    """Serve connections while the block runs; give the port."""
    server = await asyncio.start_server(connected, HOST, 0)
    try:
        yield _port(server)
    finally:
        await close_server(server)


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    """Serve HTTP while the block runs; give the URL."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(runner.server, HOST, 0)
    try:
        yield f"http://{HOST}:{_port(server)}"
    finally:
        await close_server(server)
        await runner.cleanup()


async def close_server(server: asyncio.Server) -> None:
    """Close a server when all connections that it has accepted are in somebody's hands."""
    await close_servers([server])
    for _ in range(TURNS_TO_BEGIN):
        await asyncio.sleep(0)


def _port(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port
