"""Maps: interface "Data", answers sections 1 and 2."""

from __future__ import annotations

from tests.unit.member.conformance.language import (
    BAD,
    MISSING,
    NOTHING,
    OK,
    Role,
    Row,
    call,
    item,
    not_allowed,
    row,
    value,
)
from tests.unit.member.conformance.targets import KEY, MAP, POLL, QUEUE

ALL = "POST, PUT, GET, HEAD, DELETE"

MAPS: tuple[Row, ...] = (
    row("interface §Data 1; interface §What 1", call("POST", KEY, OK, b"v")),
    row(
        "interface §Data 1",
        call("POST", KEY, OK, b"v"),
        call("POST", KEY, OK, b"w"),
        call("GET", KEY, value(b"w")),
    ),
    row(
        "interface §Data 2; interface §Map 2",
        call("POST", KEY, OK, b"v"),
        call("GET", KEY, value(b"v")),
        call("GET", KEY, value(b"v")),
    ),
    row("interface §Data 2; interface §Errors 5", call("GET", KEY, NOTHING)),
    row(
        "interface §Data 3",
        call("POST", KEY, OK, b"v"),
        call("DELETE", KEY, OK),
        call("GET", KEY, NOTHING),
        call("DELETE", KEY, OK),
    ),
    row(
        "interface §Data 4",
        call("POST", f"{MAP}/a", OK, b"1"),
        call("POST", f"{MAP}/b", OK, b"2"),
        call("POST", "/grid/rest/maps/{map}2/a", OK, b"3"),
        call("DELETE", MAP, OK),
        call("GET", f"{MAP}/a", NOTHING),
        call("GET", f"{MAP}/b", NOTHING),
        call("GET", "/grid/rest/maps/{map}2/a", value(b"3")),
    ),
    row("interface §Data 4", call("DELETE", MAP, OK)),
    row(
        "interface §Data 8; answers §1 13",
        call("POST", f"{KEY}/", OK, b"v"),
        call("GET", KEY, value(b"v")),
        call("GET", f"{KEY}/", value(b"v")),
        call("HEAD", f"{KEY}/", value(b"v")),
        call("DELETE", f"{KEY}/", OK),
        call("GET", KEY, NOTHING),
    ),
    row(
        "answers §1 13",
        call("POST", f"{KEY}//", OK, b"v"),
        call("GET", KEY, NOTHING),
        call("GET", f"{MAP}/k%2F", value(b"v")),
    ),
    row(
        "answers §1 13",
        call("POST", KEY, OK, b"v"),
        call("DELETE", f"{MAP}/", BAD),
        call("DELETE", f"{MAP}//", BAD),
        call("GET", KEY, value(b"v")),
    ),
    row("answers §1 4", call("GET", MAP, not_allowed("DELETE"))),
    row("answers §1 4", call("POST", MAP, not_allowed("DELETE"), b"v")),
    row("answers §1 4", call("PUT", f"{MAP}/", not_allowed("DELETE"), b"v")),
    row("answers §1 4", call("HEAD", MAP, not_allowed("DELETE"))),
    row("answers §1 4", call("PATCH", KEY, not_allowed(ALL), b"v")),
    row("answers §1 4", call("OPTIONS", KEY, not_allowed(ALL))),
    row("answers §1 12", call("PUT", KEY, OK, b"v"), call("GET", KEY, value(b"v"))),
    row(
        "answers §1 9",
        call("POST", KEY, OK, b"value", Content_Type="a/b"),
        call("HEAD", KEY, value(b"value", "a/b")),
        call("HEAD", f"{MAP}/absent", NOTHING),
        call("HEAD", f"{MAP}/%zz", BAD),
    ),
    row(
        "answers §1 11",
        call("POST", f"{KEY}?ttl=1", OK, b"v"),
        call("GET", f"{KEY}?a=%zz&b", value(b"v")),
        call("GET", f"{KEY}/?", value(b"v")),
        call("GET", f"{MAP}/k%3Fttl=1", NOTHING),
    ),
    row(
        "answers §1 11",
        call("POST", KEY, OK, b"v"),
        *(call("DELETE", f"{MAP}{rest}", BAD) for rest in ("?key=k", "?", "/?key=k", "?a/b")),
        call("DELETE", f"{KEY}?a=b", OK),
        call("GET", KEY, NOTHING),
    ),
    row(
        "answers §1 11",
        call("POST", KEY, OK, b"v"),
        call("DELETE", f"http://a{MAP}?key=k", BAD),
        call("GET", KEY, value(b"v")),
    ),
    row(
        "interface §Map 1; answers §2 2",
        *(call(m, "/grid/rest/maps/nowhere/k", MISSING) for m in ("GET", "HEAD", "DELETE")),
        *(call(m, "/grid/rest/maps/nowhere/k", MISSING, b"v") for m in ("POST", "PUT")),
        call("DELETE", "/grid/rest/maps/nowhere", MISSING),
        role=Role.STRICT,
    ),
    row(
        "answers §2 2",
        call("POST", "/grid/rest/maps/exact/k", OK, b"v"),
        call("GET", "/grid/rest/maps/exact/k", value(b"v")),
        call("POST", "/grid/rest/maps/short.{map}/k", OK, b"v"),
        call("POST", "/grid/rest/maps/Exact/k", MISSING, b"v"),
        role=Role.STRICT,
    ),
)

