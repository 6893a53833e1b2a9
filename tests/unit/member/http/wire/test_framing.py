"""HTTP as bytes: framing, limits, malformed requests, pipelining."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.wire import Wire, request

if TYPE_CHECKING:
    from tests.unit.member.running import RunningMember

PUT = b"POST /grid/rest/maps/default/k HTTP/1.1\r\nHost: a\r\n"
GET = b"GET /grid/rest/maps/default/k HTTP/1.1\r\nHost: a\r\n"
CHUNKED = PUT + b"Transfer-Encoding: chunked\r\n\r\n"

MALFORMED = {
    "two lengths": PUT + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "list of lengths": PUT + b"Content-Length: 1, 1\r\n\r\nx",
    "plus": PUT + b"Content-Length: +1\r\n\r\nx",
    "negative": PUT + b"Content-Length: -1\r\n\r\nx",
    "hex": PUT + b"Content-Length: 0x1\r\n\r\nx",
    "empty length": PUT + b"Content-Length:\r\n\r\nx",
    "overflowing length": PUT + b"Content-Length: 99999999999999999999999\r\n\r\nx",
    "length and chunked": PUT + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": PUT + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
    "identity": PUT + b"Transfer-Encoding: identity\r\n\r\n",
    "xchunked": PUT + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "twice chunked": PUT + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "gzip, chunked": PUT + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "obs-fold": PUT + b"X-A: b\r\n c\r\n\r\n",
    "folded length": PUT + b"Content-Length:\r\n 1\r\n\r\nx",
    "bare CR": PUT + b"X-A: b\rc\r\n\r\n",
    "bare LF": b"GET /grid/health HTTP/1.1\nHost: a\n\n",
    "space before colon": PUT + b"X-A : b\r\n\r\n",
    "NUL": PUT + b"X-A: b\0\r\n\r\n",
    "no host": b"GET /grid/health HTTP/1.1\r\n\r\n",
    "version 0.9": b"GET /grid/health\r\n\r\n",
    "version 2.0": b"GET /grid/health HTTP/2.0\r\nHost: a\r\n\r\n",
    "lower case": b"get /grid/health HTTP/1.1\r\nHost: a\r\n\r\n",
    "unknown method": b"FOO /grid/health HTTP/1.1\r\nHost: a\r\n\r\n",
    "connect": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00",
    "raw UTF-8": b"GET /grid/rest/maps/default/\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
    "chunk size": CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n",
    "chunk end": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_is_400_empty_and_close(member: RunningMember, data: bytes) -> None:
    async with await Wire.connect(member.port) as wire:
        # What follows must not be taken as a request of its own.
        wire.send(data + GET + b"\r\n")
        reply = await wire.reply()
        assert (reply.status, reply.body) == (400, b"")
        assert reply.header("Connection") == "close"
        assert reply.header("X-Grid-Error")
        assert reply.header("Server") is None
        with contextlib.suppress(ConnectionResetError):  # it closed with bytes unread
            assert await wire.ended()


LIMITS = {
    "value": (413, PUT + b"Content-Length: 8388609\r\n\r\n"),
    "chunked value": (413, CHUNKED + b"800001\r\n" + b"v" * 0x800001 + b"\r\n0\r\n\r\n"),
    "one header": (431, GET + b"X-A: " + b"a" * 70_000 + b"\r\n\r\n"),
    "all headers": (431, GET + b"".join(b"X%d: %s\r\n" % (i, b"a" * 990) for i in range(70))),
    "many headers": (431, GET + b"".join(b"X%d: a\r\n" % i for i in range(1100))),
    "request line": (414, b"GET /" + b"p" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
}


@pytest.mark.parametrize("name", LIMITS)
async def test_limits(member: RunningMember, name: str) -> None:
    status, data = LIMITS[name]
    async with await Wire.connect(member.port) as wire:
        wire.send(data + b"\r\n")
        reply = await wire.reply()
    assert (reply.status, reply.body) == (status, b"")


async def test_the_largest_value_passes(member: RunningMember) -> None:
    value = bytes(8 << 20)
    async with await Wire.connect(member.port) as wire:
        reply = await wire.call("POST", "/grid/rest/maps/default/k", value)
        assert reply.status == 200
        assert (await wire.call("GET", "/grid/rest/maps/default/k")).body == value


async def test_chunked_with_extension_and_trailer(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(CHUNKED + b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: x\r\n\r\n" + GET + b"\r\n")
        assert (await wire.reply()).status == 200
        assert (await wire.reply()).body == b"abcde"


async def test_body_bytes_are_stored_as_they_came(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as wire:
        await wire.call("POST", "/grid/rest/maps/default/k", b"not gzip", Content_Encoding="gzip")
        assert (await wire.call("GET", "/grid/rest/maps/default/k")).body == b"not gzip"


async def test_expect_continue(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(PUT + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        assert (await wire.reply()).status == 100
        wire.send(b"v")
        assert (await wire.reply()).status == 200
        wire.send(PUT + b"Expect: 100-continue\r\nContent-Length: 9999999999\r\n\r\n")
        assert (await wire.reply()).status == 413


async def test_unknown_expectation(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(PUT + b"Expect: more\r\nContent-Length: 1\r\n\r\nx")
        assert (await wire.reply()).status == 417


async def test_http_1_0(member: RunningMember) -> None:
    for extra, kept in ((b"", "close"), (b"Connection: keep-alive\r\n", "keep-alive")):
        async with await Wire.connect(member.port) as wire:
            wire.send(b"GET /grid/health HTTP/1.0\r\n" + extra + b"\r\n")
            reply = await wire.reply()
            assert (reply.status, reply.header("Connection")) == (200, kept)
            if kept == "close":
                assert await wire.ended()


async def test_connection_close_is_followed(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as wire:
        reply = await wire.call("GET", "/grid/health", Connection="close")
        assert reply.header("Connection") == "close"
        assert await wire.ended()


async def test_an_upgrade_is_ignored(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as wire:
        asked = request("GET", "/grid/health", Connection="upgrade", Upgrade="websocket")
        wire.send(asked + request("GET", "/grid/rest/instance"))
        assert (await wire.reply()).status == 200
        assert (await wire.reply()).body == b'{"name":"tester"}'


async def test_pipelined_answers_come_in_order(member: RunningMember) -> None:
    count = 300
    async with await Wire.connect(member.port) as wire:
        for n in range(count):
            path = f"/grid/rest/maps/default/{n}"
            wire.send(request("POST", path, b"%d" % n) + request("GET", path))
        for n in range(count):
            assert (await wire.reply()).status == 200
            assert (await wire.reply()).body == b"%d" % n


async def test_a_request_may_come_byte_by_byte(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as wire:
        for byte in request("POST", "/grid/rest/maps/default/k", b"value"):
            wire.send(bytes([byte]))
            await wire.writer.drain()
            await asyncio.sleep(0)
        assert (await wire.reply()).status == 200
