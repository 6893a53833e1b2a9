"""One request on its way to an operation: what was asked, the body, the credentials."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import HttpVersion11, web
from aiohttp.web_protocol import RequestPayloadError

from grid_member.http.wire.answers import error
from grid_member.http.wire.connection import connection_of
from grid_member.http.wire.paths import MalformedError, decode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.streams import StreamReader

    from grid_member.cluster.member.member import Member
    from grid_member.engine.api import Item
    from grid_member.http.table import Route
    from grid_member.http.wire.answers import Answer
    from grid_member.http.wire.paths import Target

    Operation: TypeAlias = Callable[["HttpCall"], Awaitable[Answer]]
    """What carries out the calls of one row of the routing table."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class UnreadableError(Exception):
    """A request that is not read to its end, with the answer; the connection closes."""

    def __init__(self, status: int, reason: str, *, retry: bool = False) -> None:
        super().__init__(status)
        self.answer = error(status, reason, close=True, retry=retry)


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """How many connections are open: to the REST port, and to all ports."""

    clients: int
    total: int


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request that found its row."""

    request: web.BaseRequest
    route: Route
    names: dict[str, str]
    member: Member
    connections: ConnectionCounts
    target: Target
    body: bytes = b""
    parameters: tuple[str, ...] = field(default=(), repr=False)

    @property
    def content_type(self) -> str | None:
        """The Content-Type as sent, its bytes as Latin-1 characters; None without one."""
        for name, value in self.request.raw_headers:
            if name.lower() == b"content-type":
                return value.decode("latin-1") or None
        return None

    def need_client(self) -> None:
        """Give the operation up when the client leaves before its answer begins.

        Raises:
            ConnectionError: the client has left already.
        """
        connection_of(self.request).need_client()

    def deliver(self, item: Item) -> None:
        """Confirm an item that the kernel has once the client's has it, too, or else return it."""
        transport, engine = self.request.transport, self.member.engine
        if transport is None:
            engine.queue_return(item)
        else:
            connection_of(self.request).context.receipts.expect(transport, item, engine)


async def read_body(request: web.BaseRequest, limit_bytes: int) -> bytes:
    """Return the exact bytes of the body; invites them when the client waits for that.

    Raises:
        UnreadableError: the body has too many bytes, or all bodies together have, or none come any
            more; or it is malformed, or ends too early; or the client expects what is not known.
    """
    if (request.content_length or 0) > limit_bytes:
        raise UnreadableError(413, "the body is too large")
    expectation = request.headers.get("Expect")
    if expectation is not None and request.version >= HttpVersion11:
        if expectation.strip().lower() != "100-continue":
            raise UnreadableError(417, "unknown expectation")
        if request.transport is not None and request.can_read_body:
            request.transport.write(_CONTINUE)
    context = connection_of(request).context
    uploads, patience_s = context.uploads, context.http.body_timeout_s
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := await _receive(request.content, patience_s):
            if size + len(piece) > limit_bytes:
                raise UnreadableError(413, "the body is too large")
            if not uploads.take(len(piece)):
                reason = "too many bytes of bodies are being read"
                raise UnreadableError(503, reason, retry=True)
            size += len(piece)
            pieces.append(piece)
        return b"".join(pieces)
    except RequestPayloadError as problem:
        # The stream keeps it, and what its traceback keeps would keep the stream: a circle.
        problem.__traceback__ = None
        raise UnreadableError(400, "malformed or incomplete body") from None
    finally:
        uploads.give_back(size)


async def _receive(content: StreamReader, patience_s: float) -> bytes:
    if content.is_eof():
        return await content.readany()
    try:
        async with asyncio.timeout(patience_s):
            return await content.readany()
    except TimeoutError:
        raise UnreadableError(408, "the body takes too long") from None


def split_parameters(body: bytes, count: int) -> tuple[str, ...]:
    """Return the body split at `&` into at most count parts, each decoded once.

    Raises:
        MalformedError: a broken escape, or bytes that are not UTF-8.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise MalformedError("the body is not valid UTF-8") from None
    return tuple(decode(part) for part in text.split("&", count - 1))