TYPES: tuple[Row, ...] = (
    *(
        row(
            "interface §Map 3; answers §2 4",
            call("POST", KEY, OK, b"\x00\xff", Content_Type=sent),
            call("GET", KEY, value(b"\x00\xff", sent)),
        )
        for sent in (
            *("text/plain", "Text/Plain; Charset=UTF-8", 'a/b; c="d, e"; c=f', "x", "\xe4/\xff"),
            *("a/b;\tc", "A" * 30_000),
        )
    ),
    row(
        "answers §2 4",
        call("POST", KEY, OK, b"v", Content_Type="  a/b \t"),
        call("GET", KEY, value(b"v", "a/b")),
    ),
    row(
        "answers §2 4",
        call("POST", KEY, OK, b"v", content_TYPE="a/b"),
        call("GET", KEY, value(b"v", "a/b")),
    ),
    row("answers §2 4", call("POST", KEY, OK, b"v"), call("GET", KEY, value(b"v"))),
    row(
        "answers §2 4",
        call("POST", KEY, OK, b"v", Content_Type=""),
        call("GET", KEY, value(b"v")),
    ),
    row(
        "answers §2 4",
        call("POST", KEY, OK, b"v", Content_Type="a/b"),
        call("POST", KEY, OK, b"w"),
        call("GET", KEY, value(b"w")),
    ),
    row("answers §2 4", call("POST", KEY, OK), call("GET", KEY, value(b""))),
    row(
        "answers §2 4",
        call("POST", KEY, OK, b"", Content_Type="a/b"),
        call("GET", KEY, value(b"", "a/b")),
    ),
    *(
        row(
            "interface §Data 6; answers §2 4",
            call("POST", QUEUE, OK, sent),
            call("DELETE", POLL, item(sent, shown)),
        )
        for sent, shown in (
            (b"text", "text/plain"),
            (b"", "text/plain"),
            (b"\x00\x01", "text/plain"),
            ("ä€😀".encode(), "text/plain"),
            (b"\xff", "application/octet-stream"),
            (b"\xed\xa0\x80", "application/octet-stream"),
            (bytes(range(256)), "application/octet-stream"),
        )
    ),
    row(
        "interface §Data 5; answers §2 4",
        call("POST", QUEUE, OK, b"{}", Content_Type="Application/JSON"),
        call("DELETE", POLL, item(b"{}", "Application/JSON")),
    ),
    row("answers §2 4", call("POST", QUEUE, OK), call("DELETE", POLL, item(b""))),
)

ROWS: tuple[Row, ...] = (*MAPS, *TYPES)
