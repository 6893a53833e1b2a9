"""Servers of tests leave no connection behind, whenever it came."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.unit.serving import HOST, listening, serving

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

PATIENCE_S = 5


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def ends(server: AbstractAsyncContextManager[str | int], turns: int) -> bool:
    """Tell whether a connection ends that came so many turns of the loop before its server."""
    async with server as place:
        port = int(str(place).rpartition(":")[2])
        client = socket.create_connection((HOST, port))
        for _ in range(turns):
            await asyncio.sleep(0)
    with client:
        client.setblocking(False)
        try:
            received = asyncio.get_running_loop().sock_recv(client, 1)
            return await asyncio.wait_for(received, PATIENCE_S) == b""
        except ConnectionResetError:
            return True


@pytest.mark.parametrize("turns", range(6))
async def test_connections_end_with_their_server(turns: int) -> None:
    assert await ends(listening(hang_up), turns)
    assert await ends(serving(web.Application()), turns)
