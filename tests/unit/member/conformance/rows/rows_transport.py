"""HTTP itself: answers section 1."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.member.conformance.language import (
    BAD,
    CONTINUE,
    MISSING,
    NOTHING,
    OK,
    Also,
    Ask,
    Call,
    Event,
    Role,
    Row,
    Want,
    call,
    closing,
    disabled,
    document,
    item,
    not_allowed,
    number,
    raw,
    row,
    value,
)
from tests.unit.member.conformance.targets import KEY, QUEUE, STATE

NOWHERE = "/grid/rest/maps/nowhere/k"
READY = b"GET /grid/health/ready HTTP/1.1\r\nHost: a\r\n\r\n"
ACTIVE = document('{"status":"success","state":"active"}')
HTTP = "answers §1 10"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
EXPECT = b"Expect: 100-continue\r\n"
KEPT = (("Connection", "keep-alive"),)


def sent(method: str, path: str, *parts: bytes, version: bytes = b"1.1") -> Ask:
    """Return a request of raw header lines and what follows them; the path is filled in."""
    head = method.encode() + b" {path} HTTP/" + version + b"\r\n"
    host = b"Host: a\r\n" if version == b"1.1" else b""
    return raw(method, path, head + host + b"".join(parts))


def stores(body: bytes, *parts: bytes) -> Row:
    """Return the row of a write whose framing gives the body."""
    return row(HTTP, Call(sent("POST", KEY, *parts), OK), call("GET", KEY, value(body)))


def refused(*parts: bytes, version: bytes = b"1.1") -> Row:
    """Return the row of a write whose framing is refused: nothing of it or behind it happens."""
    return row(
        f"{HTTP}; answers §1 5; interface §Errors 1",
        call("POST", KEY, OK, b"before"),
        Call(sent("POST", KEY, *parts, version=version), closing(BAD)),
        call("GET", KEY, value(b"before")),
    )


FRAMING: tuple[Row, ...] = (
    stores(b"abc", b"Content-Length: 3\r\n\r\nabc"),
    stores(b"abc", b"Content-Length:3\r\n\r\nabc"),
    stores(b"abc", b"content-length:  0003 \r\n\r\nabc"),
    stores(b"", b"\r\n"),
    stores(b"", b"Content-Length: 0\r\n\r\n"),
    stores(b"", CHUNKED + b"\r\n0\r\n\r\n"),
    stores(b"abcde", CHUNKED + b"\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
    stores(b"abcde", CHUNKED + b'\r\n3;a=b\r\nabc\r\n2;c="d e"\r\nde\r\n0;z\r\n\r\n'),
    stores(b"abc", CHUNKED + b"\r\n3\r\nabc\r\n0\r\nX-A: b\r\nX-C: d\r\n\r\n"),
    stores(b"0123456789", CHUNKED + b"\r\n00000A\r\n0123456789\r\n000\r\n\r\n"),
    stores(b"0123456789", CHUNKED + b"\r\na\r\n0123456789\r\n0\r\n\r\n"),
    stores(b"\r\n\r\n0\r\n\r\n", CHUNKED + b"\r\n9\r\n\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"),
    stores(b"\r\n\r\nGET / H", b"Content-Length: 11\r\n\r\n\r\n\r\nGET / H"),
    stores(b"x", b"TRANSFER-ENCODING: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
    stores(b"abc", b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
    refused(b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
    refused(b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
    refused(b"Content-Length: 1, 1\r\n\r\nx"),
    refused(b"Content-Length: 1 1\r\n\r\nx"),
    refused(b"Content-Length: +1\r\n\r\nx"),
    refused(b"Content-Length: -1\r\n\r\nx"),
    refused(b"Content-Length: 0x1\r\n\r\nx"),
    refused(b"Content-Length: 1.0\r\n\r\nx"),
    refused(b"Content-Length:\r\n\r\nx"),
    refused(b"Content-Length: 99999999999999999999999\r\n\r\nx"),
    refused(b"Content-Length: 1\r\n" + CHUNKED + b"\r\n0\r\n\r\n"),
    refused(CHUNKED + b"Content-Length: 1\r\n\r\n0\r\n\r\n"),
    refused(CHUNKED + CHUNKED + b"\r\n0\r\n\r\n"),
    refused(b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    refused(b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    refused(b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    refused(b"Transfer-Encoding: identity\r\n\r\n"),
    refused(b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    refused(b"Transfer-Encoding:\r\n\r\n"),
    refused(CHUNKED + b"\r\n1\r\nx\r\n0\r\n\r\n", version=b"1.0"),
    refused(b"X-A: b\r\n c\r\n\r\n"),
    refused(b"X-A: b\r\n\tc\r\n\r\n"),
    refused(b"Content-Length:\r\n 1\r\n\r\nx"),
    refused(b"X-A: b\rc\r\n\r\n"),
    refused(b"X-A: b\r\r\n\r\n"),
    refused(b"X-A: b\nX-C: d\r\n\r\n"),
    refused(b"X-A: b\r\n\n"),
    refused(b"X-A : b\r\n\r\n"),
    refused(b" X-A: b\r\n\r\n"),
    refused(b"X A: b\r\n\r\n"),
    refused(b"X-A\r\n\r\n"),
    refused(b": b\r\n\r\n"),
    refused(b"X-A: b\0\r\n\r\n"),
    refused(b"X-A: b\x01\r\n\r\n"),
    refused(b"X-A: b\x7f\r\n\r\n"),
    refused(b"X-\xc3\xa4: b\r\n\r\n"),
    refused(b"Host: b\r\n\r\n"),
    refused(b"Content-Type: a/b\r\nContent-Type: a/b\r\n\r\n"),
    *(
        refused(CHUNKED + b"\r\n" + chunks)
        for chunks in (
            *(
                b"zz\r\nabc\r\n0\r\n\r\n",
                b"-1\r\n\r\n",
                b"+1\r\nx\r\n0\r\n\r\n",
                b"0x1\r\nx\r\n0\r\n\r\n",
            ),
            *(b"\r\n0\r\n\r\n", b"1\nx\n0\n\n", b"1 \r\nx\r\n0\r\n\r\n", b" 1\r\nx\r\n0\r\n\r\n"),
            *(b"FFFFFFFFFFFFFFFFF\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"3\r\nab\r\n0\r\n\r\n"),
            *(
                b"1\r\nx0\r\n\r\n",
                b"1\r\nx\r\n0\r\nbad trailer\r\n\r\n",
                b"1;a\nb\r\nx\r\n0\r\n\r\n",
            ),
            *(b"1\r\nx\r\n0\r\n X: y\r\n\r\n", b"1\r\nx\r\n0\r\nX: y\rz\r\n\r\n"),
        )
    ),
)

REQUEST_LINES: tuple[Row, ...] = tuple(
    row(
        f"{HTTP}; answers §1 5; interface §Errors 1",
        Call(raw("GET", "/", data), closing(BAD)),
        call("GET", "/grid/health/ready", OK),
    )
    for data in (
        b"GET /grid/health HTTP/1.1\r\n\r\n",
        b"GET /grid/health\r\n\r\n",
        b"GET /grid/health HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET /grid/health HTTP/1.2\r\nHost: a\r\n\r\n",
        b"GET /grid/health HTTP/0.9\r\nHost: a\r\n\r\n",
        b"GET /grid/health HTTP/11\r\nHost: a\r\n\r\n",
        b"GET /grid/health http/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"get /grid/health HTTP/1.1\r\nHost: a\r\n\r\n",
        b"FOO /grid/health HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET grid/health HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http:///grid/health HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET\t/grid/health HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /grid/health HTTP/1.1 \r\nHost: a\r\n\r\n",
        b"GET /grid/he alth HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /grid/health\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /grid/health HTTP/1.1\nHost: a\n\n",
        b"GET /grid/health HTTP/1.1\rHost: a\r\r",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x01\x02\x03",
        b"\xff" * 100,
        b"A" * 100_000,
    )
)

EXPECTATIONS: tuple[Row, ...] = (
    row(
        HTTP,
        Call(sent("POST", KEY, EXPECT, b"Content-Length: 1\r\n\r\n"), CONTINUE),
        Also(OK, b"v"),
        call("GET", KEY, value(b"v")),
    ),
    row(
        HTTP,
        Call(sent("POST", KEY, b"expect: 100-Continue\r\n", CHUNKED, b"\r\n"), CONTINUE),
        Also(OK, b"1\r\nv\r\n0\r\n\r\n"),
        call("GET", KEY, value(b"v")),
    ),
    row(HTTP, Call(sent("POST", KEY, EXPECT, b"Content-Length: 0\r\n\r\n"), OK)),
    row(HTTP, Call(sent("GET", KEY, EXPECT, b"\r\n"), NOTHING)),
    row(
        HTTP,
        Call(sent("POST", KEY, EXPECT, b"Content-Length: 1\r\n\r\nv", version=b"1.0"), closing(OK)),
    ),
    # Refused before the body was sent, and without inviting it.
    *(
        row(
            HTTP,
            Call(sent(method, path, EXPECT, b"Content-Length: 9\r\n\r\n"), closing(want)),
            role=role,
        )
        for method, path, want, role in (
            ("POST", "/grid/rest/nothing", MISSING, Role.OPEN),
            ("POST", "/other", MISSING, Role.OPEN),
            ("POST", KEY, disabled("DATA"), Role.DEFAULTS),
            ("POST", STATE, disabled("CLUSTER_READ"), Role.STRICT),
            ("POST", NOWHERE, MISSING, Role.STRICT),
            ("PUT", "/grid/rest/queues/nowhere", MISSING, Role.STRICT),
            ("POST", f"/grid/rest/maps/{'n' * 256}/k", Want(414), Role.OPEN),
            ("POST", "/grid/rest/maps/{map}/%zz", BAD, Role.OPEN),
            ("POST", "/grid/rest/cluster", not_allowed("GET, HEAD"), Role.OPEN),
            ("POST", "/grid/health/ready", not_allowed("GET"), Role.OPEN),
        )
    ),
    row(
        f"{HTTP}; answers §1 8",
        Call(sent("POST", KEY, EXPECT, b"Content-Length: 8388609\r\n\r\n"), closing(Want(413))),
    ),
    row(
        HTTP,
        Call(sent("POST", KEY, b"Expect: more\r\nContent-Length: 1\r\n\r\nv"), closing(Want(417))),
        call("GET", KEY, NOTHING),
    ),
)

LIMITS: tuple[Row, ...] = (
    row(
        "answers §1 8; answers §2 3",
        Call(sent("GET", KEY, b"X-A: " + b"a" * 70_000 + b"\r\n\r\n"), closing(Want(431))),
    ),
    row(
        "answers §1 8; answers §2 3",
        Call(
            sent(
                "GET", KEY, b"".join(b"X%d: %s\r\n" % (i, b"a" * 990) for i in range(70)), b"\r\n"
            ),
            closing(Want(431)),
        ),
    ),
    row(
        "answers §1 8; answers §2 3",
        Call(
            sent("GET", KEY, b"".join(b"X%d: a\r\n" % i for i in range(1100)), b"\r\n"),
            closing(Want(431)),
        ),
    ),
    row(
        "answers §1 8; answers §2 3",
        Call(sent("GET", KEY, b"X-A: " + b"a" * 60_000 + b"\r\n\r\n"), NOTHING),
    ),
    row(
        "answers §1 8; answers §2 3",
        Call(sent("GET", "/" + "p" * 70_000, b"\r\n"), closing(Want(414))),
    ),
    row(
        "answers §1 8; answers §2 3",
        Call(sent("POST", KEY, b"Content-Length: 8388609\r\n\r\n"), closing(Want(413))),
    ),
    row(
        "answers §1 8; answers §2 3",
        Call(
            sent("POST", KEY, CHUNKED, b"\r\n800000\r\n" + bytes(0x800000) + b"\r\n0\r\n\r\n"), OK
        ),
        Call(
            sent("POST", KEY, CHUNKED, b"\r\n800001\r\n" + bytes(0x800001) + b"\r\n0\r\n\r\n"),
            closing(Want(413)),
        ),
        call("GET", KEY, value(bytes(0x800000))),
    ),
    row("answers §1 8", call("POST", STATE, closing(Want(413)), b"x&" + bytes(8 << 20))),
)

CONNECTIONS: tuple[Row, ...] = (
    row(
        HTTP,
        *(call("GET", "/grid/health/ready", OK) for _ in range(5)),
        Call(sent("GET", "/grid/health/ready", b"Connection: close\r\n\r\n"), closing(OK)),
    ),
    row(HTTP, Call(sent("GET", "/grid/health/ready", b"\r\n", version=b"1.0"), closing(OK))),
    row(
        HTTP,
        Call(
            sent("GET", "/grid/health/ready", b"Connection: Keep-Alive\r\n\r\n", version=b"1.0"),
            replace(OK, headers=KEPT),
        ),
        call("GET", "/grid/health/ready", OK),
    ),
    row(
        HTTP,
        Call(sent("POST", KEY, b"Content-Length: 1\r\n\r\nv", version=b"1.0"), closing(OK)),
        call("GET", KEY, value(b"v")),
    ),
    row(
        HTTP,
        Call(sent("POST", KEY, b"Content-Length: 1\r\n\r\nv" + READY + READY), OK),
        Also(OK),
        Also(OK),
    ),
    row(HTTP, Call(raw("GET", "/", b"\r\n\r\n" + READY), OK)),
    row(HTTP, Call(sent("POST", KEY, b"Content-Length: 1\r\n\r\nv\r\n" + READY), OK), Also(OK)),
    row(
        HTTP,
        # Behind a poll that waits: the order is kept, and nothing runs before its turn.
        Call(
            sent(
                "POST",
                QUEUE,
                b"Content-Length: 1\r\n\r\n1",
                b"DELETE {path}/5 HTTP/1.1\r\nHost: a\r\n\r\n",
                b"DELETE {path}/1 HTTP/1.1\r\nHost: a\r\n\r\n",
                b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n2",
                b"GET {path}/size HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            OK,
        ),
        Also(item(b"1")),
        Also(NOTHING),
        Also(OK),
        Also(number(1)),
        slow=True,
    ),
    row(
        f"{HTTP}; answers §1 5",
        # What was right is done, whatever follows it in the same packet.
        Call(sent("POST", KEY, b"Content-Length: 1\r\n\r\nv", b"\0\1garbage\r\n\r\n"), OK),
        Also(closing(BAD)),
        call("GET", KEY, value(b"v")),
    ),
    row(
        HTTP,
        Call(
            sent("POST", KEY, b"Connection: close\r\nContent-Length: 1\r\n\r\nv", READY),
            closing(OK),
        ),
    ),
    *(
        row(
            HTTP,
            Call(
                sent(
                    "POST",
                    KEY,
                    b"Connection: Upgrade\r\nUpgrade: " + to,
                    b"\r\nContent-Length: 1\r\n\r\nv",
                    READY,
                ),
                OK,
            ),
            Also(OK),
            call("GET", KEY, value(b"v")),
        )
        for to in (b"websocket", b"h2c", b"TLS/1.0")
    ),
    row(
        HTTP,
        Call(
            sent(
                "GET", "/grid/health/ready", b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", READY
            ),
            OK,
        ),
        Also(OK),
    ),
    row(
        f"{HTTP}; answers §1 5",
        Call(sent("GET", "/grid/rest/maps/{map}/%zz", b"\r\n"), BAD),
        call("GET", "/grid/health/ready", OK),
    ),
    row(HTTP, Call(sent("GET", "http://any.host:1/grid/health/ready", b"\r\n"), OK)),
    row(HTTP, Call(sent("GET", "HTTPS://u@[::1]/grid/health/ready/?x", b"\r\n"), OK)),
    row(HTTP, Call(sent("GET", "http://host", b"\r\n"), MISSING)),
    row(HTTP, Call(raw("GET", "/", b"GET /grid/health/ready HTTP/1.1\r\nHost:\r\n\r\n"), OK)),
    row(
        HTTP,
        # A body that the request does not need is read and thrown away.
        Call(sent("GET", "/grid/health/ready", b"Content-Length: 3\r\n\r\nabc", READY), OK),
        Also(OK),
        Call(sent("DELETE", KEY, CHUNKED, b"\r\n1\r\nx\r\n0\r\n\r\n"), OK),
        Event.RECONNECT,
        call("GET", "/grid/health/ready", OK),
    ),
    row(
        f"{HTTP}; answers §1 5",
        call("POST", KEY, OK, b"v"),
        Call(sent("DELETE", "/grid/rest/maps/{map}", CHUNKED, b"\r\nzz\r\n"), closing(BAD)),
        Call(sent("DELETE", KEY, CHUNKED, b"\r\n1\r\nxy\r\n"), closing(BAD)),
        call("GET", KEY, value(b"v")),
    ),
)

ROWS: tuple[Row, ...] = (*FRAMING, *REQUEST_LINES, *EXPECTATIONS, *LIMITS, *CONNECTIONS)
