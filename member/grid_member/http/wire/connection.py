"""The server side of one connection: aiohttp's protocol with our answers to broken requests."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestPayloadError, _ErrInfo

from grid_member.http.wire.answers import WireResponse, error
from grid_member.http.wire.pieces import Pieces
from grid_member.http.wire.watch import LINGER_S, UnreadTimer, abort, end_writing, write_pieces
from grid_member.security.remotes import unmap
from grid_member.telemetry.logs import event, failure, repeatable

if TYPE_CHECKING:
    from aiohttp.streams import StreamReader

    from grid_member.http.wire.answers import Answer
    from grid_member.http.wire.context import ConnectionContext

IDLE_LINGER_S: Final = 0.2
"""As LINGER_S, for a connection that has nothing in work: pools may notice its end much later."""
CROWDED_PATIENCE_S: Final = 5.0
"""How long a connection that is one too many has until the end of its first head."""
MAX_HEADERS_LINES: Final = 1000
_TOO_MANY_HEADERS: Final = "Too many headers received"
_log: Final = logging.getLogger("grid.http")
_silent: Final = logging.getLogger("grid.aiohttp")


class LateError(Exception):
    """A head that did not come to its end in time: 408."""


class ConnectionProtocol(web.RequestHandler):
    """One connection. Nothing that aiohttp would write or log by itself gets out."""

    def __init__(
        self,
        server: web.Server,
        context: ConnectionContext,
        *,
        crowded: bool = False,
        is_successor: bool = False,
    ) -> None:
        """Serve one connection.

        Args:
            server: aiohttp's, of the listener.
            context: what it shares with the other connections of the listener.
            crowded: it is there for one probe.
            is_successor: it is served already, and goes on here.
        """
        loop = asyncio.get_running_loop()
        line_limit = context.limits.header_bytes
        super().__init__(
            server,
            loop=loop,
            # The watch looks after idle connections.
            keepalive_timeout=0,
            logger=_silent,
            access_log=None,  # type: ignore[arg-type]
            # The two limits differ by one so that an error tells which of them it was.
            max_line_size=line_limit,
            max_field_size=line_limit + 1,
            max_headers=MAX_HEADERS_LINES,
            lingering_time=LINGER_S,
            auto_decompress=False,
        )
        self.context = context
        self._keepalive_handle = context.no_timer
        self.crowded = crowded
        self.is_successor = is_successor
        self._flushes = 0
        self._written_bytes = 0
        self._unread: UnreadTimer | None = None
        self._pieces = Pieces()
        self._idle_since_s = loop.time()
        self._head_since_s: float | None = None
        """When a head began to come that has not ended yet."""
        self._backlog = b""
        """What came while the parser could not take it."""
        self._body: StreamReader = EMPTY_PAYLOAD
        """The body of the newest request."""
        self._broken = False
        self._ended = False
        self.answer_count = 0
        """How many requests are answered, or being answered."""
        self._needs_client = False
        self._departure = loop.create_future()
        self._end = loop.create_future()
        self._last = False

    # Reading

    def data_received(self, data: bytes) -> None:
        """Parse what came; without data, go on with what was held back."""
        if self._broken:
            return
        if not data:
            self._parse(b"")
        data, self._backlog = self._backlog + data if self._backlog else data, b""
        start = 0
        while start < len(data) and not self._broken:
            if self._full:
                self._hold(data[start:])
                return
            end = self._pieces.end(data, start)
            self._parse(data[start:end])
            start = end
        if not self._broken:
            self._watch_head()

    def _watch_head(self) -> None:
        # The end of a body, trailers too, is waited for by those who read it.
        if self._head_since_s is None and self._pieces.in_head and self._body.is_eof():
            self._head_since_s = self._loop.time()

    @property
    def _full(self) -> bool:
        return (
            self._reading_paused
            or self._upgraded
            or len(self._messages) >= self._max_msg_queue_size
        )

    def _hold(self, data: bytes) -> None:
        self._backlog = data
        if len(data) > self._read_bufsize and not self._buffer_paused:
            self._pause_reading_for_buffer()

    def _parse(self, piece: bytes) -> None:
        seen = self._request_count
        super().data_received(piece)
        if self._request_count == seen:
            return
        self._head_since_s = None
        message, body = self._messages[-1]
        if not isinstance(message, RawRequestMessage):
            # Nothing that follows has a known beginning.
            self._broken = True
            self._fail_body()
            if message.exc is not None:
                # It would keep itself, this connection and the piece in memory.
                message.exc.__traceback__ = None
        elif body is not EMPTY_PAYLOAD:
            self._body = body
            if message.chunked:
                self._pieces.begin_chunks()
            else:
                self._pieces.begin_body(int(message.headers.get("Content-Length", "0")))

    def _fail_body(self) -> None:
        # The parser leaves a body that turned out to be malformed waiting for the rest.
        if not self._body.is_eof() and self._body.exception() is None:
            self._body.set_exception(RequestPayloadError("the body is malformed or incomplete"))
            self._body.feed_eof()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Note that no more requests come; True while some are still to be answered."""
        self._ended = True
        if self.transport is not None:
            self.context.receipts.look(self.transport)
        self._fail_body()
        self._signal_departure()
        half_open = self.transport is not None and self.transport.can_write_eof()
        return half_open and self.answer_count < self._request_count and not self._needs_client

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel what is in work."""
        self._head_since_s = None
        self._signal_departure()
        work, transport = self._task_handler, self.transport
        super().connection_lost(exc)
        if transport is not None:
            self.context.receipts.drop(transport)
        if work is None:
            self.context.watch.discard(self)
        else:
            work.add_done_callback(lambda _: self.context.watch.discard(self))
        # It knows its connection, too; with nothing in a circle, both are freed at once.
        self._body = EMPTY_PAYLOAD
        if not self._end.done():
            self._end.set_result(None)

    def _signal_departure(self) -> None:
        if not self._departure.done():
            self._departure.set_result(None)

    def need_client(self) -> None:
        """Take the end of the requests for the client's leaving, until the answer is written.

        Raises:
            ConnectionError: the requests have ended already.
        """
        if self._ended:
            raise ConnectionResetError("the client has left")
        self._needs_client = True

    def check_client(self) -> None:
        """Look whether a client that is needed has left, though that was not read yet.

        Raises:
            ConnectionError: it has.
        """
        if not self._needs_client:
            return
        self._needs_client = False
        transport = self.transport
        if transport is None or self.context.departures.has_left(transport):
            raise ConnectionResetError("the client has left")

    # Answering

    @property
    def is_last(self) -> bool:
        """True when the last request is being answered that will be."""
        ends = self._ended or (self.context.draining() and not self._backlog)
        return self._last or (ends and self.answer_count >= self._request_count)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer, then go on with what an upgrade that was not accepted held back."""
        result = await super().finish_response(request, resp, start_time)
        self._idle_since_s = self._loop.time()
        if self._backlog and len(self._messages) <= self._msg_queue_resume_size:
            if self._buffer_paused:
                self._resume_reading_if_drained()
            else:
                self.data_received(b"")
        return result

    # Patience

    def look(self, now_s: float) -> None:
        """Give up a client that does not read, a head that does not end, or an idle connection."""
        transport = self.transport
        if transport is None:
            return
        if self._paused:
            self._look_at_unread(transport, now_s)
            return
        self._unread = None
        # What is not read does not tell that it has left, and it may be needed for years.
        unread = self._needs_client and not transport.is_reading()
        if unread and self.context.departures.has_left(transport):
            transport.close()
        if self._broken:
            return
        http, idle_s = self.context.http, now_s - self._idle_since_s
        if self.crowded and not self._request_count:
            if idle_s >= CROWDED_PATIENCE_S:
                self._give_up_head()
        elif self._head_since_s is not None:
            if now_s - self._head_since_s >= http.head_timeout_s:
                self._give_up_head()
        elif self._is_idle and idle_s >= http.idle_timeout_s:
            self.force_close()

    @property
    def _is_idle(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def _look_at_unread(self, transport: asyncio.WriteTransport, now_s: float) -> None:
        if self._unread is None:
            self._unread = UnreadTimer(self.context.http.write_timeout_s)
        buffered_bytes = transport.get_write_buffer_size()
        if self._unread.overdue(now_s, buffered_bytes, self._written_bytes):
            abort(transport)

    def _give_up_head(self) -> None:
        # In its place among the answers: a poll before it may still be waiting.
        self._broken = True
        self._head_since_s = None
        self._request_count += 1
        late = LateError("the head did not come to its end in time")
        self._messages.append((_ErrInfo(status=408, exc=late, message=str(late)), EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Ending

    def abort(self) -> None:
        """End the connection now."""
        if self.transport is not None:
            self.transport.abort()

    async def linger(self, patience_s: float = LINGER_S) -> None:
        """Let the client read the answer that closes a connection it may be sending on.

        Closing with bytes unread would reset the connection, perhaps before that.
        """
        transport = self.transport
        if self._ended or transport is None or transport.is_closing():
            return
        self._broken = True
        self._fail_body()
        end_writing(transport)
        transport.resume_reading()
        await asyncio.wait([self._departure], timeout=patience_s)

    async def wait_settled(self) -> None:
        """Return when the client has acknowledged the items that it waited for, or is gone."""
        await self.context.receipts.wait_settled(self.transport)

    async def finish(self) -> None:
        """Answer what has begun to come, nothing after that; return when the connection is gone."""
        self._last = True
        if not self._request_in_progress and self.answer_count >= self._request_count:
            # Nobody waits for an answer: this is for a request that is on its way right now.
            await self.linger(IDLE_LINGER_S)
            self.force_close()
        await asyncio.wait([self._end])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving; writing is paused as long as the kernel has not taken everything."""
        self.context.watch.add(self)
        super().connection_made(transport)
        # Not checked: other event loops have transports of their own kind.
        cast("asyncio.WriteTransport", transport).set_write_buffer_limits(high=0)

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
        write_pieces(transport, pieces)
        self._written_bytes += sum(map(len, pieces))
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

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log what failed beside the answering; a client that leaves early is no failure."""
        problem = kw.get("exc_info")
        if isinstance(problem, Exception) and not isinstance(problem, RequestPayloadError):
            failure(_log, "connection failed", problem)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that could not be parsed, or whose handling failed, and close.

        Raises:
            ConnectionError: the client left before there was an answer; nobody is there to read it.
        """
        if isinstance(exc, ConnectionError):
            event(_log, logging.DEBUG, "client left", remote=unmap(request.remote))
            raise exc
        context = self.context
        if self.crowded:
            answer = context.refuse()
        else:
            answer = _broken_request(status, exc, context.limits.header_bytes)
        context.on_refusal(answer.status)
        if status >= 500 and exc is not None:
            failure(_log, "request failed", exc)
        else:
            repeatable(
                _log,
                logging.INFO,
                "request refused",
                status=answer.status,
                error=type(exc).__name__,
                remote=unmap(request.remote),
            )
        return WireResponse(answer, self)


def _broken_request(status: int, exc: BaseException | None, line_limit_bytes: int) -> Answer:
    """Return the answer, with the status that the parser found when nothing more is known.

    Args:
        status: what the parser says.
        exc: what went wrong.
        line_limit_bytes: of a request line; that of a header line is one more, which tells them
            from each other.
    """
    if isinstance(exc, LineTooLong):
        field_limit_bytes = line_limit_bytes + 1
        if field_limit_bytes in exc.args or str(field_limit_bytes) in exc.args:
            return error(431, "a header line is too long", close=True)
        return error(414, "the request line is too long", close=True)
    if isinstance(exc, LateError):
        return error(408, "the head takes too long", close=True)
    if _TOO_MANY_HEADERS in str(exc):
        return error(431, "too many headers", close=True)
    reason = "malformed request" if status < 500 else "unexpected error"
    return error(status, reason, close=True)


def connection_of(request: web.BaseRequest) -> ConnectionProtocol:
    """Return the connection that a request came on.

    Raises:
        ConnectionError: it is gone.
    """
    protocol = request.protocol
    if not isinstance(protocol, ConnectionProtocol):
        raise ConnectionResetError("not one of our connections")
    return protocol
