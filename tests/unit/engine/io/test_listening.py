"""Promise: whom a server has taken before it closes, it speaks to."""

from __future__ import annotations

import asyncio
import socket

import pytest

from grid_member.engine.io.listening import close_servers, server_at
from tests.unit.engine.server.servers import HOST
from tests.unit.ports import free_ports

GREETING = b"hello"


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_of_the_last_moment_is_not_forgotten(turns: int) -> None:
    def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        writer.close()

    server = await asyncio.start_server(greet, HOST, 0)
    with socket.create_connection(server.sockets[0].getsockname()) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        await close_servers([server])
        client.setblocking(False)
        said = asyncio.get_running_loop().sock_recv(client, len(GREETING))
        try:
            assert await asyncio.wait_for(said, 5) == GREETING
        except ConnectionResetError:
            assert turns < 2, "it was accepted by then"
    assert not server.is_serving()


async def test_a_server_that_is_given_up_while_it_is_made_does_not_listen() -> None:
    turns, cancelled = 0, True
    while cancelled:
        (port,) = free_ports(1)
        making = asyncio.ensure_future(server_at(HOST, port, lambda _, writer: writer.close()))
        for _ in range(turns):
            await asyncio.sleep(0)
        making.cancel()
        (made,) = await asyncio.gather(making, return_exceptions=True)
        cancelled = isinstance(made, asyncio.CancelledError)
        if isinstance(made, asyncio.Server):
            made.close()
        with socket.create_server((HOST, port)):
            turns += 1
    assert turns > 2, "it was given up in more than one moment"
