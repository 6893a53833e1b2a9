"""What the requests on a wire mean and how they are answered, found out without the fast path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import HttpVersion11
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser, HttpRequestParserPy
from aiohttp.streams import EMPTY_PAYLOAD

from grid_member.engine.api import Entry, Item, Reason, Refused
from grid_member.http.wire.connection import MAX_HEADERS_LINES
from grid_member.http.wire.paths import split_target
from tests.fuzz.fast_path_engine import FAILED
from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from grid_member.config.model.member import Limits
    from tests.fuzz.fast_path_wire import Loop

BODY_BUFFER_BYTES: Final = 1 << 20
_ANSWER: Final = re.compile(
    rb"HTTP/1\.1 ([0-9]{3}) ([A-Za-z ]+)\r\n"
    rb"(?:Content-Type: ([^\r\n]+)\r\n)?"
    rb"Content-Length: (0|[1-9][0-9]*)\r\n"
    rb"(?:X-Grid-Error: ([ -~]{1,256})\r\n)?"
    rb"(Retry-After: 1\r\n)?"
    rb"Date: [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT\r\n"
    rb"(Connection: close\r\n)?\r\n"
)
_PHRASES: Final = {
    200: b"OK",
    204: b"No Content",
    404: b"Not Found",
    408: b"Request Timeout",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
}
_RETRIED: Final = (Reason.UNAVAILABLE, Reason.OVERLOADED, Reason.CLOSING)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer on the wire, without its Date."""

    status: int
    body: bytes = b""
    content_type: str | None = None
    error: str | None = None
    retry: bool = False


def answers(wire: bytes) -> tuple[list[Answer], bool]:
    """Return the answers, and whether the last says that the connection closes.

    Raises:
        FindingError: there is something else, too.
    """
    found: list[Answer] = []
    start, closes = 0, False
    while start < len(wire):
        match = _ANSWER.match(wire, start)
        if match is None or closes:
            raise FindingError(f"no answer: {wire[start : start + 200]!r}")
        status, phrase, content_type, length, error, retry, close = match.groups()
        if _PHRASES.get(int(status)) != phrase:
            raise FindingError(f"no such status: {status!r} {phrase!r}")
        start = match.end() + int(length)
        body = wire[match.end() : start]
        if len(body) < int(length):
            raise FindingError("an answer is shorter than it says")
        closes = close is not None
        found.append(
            Answer(
                int(status),
                bytes(body),
                None if content_type is None else content_type.decode("latin-1"),
                None if error is None else error.decode(),
                retry is not None,
            )
        )
    return found, closes


def expected(operation: str, outcome: Any) -> Answer:
    """Return the answer to an operation."""
    if isinstance(outcome, Refused):
        status = 404 if outcome.reason is Reason.NOT_CONFIGURED else 503
        return Answer(status, error=outcome.message, retry=outcome.reason in _RETRIED)
    if outcome is FAILED:
        return Answer(500, error="unexpected error")
    if operation in ("map_put", "map_remove"):
        return Answer(200)
    if operation == "queue_offer":
        return Answer(200) if outcome else Answer(503, error="the queue is full")
    if outcome is None:
        return Answer(204)
    if operation == "queue_size":
        return Answer(200, str(outcome).encode(), "text/plain")
    assert isinstance(outcome, Entry | Item)
    content_type = outcome.content_type
    if content_type is None and isinstance(outcome, Item):
        content_type = _made_up(outcome.value)
    return Answer(200, outcome.value, content_type)


def _made_up(value: bytes) -> str:
    try:
        value.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"


def operations(wire: bytes, limits: Limits, loop: Loop, *, c: bool) -> list[tuple[object, ...]]:
    """Return what aiohttp and the interface make of these bytes, all of them whole requests.

    Args:
        wire: from the first byte of a connection on.
        limits: as aiohttp's connection has them.
        loop: for aiohttp.
        c: with the parser in C, as the member does, else with the one in Python.

    Raises:
        FindingError: they are something else.
    """
    protocol = BaseProtocol(loop)  # type: ignore[arg-type]
    parser = (HttpRequestParser if c else HttpRequestParserPy)(
        protocol,
        loop,  # type: ignore[arg-type]
        BODY_BUFFER_BYTES,
        max_line_size=limits.header_bytes,
        max_field_size=limits.header_bytes + 1,
        max_headers=MAX_HEADERS_LINES,
        auto_decompress=False,
    )
    try:
        messages, upgraded, tail = parser.feed_data(wire)
    except Exception as error:
        raise FindingError(f"aiohttp refuses what the fast path took: {error!r}") from error
    if upgraded or tail:
        raise FindingError("aiohttp takes something for an upgrade")
    return [_operation(message, payload) for message, payload in messages]


def _operation(message: Any, payload: Any) -> tuple[object, ...]:
    if message.version != HttpVersion11 or message.should_close or message.upgrade:
        raise FindingError("a request that does not keep its connection")
    if message.chunked:
        raise FindingError("a chunked body")
    hosts = [name for name, _ in message.raw_headers if name.lower() == b"host"]
    if len(hosts) != 1:
        raise FindingError("not one Host")
    body = b""
    if payload is not EMPTY_PAYLOAD:
        if not payload.is_eof():
            raise FindingError("the end of a body is somewhere else for aiohttp")
        body = payload.read_nowait(-1)
    types = [v for n, v in message.raw_headers if n.lower() == b"content-type"]
    content_type = types[0].decode("latin-1") or None if types else None
    return _routed(message.method, message.path, body, content_type)


def _routed(method: str, path: str, body: bytes, content_type: str | None) -> tuple[object, ...]:
    target = split_target(path)
    parts = target.parts
    if target.trailing_slash or parts[:2] != ("grid", "rest") or len(parts) not in (4, 5):
        raise FindingError(f"no data path: {path!r}")
    kind, names = parts[2], parts[3:]
    written = method in ("POST", "PUT")
    if written and kind == "maps" and len(names) == 2:
        return ("map_put", *names, body, content_type)
    if written and kind == "queues" and len(names) == 1:
        return ("queue_offer", *names, body, content_type)
    if body:
        raise FindingError("a body that the operation does not read")
    if kind == "maps" and len(names) == 2 and method in ("GET", "DELETE"):
        return ("map_get" if method == "GET" else "map_remove", *names)
    if kind == "queues" and len(names) == 2 and method == "DELETE":
        return ("queue_poll", names[0], float(int(names[1])))
    if kind == "queues" and len(names) == 2 and (method, names[1]) == ("GET", "size"):
        return ("queue_size", names[0])
    raise FindingError(f"no data operation: {method} {path!r}")
