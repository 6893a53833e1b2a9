"""What is no TLS at all, TLS in pieces of any size, and clients that leave in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, TypeVar

import pytest

from grid_member.security.tls_connection import TlsListener
from tests.unit.member.wire import Wire, once, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import RunningMember
    from tests.unit.member.security.certificates import Authority
    from tests.unit.member.security.tls.tls_port import Port

T = TypeVar("T")
READY = request("GET", "/grid/health/ready")
MAP = "/grid/rest/maps/default/k"
QUEUE = "/grid/rest/queues/default"


# What is no TLS


@pytest.mark.parametrize(
    "data",
    [
        READY,
        b"GET",
        b"\x16\x03\x01\x00\x05garba",
        b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000,
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x00" * 100,
        b"\xff" * 100,
        b"\x80\x2e\x01\x00\x02",
    ],
)
async def test_other_bytes_close_the_connection(port: Port, data: bytes) -> None:
    async with await Wire.connect(port.number) as wire:
        wire.send(data)
        wire.writer.write_eof()
        received = b""
        with contextlib.suppress(ConnectionError):
            received = await asyncio.wait_for(wire.reader.read(), 20)
    assert not received.startswith(b"HTTP")
    assert b"200" not in received
    assert await port.answers()
    await until(lambda: port.listener.handshaking == 0)


async def test_a_hello_on_the_plain_port_gets_no_tls(port: Port, authority: Authority) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(
            "127.0.0.1", port.member.port, ssl=authority.client(), server_hostname="localhost"
        )
    assert (await once(port.member.port, "GET", "/grid/health/ready")).status == 200


async def test_a_silent_client_is_dropped(
    open_port: Callable[..., Port], member: RunningMember
) -> None:
    port = open_port()
    factory = member.listeners._open[0].factory
    port.listener = TlsListener(factory, port.tls, handshake_timeout_s=0.05)
    await port.open()
    async with await Wire.connect(port.number) as wire:
        assert await wire.ended()
    await until(lambda: port.listener.handshaking == 0)


async def test_closing_drops_who_has_not_shaken_hands(port: Port) -> None:
    wires = [await Wire.connect(port.number) for _ in range(20)]
    await until(lambda: port.listener.handshaking == 20)
    assert port.member.listeners.counts().total == 0
    port.listener.close()
    for wire in wires:
        with contextlib.suppress(ConnectionError):
            assert await wire.ended()
        await wire.close()
    assert port.listener.handshaking == 0


# Byte by byte


class SlowClient:
    """A client that says itself which bytes go out when."""

    def __init__(self, wire: Wire, context: ssl.SSLContext) -> None:
        self._wire = wire
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def send(self, size: int) -> None:
        """Send what is to be sent in pieces of size bytes."""
        data = self._outgoing.read()
        for start in range(0, len(data), size):
            self._wire.send(data[start : start + size])
            await asyncio.sleep(0)

    async def do(self, step: Callable[[], T], size: int) -> T:
        """Repeat a step until it has what it needs."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self.send(size)
                data = await asyncio.wait_for(self._wire.reader.read(1 << 16), 20)
                self._incoming.write(data) if data else self._incoming.write_eof()
            else:
                await self.send(size)
                return result

    async def shake_hands(self, size: int) -> None:
        await self.do(self._tls.do_handshake, size)

    async def write(self, data: bytes, size: int) -> None:
        await self.do(lambda: self._tls.write(data), size)

    async def say_goodbye(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        await self.send(1 << 16)

    async def read(self) -> bytes:
        """Return everything up to the member's goodbye."""
        found = b""
        with contextlib.suppress(ssl.SSLZeroReturnError):
            while piece := await self.do(lambda: self._tls.read(1 << 16), 1 << 16):
                found += piece
        return found


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1 << 16])
async def test_pieces_of_any_size_make_a_request(
    size: int, port: Port, authority: Authority
) -> None:
    async with await Wire.connect(port.number) as wire:
        client = SlowClient(wire, authority.client())
        await client.shake_hands(size)
        await client.write(request("GET", "/grid/health/ready", Connection="close"), size)
        assert (await client.read()).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_client_that_has_said_goodbye_still_gets_its_answers(
    port: Port, authority: Authority
) -> None:
    async with await Wire.connect(port.number) as wire:
        client = SlowClient(wire, authority.client())
        await client.shake_hands(1 << 16)
        await client.write(request("POST", MAP, b"v") + request("GET", MAP), 1 << 16)
        await client.say_goodbye()
        answers = await client.read()
        assert answers.count(b"HTTP/1.1 200 OK\r\n") == 2
        assert answers.endswith(b"\r\n\r\nv")


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(
    port: Port, authority: Authority
) -> None:
    hello = SlowClient(await Wire.connect(port.number), authority.client())
    with contextlib.suppress(ssl.SSLWantReadError):
        hello._tls.do_handshake()
    data = hello._outgoing.read()
    for end in (0, 1, len(data) // 2, len(data)):
        async with await Wire.connect(port.number) as wire:
            wire.send(data[:end])
    await hello._wire.close()
    await until(lambda: port.listener.handshaking == 0)
    assert await port.answers()
