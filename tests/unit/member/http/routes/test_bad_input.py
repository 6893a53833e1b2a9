"""Malformed requests to every path of the routing table, and what each of them is answered.

After every one of them the member serves other connections, and this one too where it is kept.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from grid_member.http.table import ROUTES
from tests.unit.member.wire import Wire

if TYPE_CHECKING:
    from grid_member.http.table import Route
    from tests.unit.member.running import RunningMember

PATHS = sorted({route.path for route in ROUTES})
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND")
CHUNKED = b"Transfer-Encoding: chunked\r\n"
READY = b"GET /grid/health/ready HTTP/1.1\r\nHost: a\r\n\r\n"
TOO_LONG_BYTES = 70_000

HEADERS = {
    "two lengths": b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "two different lengths": b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "list of lengths": b"Content-Length: 1, 1\r\n\r\nx",
    "plus": b"Content-Length: +1\r\n\r\nx",
    "negative": b"Content-Length: -1\r\n\r\nx",
    "not a number": b"Content-Length: 1x\r\n\r\nx",
    "empty length": b"Content-Length:\r\n\r\nx",
    "overflowing length": b"Content-Length: 18446744073709551616\r\n\r\nx",
    "length and chunked": b"Content-Length: 1\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "chunked and length": CHUNKED + b"Content-Length: 1\r\n\r\n0\r\n\r\n",
    "twice chunked": CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "chunked in a list": b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "gzip and chunked": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "obs-fold": b"X-A: b\r\n c\r\n\r\n",
    "obs-fold with a tab": b"X-A: b\r\n\tc\r\n\r\n",
    "folded length": b"Content-Length:\r\n 1\r\n\r\nx",
    "bare CR": b"X-A: b\rc\r\n\r\n",
    "bare LF": b"X-A: b\nX-C: d\r\n\r\n",
    "bare LF at the end": b"X-A: b\r\n\n",
    "space before the colon": b"X-A : b\r\n\r\n",
    "no colon": b"X-A\r\n\r\n",
    "no name": b": b\r\n\r\n",
    "NUL": b"X-A: b\0\r\n\r\n",
    "control character": b"X-A: b\x02\r\n\r\n",
    "two hosts": b"Host: b\r\n\r\n",
    "two types": b"Content-Type: a/b\r\nContent-Type: c/d\r\n\r\n",
    "bad chunk size": CHUNKED + b"\r\nzz\r\n",
    "negative chunk size": CHUNKED + b"\r\n-1\r\n",
    "hexadecimal prefix": CHUNKED + b"\r\n0x1\r\nx\r\n0\r\n\r\n",
    "chunk size after a space": CHUNKED + b"\r\n 1\r\nx\r\n0\r\n\r\n",
    "overflowing chunk size": CHUNKED + b"\r\n10000000000000000\r\n",
    "chunk with too much": CHUNKED + b"\r\n1\r\nxy\r\n0\r\n\r\n",
    "chunk with too little": CHUNKED + b"\r\n3\r\nx\r\n0\r\n\r\n",
    "chunks with LF": CHUNKED + b"\r\n1\nx\n0\n\n",
    "bad trailer": CHUNKED + b"\r\n1\r\nx\r\n0\r\nX A\r\n\r\n",
}
"""What follows the request line and the Host header; 400, and the connection closes."""

LINES = {
    "no host": b"%b %b HTTP/1.1\r\n\r\n",
    "HTTP/0.9": b"%b %b\r\n\r\n",
    "HTTP/1.2": b"%b %b HTTP/1.2\r\nHost: a\r\n\r\n",
    "HTTP/2.0": b"%b %b HTTP/2.0\r\nHost: a\r\n\r\n",
    "no version number": b"%b %b HTTP/\r\nHost: a\r\n\r\n",
    "another protocol": b"%b %b FTP/1.0\r\nHost: a\r\n\r\n",
    "unknown method": b"X%b %b HTTP/1.1\r\nHost: a\r\n\r\n",
    "method with a space before": b" %b %b HTTP/1.1\r\nHost: a\r\n\r\n",
    "space in the path": b"%b %b x HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in the path": b"%b %b\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "raw UTF-8 in the path": b"%b %b\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host in the target": b"%b http://%b HTTP/1.1\r\nHost: a\r\n\r\n",
    "LF lines": b"%b %b HTTP/1.1\nHost: a\n\n",
    "CR lines": b"%b %b HTTP/1.1\rHost: a\r\r",
    "chunked in HTTP/1.0": b"%b %b HTTP/1.0\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%.0b%.0b",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03%.0b%.0b",
    "garbage": b"\x00\xff\xfe%.0b%.0b",
}
"""Whole requests made of method and path; 400, and the connection closes."""

ESCAPES = ("%", "%4", "%zz", "%%41", "%u0041", "%ff", "%c3", "%C0%AF", "%ED%A0%80", "#x")
"""What no path may end in; 400, and the connection stays."""


@dataclass(frozen=True)
class Case:
    name: str
    data: bytes
    status: int
    method: str = "POST"
    closes: bool = True
    allow: str | None = None


def filled(path: str) -> str:
    """Return the path with something in place of its braces."""
    for brace, text in (
        *(("{name}", "default"), ("{key...}", "k"), ("{check...}", "x"), ("{seconds}", "0")),
        *(("{uuid}", "u"), ("{id}", "1")),
    ):
        path = path.replace(brace, text)
    return path


def head(method: str, path: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n".encode()


def framing_cases(method: str, path: str) -> list[Case]:
    cases = [Case(name, head(method, path) + lines, 400, method) for name, lines in HEADERS.items()]
    made = [(name, line % (method.encode(), path.encode())) for name, line in LINES.items()]
    cases += [Case(name, data, 400, method) for name, data in made]
    long = b"a" * TOO_LONG_BYTES
    lines = b"".join(b"X%d: a\r\n" % n for n in range(1100))
    block = b"".join(b"X%d: %b\r\n" % (n, b"a" * 990) for n in range(70))
    declared = head(method, path) + b"Content-Length: %d\r\n"
    chunk = head(method, path) + CHUNKED + b"\r\n800001\r\n" + bytes(0x800001)
    return [
        *cases,
        Case("long header", head(method, path) + b"X-A: " + long + b"\r\n\r\n", 431, method),
        Case("many headers", head(method, path) + lines + b"\r\n", 431, method),
        Case("large header block", head(method, path) + block + b"\r\n", 431, method),
        Case("long query", head(method, path + "?" + long.decode()) + b"\r\n", 414, method),
        Case("large body", declared % 8388609 + b"\r\n", 413, method),
        Case("large body, expecting", declared % 8388609 + b"Expect: 100-continue\r\n\r\n", 413),
        Case("large chunk", chunk + b"\r\n0\r\n\r\n", 413, method),
    ]


def escape_cases(method: str, path: str) -> list[Case]:
    return [
        Case(f"ends in {end}", head(method, path + end) + b"\r\n", 400, method, closes=False)
        for end in (*ESCAPES, "/%zz", "/%ff/")
    ]


def method_cases(path: str, routes: list[Route]) -> list[Case]:
    allowed = [method for route in routes for method in route.methods]
    return [
        Case(
            f"wrong method {method}",
            head(method, filled(path)) + b"\r\n",
            405,
            method,
            closes=False,
            allow=", ".join(allowed),
        )
        for method in METHODS
        if method not in allowed
    ]


def body_cases(route: Route, path: str) -> list[Case]:
    if route.parameters is None:
        return []
    few = b"&" * (route.parameters - 2)
    return [
        Case(
            f"body {body!r}",
            head(method, path) + b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
            400,
            method,
            closes=False,
        )
        for method in route.methods
        for body in (b"", b"\0", b"dev", b"\xff\xfe" + few, b"dev&%zz" + few, b"%ed%a0%80&" + few)
    ]


def cases_of(path: str) -> list[Case]:
    routes = [route for route in ROUTES if route.path == path]
    cases = method_cases(path, routes)
    for route in routes:
        cases += body_cases(route, filled(path))
        for method in route.methods:
            cases += framing_cases(method, filled(path)) + escape_cases(method, filled(path))
    # Without a name nothing is read, however large.
    return [case for case in cases if case.status != 413 or routes[0].operation != "no_name"]


async def play(port: int, case: Case) -> None:
    async with await Wire.connect(port) as wire:
        # What follows must not be taken for a request of its own unless the connection stays.
        wire.send(case.data + (b"" if case.closes else READY))
        reply = await wire.reply(case.method)
        assert (reply.status, reply.body) == (case.status, b"")
        assert reply.header("Allow") == case.allow
        assert reply.header("Connection") == ("close" if case.closes else None)
        assert (reply.header("X-Grid-Error") is None) == (case.status == 405)
        if not case.closes:
            assert (await wire.reply()).status == 200
            return
        with contextlib.suppress(ConnectionResetError):
            assert await wire.ended(), "one answer and the end"


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_refuses_what_is_malformed(member: RunningMember, path: str) -> None:
    async with await Wire.connect(member.port) as other:
        await other.call("POST", "/grid/rest/maps/default/k", b"before")
        for case in cases_of(path):
            try:
                await play(member.port, case)
            except (AssertionError, TimeoutError, EOFError) as problem:
                raise AssertionError(f"{case.method} {path}: {case.name}: {problem!r}") from problem
            assert (await other.call("GET", "/grid/health/ready")).status == 200
        assert (await other.call("GET", "/grid/rest/maps/default/k")).body == b"before"
        assert (await other.call("GET", "/grid/rest/queues/default/size")).body == b"0"


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("at", [1, 20, 60, -1])
async def test_in_several_packets_it_is_the_same(member: RunningMember, name: str, at: int) -> None:
    data = head("POST", "/grid/rest/maps/default/k") + HEADERS[name]
    async with await Wire.connect(member.port) as wire:
        for part in (data[:at], data[at:]):
            wire.send(part)
            await wire.writer.drain()
            assert (await member_alive(member)) == 200
        reply = await wire.reply()
        assert (reply.status, reply.header("Connection")) == (400, "close")
        assert await wire.ended()


async def member_alive(member: RunningMember) -> int:
    """Ask over another connection, which also lets the member read what was sent before."""
    async with await Wire.connect(member.port) as wire:
        return (await wire.call("GET", "/grid/health/ready")).status
