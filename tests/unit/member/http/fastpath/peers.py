"""Members with the fast path and without it, and clients that see every byte of their answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import socket
import struct
from typing import TYPE_CHECKING

from tests.unit.member.running import configuration

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.unit.member.running import RunningMember

PATIENCE_S = 20.0
"""How long something may take that is expected to happen at once."""
TURNS = 3
"""Of the event loop, in which the member reads what a client has just sent."""
DATE = re.compile(rb"(?m)^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r$")
LENGTH = re.compile(rb"(?m)^Content-Length: (\d+)\r$")

LOGS = ("memory", "fsync")
PATHS = ("fast-path", "aiohttp")


def settings(path: str, log: str, directory: Path) -> str:
    """Return the configuration of a member on one of the paths and one of the logs."""
    extra = f"  http: {{lane: {{enabled: {str(path == 'fast-path').lower()}}}}}\n"
    if log == "fsync":
        extra += f"  persistence: {{enabled: true, base-dir: {directory}}}\n"
    # Names that begin otherwise have no structure. The swift ones are on no disk.
    text = configuration(extra=extra)
    for kind in ("map", "queue"):
        swift = '"swift*": {data-persistence: {enabled: false}}'
        text = text.replace(f"{kind}: {{default: ", f'{kind}: {{{swift}, "default*": ')
    return text


def masked(answer: bytes) -> bytes:
    """Return the answer, or answers, without the value of Date."""
    return DATE.sub(b"Date: -\r", answer)


def request(line: str, *headers: str, body: bytes | None = None) -> bytes:
    """Return the bytes of a request: `METHOD path`, header lines and a length if it has a body."""
    lines = [f"{line} HTTP/1.1", "Host: member", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def cut(data: bytes, offsets: Iterable[int]) -> list[bytes]:
    """Return the data in pieces that begin at the offsets; none of them is empty."""
    edges = [0, *sorted({o for o in offsets if 0 < o < len(data)}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]


async def turns(count: int = TURNS) -> None:
    """Let the member, which runs in the same loop, read what was sent."""
    for _ in range(count):
        await asyncio.sleep(0)


class PeerReader(asyncio.StreamReader):
    """Keeps what the member answered before it closed a connection on which the peer still sends.

    asyncio ends a connection with the first write that fails, and its reader then raises in place
    of what came before.
    """

    transport: asyncio.BaseTransport

    def set_exception(self, exc: Exception) -> None:
        if not isinstance(exc, ConnectionError):
            super().set_exception(exc)
            return
        descriptor = self.transport.get_extra_info("socket").fileno()
        with contextlib.suppress(OSError):
            while piece := os.read(descriptor, 1 << 16):
                self.feed_data(piece)
        self.feed_eof()


class Peer:
    """The client's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Peer:
        loop = asyncio.get_running_loop()
        reader = PeerReader(limit=1 << 24, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", port)
        reader.transport = transport
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(self, *_: object) -> None:
        # There are thousands: ended in the usual way, each would hold its port for a minute.
        await self.reset()

    @property
    def port(self) -> int:
        """The client's own port, by which the member's side knows the connection."""
        return int(self.writer.get_extra_info("sockname")[1])

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Send pieces that are read one by one."""
        for piece in pieces:
            self.writer.write(piece)
            await turns()

    async def answer(self, *, body: bool = True) -> bytes:
        """Return the bytes of the next answer; without a body it answers HEAD."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            (length,) = LENGTH.findall(head)
            return masked(head) + (await self.reader.readexactly(int(length)) if body else b"")

    async def answers(self, count: int) -> list[bytes]:
        return [await self.answer() for _ in range(count)]

    async def ask(self, data: bytes) -> bytes:
        """Send one request and return its answer."""
        self.send(data)
        return await self.answer()

    async def to_end(self) -> bytes:
        """Return all that still comes up to the end of the connection."""
        found = b""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(1 << 16):
                    found += piece
        return masked(found)

    def half_close(self) -> None:
        self.writer.write_eof()

    async def reset(self) -> None:
        """Leave without a farewell."""
        plain: socket.socket = self.writer.get_extra_info("socket")
        with contextlib.suppress(OSError, ValueError):  # it is closed already
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        await self.close()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class Handed:
    """The connections that aiohttp has had, by the ports of member and client."""

    def __init__(self) -> None:
        self.ports: set[tuple[int, int]] = set()

    def note(self, transport: asyncio.BaseTransport) -> None:
        server, client = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        self.ports.add((server[1], client[1]))

    def has(self, member: RunningMember, peer: Peer) -> bool:
        """Tell whether the connection is, or was, aiohttp's."""
        return (member.port, peer.port) in self.ports


async def ask(member: RunningMember, data: bytes) -> bytes:
    """Return the answer to a request on a connection of its own."""
    async with await Peer.connect(member.port) as peer:
        return await peer.ask(data)
