"""What comes behind a client's farewell."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING

from grid_member.security.tls_connection import TlsConnection
from tests.unit.member.http.fastpath.test_clients import small_buffers
from tests.unit.waiting import until

if TYPE_CHECKING:
    import pytest

    from tests.unit.member.security.certificates import Authority
    from tests.unit.member.security.tls.tls_port import Port

VALUE_BYTES = 8 << 20
FLOOD_BYTES = 4 << 20
PUT = (
    b"POST /grid/rest/maps/default/large HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    % VALUE_BYTES
)
GET = b"GET /grid/rest/maps/default/large HTTP/1.1\r\nHost: a\r\n\r\n"


async def test_bytes_behind_the_farewell_are_not_kept(
    port: Port, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is still being read, so the connection is open; nobody decrypts what comes."""
    received: list[int] = []
    connections: list[TlsConnection] = []
    data_received = TlsConnection.data_received

    def note(self: TlsConnection, data: bytes) -> None:
        received.append(len(data))
        connections.append(self)
        data_received(self, data)

    monkeypatch.setattr(TlsConnection, "data_received", note)
    async with await port.connect() as wire:
        wire.writer.write(PUT + bytes(VALUE_BYTES))
        await wire.reader.readuntil(b"\r\n\r\n")
    loop = asyncio.get_running_loop()
    with small_buffers(port.number) as plain:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = authority.client().wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
            await loop.sock_sendall(plain, outgoing.read())
            incoming.write(await loop.sock_recv(plain, 1 << 16))
        tls.write(GET)
        await loop.sock_sendall(plain, outgoing.read())
        raw = connections[-1]._raw
        assert raw is not None
        await until(lambda: raw.get_write_buffer_size() > 0)
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        await loop.sock_sendall(plain, outgoing.read())
        await until(lambda: connections[-1]._eof_passed)
        received.clear()
        await loop.sock_sendall(plain, bytes(FLOOD_BYTES))
        await until(lambda: sum(received) == FLOOD_BYTES)
        assert not raw.is_closing()
        assert connections[-1]._incoming.pending == 0
