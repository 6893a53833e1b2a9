"""Servers of this process that nobody who gives up leaves open, and that forget no connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


async def server_at(
    host: str, port: int, answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]
) -> asyncio.Server:
    """Return a server that listens.

    One that asyncio makes and starts at once listens for ever when whoever waits for it is
    cancelled in the turn of the loop between the two.

    Raises:
        OSError: it cannot listen there.
    """
    server = await asyncio.start_server(answer, host, port, start_serving=False)
    try:
        await server.start_serving()
    except BaseException:
        server.close()
        raise
    return server


async def close_servers(servers: Sequence[asyncio.Server]) -> None:
    """Take no new connection, and close when those that were taken are made.

    One that is accepted in the very turn of the loop in which its server closes would be neither
    made nor closed: who is at its other end would wait for somebody that is not there.
    """
    loop = asyncio.get_running_loop()
    for server in servers:
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)
    for server in servers:
        server.close()
