"""A raw HTTP client for tests: sends bytes as they are, reads answers without forgiving."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True)
class Reply:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(found) <= 1, f"{name} is there twice"
        return found[0] if found else None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(
        cls,
        port: int,
        host: str = "127.0.0.1",
        *,
        context: ssl.SSLContext | None = None,
        source: str | None = None,
    ) -> Wire:
        """Connect, over TLS with a context, from a certain address if one is given."""
        local = None if source is None else (source, 0)
        return cls(*await asyncio.open_connection(host, port, ssl=context, local_addr=local))

    async def __aenter__(self) -> Wire:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self, method: str = "GET") -> Reply:
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        version, status, reason = first.split(" ", 2)
        assert version == "HTTP/1.1"
        headers = [(k, v.strip()) for k, _, v in (line.partition(":") for line in lines)]
        reply = Reply(int(status), reason, headers, b"")
        if reply.status == 100:
            return reply
        length = int(reply.header("Content-Length") or -1)
        assert length >= 0, "every answer has a Content-Length"
        if method == "HEAD" or length == 0:
            return reply
        body = await asyncio.wait_for(self.reader.readexactly(length), 20)
        return Reply(reply.status, reply.reason, headers, body)

    async def call(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> Reply:
        self.send(request(method, path, body, **headers))
        return await self.reply(method)

    async def ended(self) -> bool:
        """Tell whether the other side closed without sending anything more."""
        return await asyncio.wait_for(self.reader.read(1), 20) == b""


def request(method: str, path: str, body: bytes | None = None, **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: member"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


async def once(
    port: int, method: str, path: str, body: bytes | None = None, **headers: str
) -> Reply:
    async with await Wire.connect(port) as wire:
        return await wire.call(method, path, body, **headers)
