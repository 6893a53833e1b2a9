"""The fast path: plain data requests from the socket to the engine and back, without a task.

    data_received ─▶ Recogniser ─▶ engine ──callback──▶ answers in order ─▶ one write
                        └─ anything else: aiohttp's connection takes over, unread bytes and all

A request is a callback, behind others also a slot in a list; nothing else is made for it: no task,
no future, no timer, no line in the log. Writes that arrive together are begun together; a read
waits for the answers to the connection's earlier requests, and so does whatever follows a read that
waits. What the fast path does not know it hands over for good, once all before it is answered.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from aiohttp.tcp_helpers import tcp_nodelay

from grid_member.http.fastpath.answers import MAX_DUE, WRITES, FastPathAnswers
from grid_member.http.fastpath.plain import MAP_GET, MAP_PUT, QUEUE_POLL, NotPlain
from grid_member.http.wire.answers import MAX_JOINED_BYTES, error, head_bytes
from grid_member.http.wire.watch import LINGER_S, abort, end_writing
from grid_member.security.remotes import remote_of
from grid_member.telemetry.logs import repeatable

if TYPE_CHECKING:
    import asyncio

    from grid_member.http.fastpath.context import FastPathContext
    from grid_member.http.fastpath.plain import Request, RequestKind
    from grid_member.http.wire.answers import Answer
    from grid_member.http.wire.connection import ConnectionProtocol

MAX_PENDING: Final = 1024
"""Writes of one connection that are under way at once."""
MAX_HELD_BYTES: Final = 64 << 10
"""Of requests that wait for answers before them, until nothing more is read."""
READ_BYTES: Final = 64 << 10
"""What one read may bring. asyncio's own 256 KiB may be given back and taken anew each time."""
LARGE_READ_BYTES: Final = 256 << 10
"""The same while a body of that size or more comes: a few large reads cost less than many."""
SMALL_BYTES: Final = 4 << 10
"""Smaller pieces of a body are put together as they come."""
_LATE_HEAD: Final = error(408, "the head takes too long", close=True)
_LATE_BODY: Final = error(408, "the body takes too long", close=True)
_log: Final = logging.getLogger("grid.http")


