"""Servers of this process that forget no connection when they close."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
