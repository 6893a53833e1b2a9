"""Target: a fast path connection, with everything around it under the control of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from tests.fuzz.fast_path_reference import answers, expected, operations
from tests.fuzz.fast_path_script import COMMANDS, INBOX, LIMITS, Run
from tests.fuzz.fast_path_wire import Sockets
from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tests.fuzz.fast_path_engine import Call

PYTHON_SHARE: Final = 8
"""One in how many inputs is shown to aiohttp's slower parser, too."""
CHANGING: Final = frozenset(b"sSkefgnxtTU")
"""Commands after which a request that is plain may be left to aiohttp, or to nobody."""
ENDING: Final = frozenset(b"e")
LOSING: Final = frozenset(b"xgtTU")
"""Commands after which the client may be gone before it has its answers."""
SENT: Final = frozenset(b"".join(INBOX))


class FastPathTarget:
    """Plays an input twice: as it says, and all bytes at once; asks aiohttp what they mean."""

    name = "fast-path"
    words = (
        *(b"\xff" + command for command in (*COMMANDS, *INBOX, b"|")),
        *(
            b"GET ",
            b"POST ",
            b"PUT ",
            b"DELETE ",
            b"HEAD ",
            b"OPTIONS ",
            b"PRI * HTTP/2.0\r\n\r\nSM",
        ),
        *(
            b"/grid/rest/maps/",
            b"/grid/rest/queues/",
            b"/",
            b"m/k",
            b"b/k",
            b"m/big",
            b"no/k",
            b"q",
            b"/size",
        ),
        *(
            b"/9",
            b"/0",
            b"/09",
            b"/2147483648",
            b"?a=b",
            b"#",
            b"%2F",
            b"%41",
            b"%",
            b"%C3%A9",
            b"+",
        ),
        *(
            b" HTTP/1.1\r\n",
            b" HTTP/1.0\r\n",
            b" HTTP/1.1\n",
            b"http://a",
            b"\r\n",
            b"\n",
            b"\r\n\r\n",
        ),
        *(b"Host: a\r\n", b"Host: a,b\r\n", b"host:a\r\n", b"Host : a\r\n", b" folded\r\n", b"\t"),
        *(b"Content-Length: 1\r\n", b"Content-Length: 01\r\n", b"Content-Length: +1\r\n"),
        *(b"Content-Length: 0\r\n", b"Content-Length: 1, 1\r\n", b"Content-Length: 100001\r\n"),
        *(b"Content-Length:\r\n", b"content_length: 1\r\n", b"Transfer-Encoding: chunked\r\n"),
        *(
            b"Transfer-Encoding: identity\r\n",
            b"0\r\n\r\n",
            b"1\r\na\r\n0\r\n\r\n",
            b"Expect: 100-continue\r\n",
        ),
        *(b"Connection: keep-alive\r\n", b"Connection: close\r\n", b"Connection: Keep-Alive\r\n"),
        *(b"Connection: upgrade\r\n", b"Upgrade: websocket\r\n", b"Content-Type: text/plain\r\n"),
        *(
            b"Content-Type: \xe9\r\n",
            b"Content-Encoding: gzip\r\n",
            b"Authorization: Basic eDp5\r\n",
        ),
        *(
            b"X: \x00\r\n",
            b"X: \x7f\r\n",
            b"X: " + b"x" * 500 + b"\r\n",
            b"Sec-WebSocket-Key1: a\r\n",
        ),
    )
    max_bytes = 4096

    def __init__(self) -> None:
        self._sockets = Sockets()

    def run(self, data: bytes) -> Hashable:
        """Play the input and look at what came of it."""
        measured = data[:1] == b"\x00"
        run = Run(self._sockets, measured=measured)
        try:
            return self._played(run, data[1:] if measured else data)
        finally:
            run.close()

    def _played(self, run: Run, script: bytes) -> Hashable:
        run.play(script)
        run.settle()
        handed_over, open_still = run.handed_over, not run.transport.closing
        begun = len(run.engine.calls)
        found, closes = answers(bytes(run.transport.written))
        shape = tuple(answer.status for answer in found[:3]), closes, handed_over, open_still
        _check_answers(run, found, closes)
        if open_still and not handed_over:
            run.finish()
            run.loop.turn()
        if len(run.engine.calls) != begun:
            raise FindingError("a request was begun that should have been before, or not at all")
        self._check_requests(run, begun)
        run.close()
        _check_end(run)
        kinds = tuple(call.operation[0] for call in run.engine.calls[:2])
        return shape, min(begun, 4), bool(run.successor.received), *kinds

    def _check_requests(self, run: Run, begun: int) -> None:
        """See that the requests that were begun are those that aiohttp sees."""
        called = [call.operation for call in run.engine.calls]
        rest = bytes(run.successor.received)
        received = bytes(run.received)
        if run.handed_over:
            if run.eof_told and not run.successor.ended:
                raise FindingError("the end of the requests was not handed over")
            if not received.endswith(rest):
                raise FindingError("other bytes were handed over than those that came last")
            whole = received[: len(received) - len(rest)]
            # The member uses the parser in C; where there is none, the one in Python.
            for c in (True, False) if crc32(whole) % PYTHON_SHARE == 0 else (True,):
                if operations(whole, LIMITS, run.loop, c=c) != called:
                    raise FindingError("aiohttp understands something else")
        changing = run.used & CHANGING
        if b"DELETE" not in received:
            changing -= ENDING  # which leaves nothing undone but polls
        if not changing and run.used - SENT and self._begun_at_once(received) != begun:
            raise FindingError("how the bytes are split changes what is begun")

    def _begun_at_once(self, received: bytes) -> int:
        run = Run(self._sockets)
        try:
            run.inbox += received
            run.deliver()
            run.settle()
            return len(run.engine.calls)
        finally:
            run.close()


def _check_answers(run: Run, found: list[Any], closes: bool) -> None:
    """See that each request has its answer, in order, and nothing else has."""
    calls = run.engine.calls
    late = bool(found) and found[-1].status == 408
    if late:
        if not closes or not run.used & set(b"tTU"):
            raise FindingError("a 408 that nobody waited for")
        found = found[:-1]
    if len(found) > len(calls):
        raise FindingError("more answers than requests")
    for answer, call in zip(found, calls, strict=False):
        if answer != expected(str(call.operation[0]), call.outcome):
            raise FindingError(f"{call.operation[0]} is answered with {str(answer)[:200]}")
    if len(found) < len(calls) and not _may_be_unanswered(run, calls[len(found) :]):
        raise FindingError("a request is not answered")
    if closes and not late and not run.used & set(b"esSf"):
        raise FindingError("the connection closes for no reason")


def _may_be_unanswered(run: Run, calls: list[Call]) -> bool:
    """Tell whether nobody is there to have these answers."""
    if not run.transport.closing:
        return False
    if run.used & LOSING:
        return True
    # A poll is for a client that sends on: the end of its requests is the end of the connection.
    return run.ended and [call.operation[0] for call in calls] == ["queue_poll"]


def _check_end(run: Run) -> None:
    """See that nothing was wrong between, and nothing is left behind a connection that is gone."""
    if run.engine.complaint is not None:
        raise FindingError(run.engine.complaint)
    if run.engine.flying:
        raise FindingError("an item was neither confirmed nor returned")
    if run.uploads.held_bytes:
        raise FindingError("bytes of a body stay counted")
    if run.fast_path in list(run.watch):
        raise FindingError("the connection is still watched")