class FastPathConnection(FastPathAnswers):
    """One connection, until it is handed over or lost.

    A protocol by what it does, without the base class: compiled, that would cost time and memory.
    """

    __slots__ = (
        "_active", "_body", "_body_bytes", "_end", "_ended", "_held", "_idle_since_s",
        "_incomplete", "_last", "_leaving", "_rest", "_since_s", "_successor",
    )  # fmt: skip

    def __init__(self, context: FastPathContext) -> None:
        super().__init__(context)
        self._rest = b""
        """What came and was not begun: a part of a head, or what waits."""
        self._incomplete: Request | None = None
        """A request whose body is not there as a whole; the rest is its head."""
        self._body: list[bytes | bytearray] = []
        self._body_bytes = 0
        self._held = False
        """Whether the rest waits for an answer or for the client to read."""
        self._leaving = False
        """Whether the rest is for aiohttp."""
        self._ended = False
        """Whether the client sends nothing more."""
        self._last = False
        """Whether nothing is begun any more."""
        self._active = True
        self._since_s = self._idle_since_s = 0.0
        self._end: asyncio.Future[None] | None = None
        self._successor: ConnectionProtocol | None = None

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; writing is paused as long as the kernel has not taken everything."""
        self._transport = transport  # type: ignore[assignment]
        self._read_up_to(READ_BYTES)
        tcp_nodelay(transport, True)  # type: ignore[arg-type]
        transport.set_write_buffer_limits(high=0)  # type: ignore[attr-defined]
        if self.context.closed:
            self.abort()
        elif _log.isEnabledFor(logging.DEBUG):
            self._hand_over()  # every request is logged, which the fast path does not do

    def data_received(self, data: bytes) -> None:
        """Begin the requests that are there as a whole."""
        self._active = True
        transport, context = self._transport, self.context
        if (
            self._pending
            or self._flush_planned
            or self._turn
            or self._rest
            or self._unread is not None
            or transport is None
            or not (context.unmeasured and context.member.is_running)  # as `plain`
            or (whole := context.recognizer.whole_request(data)) is None
        ):
            self._receive(data)
            return
        # As `_serve` does it, for one request with nothing before and behind it: for most.
        beginning, text, content_type, value = whole
        kind = beginning.kind
        if kind is MAP_GET and (answer := context.peek(beginning.name, text)) is not None:
            transport.write(answer)
            return
        self._one, self._pending = beginning, 1
        try:
            if kind is MAP_PUT:
                done = self._on_write or self._finish_one
                context.engine.map_put(beginning.name, text, value, content_type, done)
            else:
                self._call(beginning, text, content_type, value, self._outcome_callback(kind))
        except Exception as problem:
            self._fail(problem, self._finish_one)

    def _receive(self, data: bytes) -> None:
        if self._parting:
            return
        if self._incomplete is not None:
            self._collect(data, self._incomplete)
            return
        if self._rest:
            data = self._rest + data
        if self._held or self._leaving:
            self._hold(data)
        else:
            self._serve(data)

    def eof_received(self) -> bool:
        """Note that no more requests come; True while some are still to be answered."""
        self._ended = self._turn = True
        if self._transport is not None:
            self.context.receipts.look(self._transport)
        if self._parting or self._poll is not None:
            self._rest = b""  # a poll is for a client that is there, and so is what follows it
            return False
        if self._pending or self._flush_planned or self._unread is not None:
            return True
        if not self._rest:
            return False
        self._hand_over()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what nobody will get."""
        self._lose()
        self.context.watch.discard(self)
        self._take_body()
        self._rest = b""
        self._signal_end()

    # Requests

    def _serve(self, data: bytes) -> None:
        """Begin what came, and write what is answered at once."""
        self._serving = True
        if data and not self.context.is_serving:
            self._leave()
        start = self._begin_all(data)
        self._serving = False
        if self._incomplete is None:
            if start < len(data) and (start or not self._rest):
                self._since_s = self.context.loop.time()
            self._rest = data[start:]
        if self._due or self._slots:
            self._emit()
        if self._turn:
            self._settle()

    def _begin_all(self, data: bytes) -> int:
        """Begin one request after the other; return where the first begins that is not begun."""
        start, size, context = 0, len(data), self.context
        recognise, due = context.recognizer.request, self._due
        while start < size and not self._leaving:
            request = recognise(data, start)
            if not isinstance(request, tuple):
                if request is NotPlain.OTHER:
                    self._leave()
                break
            beginning, text, content_type, at, length = request
            end, kind = at + length, beginning.kind
            if (self._pending or self._unread is not None or self._ended) and self._must_wait(kind):
                break
            if end > size:
                self._await_body(request, data, start)
                return start if self._incomplete is None else size
            if self._slots and not self._pending:
                self._answer_slots()  # in their order
            start = end
            if kind is MAP_GET and (answer := context.peek(beginning.name, text)) is not None:
                self._head_at = len(due)
                due.append(answer)
            else:
                self._begin(beginning, text, content_type, data[at:end] if length else b"")
            if len(due) > MAX_DUE or (due and len(due[-1]) > MAX_JOINED_BYTES):
                self._emit()
                due = self._due
        return start

    def _must_wait(self, kind: RequestKind) -> bool:
        """Tell whether a request has to wait for answers before it, or for the client to read."""
        if self._pending:
            self._held = self._alone or kind not in WRITES or self._pending >= MAX_PENDING
        elif self._unread is not None:
            self._held = True
        self._turn = self._turn or self._held
        if kind is QUEUE_POLL and self._ended:
            self._leave()  # nobody is there to have the item
        return self._held or self._leaving

    def _leave(self) -> None:
        self._leaving = self._turn = True

    def _hold(self, data: bytes) -> None:
        self._rest = data
        if len(data) > MAX_HELD_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def _await_body(self, request: Request, data: bytes, start: int) -> None:
        at = request[3]
        self._incomplete, self._rest = request, data[start:at]
        if request[4] >= LARGE_READ_BYTES:
            self._read_up_to(LARGE_READ_BYTES)
        self._collect(data[at:], request)

    def _collect(self, data: bytes, request: Request) -> None:
        """Add to the body of a request; with the last of it, go on."""
        self._since_s = self.context.loop.time()
        missing = request[4] - self._body_bytes
        if len(data) < missing:
            self._add(data)
            if self.context.uploads.take(len(data)):
                self._body_bytes += len(data)
            else:
                self._rest += self._take_body()
                self._leave()  # who is refused is told by aiohttp
                self._settle()
            return
        self._add(data[:missing] if len(data) > missing else data)
        value, more = self._take_body(), data[missing:]
        beginning, text, content_type = request[:3]
        if self._held or self._leaving or self._must_wait(beginning.kind):
            self._hold(self._rest + value + more)
            self._settle()
            return
        self._rest = b""
        self._serving = True
        self._begin(beginning, text, content_type, value)
        self._serve(more)

    def _add(self, piece: bytes) -> None:
        body = self._body
        if len(piece) >= SMALL_BYTES or not body:
            body.append(piece)
        elif isinstance(body[-1], bytearray):
            body[-1] += piece
        else:
            body.append(bytearray(piece))  # millions of tiny ones must not be an object each

    def _take_body(self) -> bytes:
        """Return what there is of a body, and forget it."""
        data = b"".join(self._body)
        self.context.uploads.give_back(self._body_bytes)
        self._incomplete, self._body, self._body_bytes = None, [], 0
        self._read_up_to(READ_BYTES)
        return data

    @property
    def _is_last(self) -> bool:
        """Whether the last answer is the connection's."""
        ends = self._ended or self._last or self.context.member.ending
        return ends and not (self._rest or self._leaving)

    def _settle(self) -> None:
        """Do what had to wait until nothing is pending and the kernel has everything."""
        transport = self._transport
        if self._pending or self._flush_planned or self._serving or self._unread is not None:
            return
        if transport is None:
            return
        if self._parting:
            self._part()
        elif self._held:
            self._held, self._turn = False, self._leaving or self._ended or self._last
            rest, self._rest = self._rest, b""
            transport.resume_reading()
            self._serve(rest)
        elif self._leaving or self._last or (self._ended and self._rest):
            self._hand_over()
        elif self._ended:
            transport.close()

    # The end

    def _hand_over(self) -> None:
        """Let aiohttp go on with this connection from the first request that was not begun."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        context = self.context
        rest = self._rest + self._take_body()
        self._transport, self._rest = None, b""
        self._unfollow()
        self._successor = protocol = context.complete()
        context.watch.discard(self)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.resume_reading()
        if rest:
            protocol.data_received(rest)
        if self._ended and not protocol.eof_received():
            transport.close()
        self._signal_end()

    def _part(self) -> None:
        """Let the client read the last answer: closing now might reset the connection before."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._parting = self._turn = True
        self._since_s = self.context.loop.time()
        if self._ended:
            transport.close()
        else:
            end_writing(transport)
            transport.resume_reading()

    def _refuse(self, answer: Answer) -> None:
        """Answer what takes too long, and close."""
        transport = self._transport
        if transport is None or self._pending or self._flush_planned:
            return
        self._take_body()
        self._rest = b""
        reason, remote = dict(answer.headers)["X-Grid-Error"], remote_of(transport)
        repeatable(_log, logging.INFO, "request refused", status=408, reason=reason, remote=remote)
        if self.context.measurements is not None:
            self.context.measurements.count_refusal(answer.status)
        self._write([head_bytes(answer, keep_alive=False, http_1_0=False)])
        self._part()

    def look(self, now_s: float) -> None:
        """Give up what has waited for too long."""
        transport = self._transport
        if transport is None:
            return
        self._poll_waited = self._poll_waited or self._poll is not None
        if self._unread is not None:
            self._active = True
            if self._unread.overdue(now_s, transport.get_write_buffer_size(), self._written_bytes):
                abort(transport)
        elif self._parting:
            if now_s - self._since_s >= LINGER_S:
                transport.close()
        elif self._rest and not self._held:
            self._look_at_request(now_s)
        elif self._active or self._pending:
            self._active, self._idle_since_s = False, now_s
            unseen = self._poll is not None and not transport.is_reading()
            if unseen and self.context.departures.has_left(transport):
                transport.close()  # what is not read does not tell, and a poll may wait for years
        elif now_s - self._idle_since_s >= self.context.http.idle_timeout_s:
            transport.close()

    def _look_at_request(self, now_s: float) -> None:
        if self._incomplete is not None and self._pending:
            self._since_s = now_s  # its turn has not come
        http, waited_s = self.context.http, now_s - self._since_s
        if self._incomplete is None and waited_s >= http.head_timeout_s:
            self._refuse(_LATE_HEAD)
        elif self._incomplete is not None and waited_s >= http.body_timeout_s:
            self._refuse(_LATE_BODY)

    async def finish(self) -> None:
        """Answer what was begun, and return when the connection is gone."""
        self._last = self._turn = True
        self._end = self.context.loop.create_future()
        if self._transport is None:
            self._signal_end()
        self._settle()
        await self._end
        if self._successor is not None:
            await self._successor.finish()

    def _signal_end(self) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(None)
