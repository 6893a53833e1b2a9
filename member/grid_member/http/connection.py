"""The server side of one connection: aiohttp's protocol with our answers to broken requests."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from grid_member.cluster.logs import event, failure
from grid_member.http.answers import Answer, WireResponse, error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.config.model import Limits

KEEP_ALIVE_S: Final = 3600.0
LINGER_S: Final = 2.0
"""How long the rest of a body that nobody wants is read, so that its answer gets through."""
MAX_HEADERS_LINES: Final = 1000
_TOO_MANY_HEADERS: Final = "Too many headers received"

_log: Final = logging.getLogger("grid.http")
_silent: Final = logging.getLogger("grid.aiohttp")


class ConnectionProtocol(web.RequestHandler):
    """One connection. Nothing that aiohttp would write or log by itself gets out."""

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        self._line_limit = limits.header_bytes
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=KEEP_ALIVE_S,
            logger=_silent,
            access_log=None,  # type: ignore[arg-type]
            # The two limits differ by one so that an error tells which of them it was.
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes + 1,
            max_headers=MAX_HEADERS_LINES,
            lingering_time=LINGER_S,
            auto_decompress=False,
        )
        self._flushes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving; writing is paused as long as the kernel has not taken everything."""
        super().connection_made(transport)
        if isinstance(transport, asyncio.WriteTransport):
            transport.set_write_buffer_limits(high=0)

    def resume_writing(self) -> None:
        """Note that the kernel has taken everything."""
        self._flushes += 1
        super().resume_writing()

    async def hand_over(self, pieces: list[bytes]) -> None:
        """Write the pieces and return when the kernel has all of them.

        Raises:
            ConnectionError: the client left before that.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has left")
        flushes = self._flushes
        for piece in pieces:
            transport.write(piece)
        if transport.get_write_buffer_size() == 0:
            # A failed write empties the buffer too, and closes.
            if transport.is_closing():
                raise ConnectionResetError("the client has left")
            return
        try:
            await self._drain_helper()
        except asyncio.CancelledError:
            if self._flushes == flushes:
                raise
        if self._flushes == flushes:
            raise ConnectionResetError("the client left during the answer")

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that could not be parsed, or whose handling failed, and close."""
        answer = self._refusal(status, exc)
        if status >= 500 and exc is not None:
            failure(_log, "request failed", exc)
        else:
            event(
                _log,
                logging.INFO,
                "request refused",
                status=answer.status,
                error=type(exc).__name__,
                remote=request.remote,
            )
        return WireResponse(answer, self)

    def _refusal(self, status: int, exc: BaseException | None) -> Answer:
        if isinstance(exc, LineTooLong):
            if self._line_limit + 1 in exc.args or str(self._line_limit + 1) in exc.args:
                return error(431, "a header line is too long", close=True)
            return error(414, "the request line is too long", close=True)
        if _TOO_MANY_HEADERS in str(exc):
            return error(431, "too many headers", close=True)
        reason = "malformed request" if status < 500 else "unexpected error"
        return error(status, reason, close=True)


class ConnectionFactory(web.Server):
    """Makes a ConnectionProtocol for every connection and knows those that are open."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limits: Limits,
        **options: Any,
    ) -> None:
        super().__init__(handler, handler_cancellation=True, **options)
        self._limits = limits

    def __call__(self) -> ConnectionProtocol:
        """Return the protocol for a new connection."""
        return ConnectionProtocol(self, asyncio.get_running_loop(), self._limits)
