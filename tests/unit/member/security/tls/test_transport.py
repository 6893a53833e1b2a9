"""The transport that TLS gives to an application: flow control both ways, and its end."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from grid_member.config.model.security import TlsConfig
from grid_member.security.tls import ServerTls
from grid_member.security.tls_connection import TlsConnection, TlsListener
from tests.unit.serving import close_server
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.member.security.certificates import Authority

SMALL_BUFFER_BYTES = 8 << 10
DATA = bytes(range(256)) * (16 << 10)


class Recorder(asyncio.Protocol):
    """Notes everything that it is told."""

    def __init__(self) -> None:
        self.transport: TlsConnection | None = None
        self.received = bytearray()
        self.told: list[str] = []
        self.goes_on = False
        """Whether it still writes when the client is done."""

    @property
    def link(self) -> TlsConnection:
        assert self.transport is not None
        return self.transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsConnection)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self.goes_on

    def connection_lost(self, exc: BaseException | None) -> None:
        self.told.append("lost")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Linked:
    """An application and the client that is connected to it."""

    def __init__(
        self, app: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.app = app
        self.reader = reader
        self.writer = writer


@pytest.fixture
async def linked(authority: Authority) -> AsyncIterator[Linked]:
    pair = authority.issue("server")
    app = Recorder()
    tls = ServerTls(TlsConfig("network.ssl", pair.certificate, pair.key))
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER_BYTES)
    listening.bind(("127.0.0.1", 0))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(TlsListener(lambda: app, tls), sock=listening)
    port = listening.getsockname()[1]
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
    client.connect(("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(
        sock=client, ssl=authority.client(), server_hostname="localhost"
    )
    await until(lambda: app.transport is not None)
    yield Linked(app, reader, writer)
    writer.transport.abort()
    await close_server(server)
    await until(lambda: "lost" in app.told)


async def test_writing_is_paused_until_the_kernel_has_everything(linked: Linked) -> None:
    app = linked.app
    app.link.set_write_buffer_limits(high=0)
    app.link.write(b"small")
    assert app.link.get_write_buffer_size() == 0
    assert app.told == []
    app.link.write(DATA)
    assert app.told == ["pause"]
    assert app.link.get_write_buffer_size() > 0
    assert await linked.reader.readexactly(5 + len(DATA)) == b"small" + DATA
    await until(lambda: app.told == ["pause", "resume"])
    assert app.link.get_write_buffer_size() == 0


async def test_a_paused_application_gets_nothing_until_it_goes_on(linked: Linked) -> None:
    app = linked.app
    app.link.pause_reading()
    assert not app.link.is_reading()
    linked.writer.write(DATA)
    for _ in range(100):
        # Loopback delivers at once: what is not handed on within these turns never is.
        await asyncio.sleep(0)
    assert not app.received
    app.link.resume_reading()
    await linked.writer.drain()
    await until(lambda: len(app.received) == len(DATA))
    assert app.received == DATA


async def test_what_was_decrypted_before_the_pause_is_not_lost(linked: Linked) -> None:
    app = linked.app
    got: list[bytes] = []

    def one_at_a_time(data: bytes) -> None:
        got.append(data)
        app.link.pause_reading()

    app.data_received = one_at_a_time  # type: ignore[method-assign]
    linked.writer.write(DATA)
    while sum(map(len, got)) < len(DATA):
        seen = len(got)
        await until(lambda seen=seen: len(got) > seen)  # type: ignore[misc]
        assert len(got) == seen + 1
        app.link.resume_reading()
    assert b"".join(got) == DATA


async def test_closing_sends_everything_first(linked: Linked) -> None:
    linked.app.link.write(DATA)
    linked.app.link.close()
    assert linked.app.link.is_closing()
    linked.app.link.write(b"too late")
    assert await linked.reader.read() == DATA


async def test_the_end_of_writing_leaves_time_to_read(linked: Linked) -> None:
    assert linked.app.link.can_write_eof()
    linked.app.link.write(DATA)
    linked.app.link.write_eof()
    linked.app.link.write(b"too late")
    assert not linked.app.link.is_closing()
    assert await linked.reader.read() == DATA


async def test_a_write_that_fails_is_a_closed_transport(linked: Linked) -> None:
    link = linked.app.link
    raw: socket.socket = linked.writer.get_extra_info("socket")
    raw.shutdown(socket.SHUT_RD)
    link.set_write_buffer_limits(high=0)
    link.write(DATA)
    linked.writer.transport.abort()
    await until(link.is_closing)
    assert link.get_write_buffer_size() == 0


async def test_the_clients_goodbye_is_told_once(linked: Linked) -> None:
    linked.writer.write(b"last")
    linked.writer.close()
    await until(lambda: "lost" in linked.app.told)
    assert linked.app.received == b"last"
    assert linked.app.told == ["eof", "lost"]


async def test_after_the_goodbye_the_end_of_the_socket_is_no_news(linked: Linked) -> None:
    app = linked.app
    app.goes_on = True
    linked.writer.close()
    await until(lambda: app.told == ["eof"])
    linked.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
    # Two turns: the socket's end is seen in the next one.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert app.told == ["eof"]
    assert not app.link.is_closing()
    app.link.close()
    await until(lambda: "lost" in app.told)
    assert app.told == ["eof", "lost"]


async def test_an_abort_tells_the_application(linked: Linked) -> None:
    linked.app.link.abort()
    assert linked.app.link.is_closing()
    await until(lambda: linked.app.told == ["lost"])
    with pytest.raises(ConnectionResetError):
        linked.app.link.get_protocol()


async def test_another_protocol_may_take_over(linked: Linked) -> None:
    other = Recorder()
    assert linked.app.link.get_protocol() is linked.app
    linked.app.link.set_protocol(other)
    linked.writer.write(b"for the other")
    await until(lambda: bytes(other.received) == b"for the other")
    assert not linked.app.received
    linked.app.link.set_protocol(linked.app)


async def test_what_is_known_of_the_connection_is_told(linked: Linked) -> None:
    link = linked.app.link
    assert link.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert link.get_extra_info("sslcontext") is not None
    assert link.get_extra_info("peercert") is None
    assert link.get_extra_info("peername")[0] == "127.0.0.1"
    assert link.get_extra_info("nothing", "default") == "default"
