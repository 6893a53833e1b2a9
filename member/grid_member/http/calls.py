"""One request on its way to an operation: what was asked, the body, the credentials."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion11, web
from aiohttp.web_protocol import RequestPayloadError

from grid_member.http.connection import ConnectionProtocol
from grid_member.http.paths import MalformedError, decode

if TYPE_CHECKING:
    from grid_member.cluster.member import Member
    from grid_member.http.routes import Route

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class FramingError(Exception):
    """Where the request or its body ends is unclear: 400, and the connection closes."""


class BodyTooLargeError(Exception):
    """More bytes than the limit: 413."""


class ExpectationError(Exception):
    """An Expect header with something else than 100-continue: 417."""


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """How many connections are open: to the REST port, and to all ports."""

    clients: int
    total: int


@dataclass(frozen=True, slots=True)
class Call:
    """A request that found its row."""

    request: web.BaseRequest
    route: Route
    names: dict[str, str]
    member: Member
    connections: ConnectionCounts
    trailing_slash: bool = False
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
        protocol = self.request.protocol
        if isinstance(protocol, ConnectionProtocol):
            protocol.need_client()


async def read_body(request: web.BaseRequest, limit_bytes: int) -> bytes:
    """Return the exact bytes of the body; invites them when the client waits for that.

    Raises:
        BodyTooLargeError: as soon as that is known.
        ExpectationError: the client expects what we do not know.
        FramingError: the body is malformed or ends too early.
    """
    if (request.content_length or 0) > limit_bytes:
        raise BodyTooLargeError
    expectation = request.headers.get("Expect")
    if expectation is not None and request.version >= HttpVersion11:
        if expectation.strip().lower() != "100-continue":
            raise ExpectationError
        if request.transport is not None and request.can_read_body:
            request.transport.write(_CONTINUE)
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := await request.content.readany():
            size += len(piece)
            if size > limit_bytes:
                raise BodyTooLargeError
            pieces.append(piece)
    except RequestPayloadError:
        raise FramingError("malformed or incomplete body") from None
    return b"".join(pieces)


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


def credentials_fit(parameters: tuple[str, ...], cluster_name: str, authenticated: bool) -> bool:
    """Tell whether the first parameter is the cluster's name; it may be empty when authenticated.

    The second one, the password, is not compared as long as security is off.
    """
    if authenticated and not parameters[0] and not parameters[1]:
        return True
    return hmac.compare_digest(parameters[0].encode(), cluster_name.encode())
