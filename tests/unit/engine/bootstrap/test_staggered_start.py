from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.bootstrap import staggered_start
from grid_member.engine.bootstrap.staggered_start import await_start
from tests.unit.engine.server.servers import HOST, settings
from tests.unit.ports import free_ports
from tests.unit.serving import close_server

if TYPE_CHECKING:
    from collections.abc import Callable


async def served(greeting: bytes) -> tuple[asyncio.Server, int]:
    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    return server, server.sockets[0].getsockname()[1]


async def test_nobody_starts_before_the_last_one_is_there() -> None:
    ports = free_ports(3)
    early = [asyncio.ensure_future(await_start(settings(port, ports))) for port in ports[:2]]
    # Both have met each other; were two enough, they would be over.
    done, _ = await asyncio.wait(
        early, timeout=2 * staggered_start.LINGER_S + 4 * staggered_start.TURN_S
    )
    assert not done
    await asyncio.wait_for(await_start(settings(ports[2], ports)), 10)
    await asyncio.wait_for(asyncio.gather(*early), 10)


async def test_starts_are_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staggered_start, "TURN_S", 0.3)
    ports = free_ports(3)
    clock = asyncio.get_running_loop().time
    ends: list[float] = []

    async def member(port: int) -> None:
        await await_start(settings(port, ports))
        ends.append(clock())

    await asyncio.wait_for(asyncio.gather(*map(member, ports)), 10)
    assert ends[1] - ends[0] > 0.15
    assert ends[2] - ends[1] > 0.15


async def test_who_never_comes_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staggered_start, "STAGGER_S", 0.2)
    ports = free_ports(3)
    members = [await_start(settings(port, ports)) for port in ports[:2]]
    clock = asyncio.get_running_loop().time
    began = clock()
    await asyncio.wait_for(asyncio.gather(*members), 10)
    assert clock() - began >= 0.2, "it was not waited for"


async def test_a_cluster_that_runs_is_joined_at_once() -> None:
    assert staggered_start.STAGGER_S > 10, "else this shows nothing"
    first, second = await served(b'INFO {"x": 1}\r\n'), await served(b'INFO {"x": 2}\r\n')
    own, gone = free_ports(2)
    await asyncio.wait_for(
        await_start(settings(own, [own, first[1], gone, second[1], first[1]])), 10
    )
    for server, _ in (first, second):
        await close_server(server)


async def test_a_line_to_nobody_is_not_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staggered_start, "STAGGER_S", 0.3)
    server, port = await served(b"")
    (own,) = free_ports(1)
    clock = asyncio.get_running_loop().time
    began = clock()
    await await_start(settings(own, [own, port]))
    assert clock() - began >= 0.3
    await close_server(server)


async def test_servers_that_wait_for_tls_are_joined_at_once() -> None:
    assert staggered_start.STAGGER_S > 10, "else this shows nothing"
    silent = [socket.create_server((HOST, 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in silent]
    own, gone = free_ports(2)
    await asyncio.wait_for(await_start(settings(own, [own, gone, *ports, ports[0]])), 10)
    for each in silent:
        each.close()


async def test_a_taken_port_is_left_to_the_server_to_tell() -> None:
    assert staggered_start.STAGGER_S > 10, "else this shows nothing"
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        await asyncio.wait_for(await_start(settings(port, [port, *free_ports(2)])), 10)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "", "x" * 70, "a..b"])
async def test_a_host_that_is_none_is_somebody_who_is_not_there(
    monkeypatch: pytest.MonkeyPatch, host: str, recwarn: Callable[[], object]
) -> None:
    monkeypatch.setattr(staggered_start, "STAGGER_S", 0.2)
    (own,) = free_ports(1)
    member = settings(own, [own])
    object.__setattr__(member, "members", ((HOST, own), (host, own + 1)))
    await asyncio.wait_for(await_start(member), 10)
    assert not list(recwarn)  # type: ignore[call-overload]
