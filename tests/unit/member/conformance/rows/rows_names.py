"""Names, keys and their limits: answers section 2."""

from __future__ import annotations

from tests.unit.member.conformance.language import (
    BAD,
    NOTHING,
    OK,
    Row,
    Want,
    call,
    item,
    number,
    row,
    value,
)
from tests.unit.member.conformance.targets import KEY, MAP, POLL, QUEUE, SIZE

LARGE = bytes(range(256)) * 32768
"""8 MiB, every byte value in it."""
TOO_LONG = Want(414)

ENCODINGS: tuple[Row, ...] = (
    row(
        "interface §Path encoding 1; answers §2 1",
        call("POST", f"{MAP}/a%2Fb", OK, b"1"),
        call("POST", f"{MAP}/a%40b", OK, b"2"),
        call("GET", f"{MAP}/a/b", value(b"1")),
        call("GET", f"{MAP}/a%2fb", value(b"1")),
        call("GET", f"{MAP}/a@b", value(b"2")),
    ),
    row(
        "interface §Path encoding 1; answers §2 1",
        call("POST", "/grid/rest/maps/{map}%2Fx%40y/k", OK, b"v"),
        call("GET", "/grid/rest/maps/{map}%2fx@y/k", value(b"v")),
        call("GET", "/grid/rest/maps/{map}/x@y/k", NOTHING),
    ),
    row(
        "answers §2 1",
        call("POST", f"{MAP}/a+b", OK, b"space"),
        call("POST", f"{MAP}/a%2Bb", OK, b"plus"),
        call("GET", f"{MAP}/a%20b", value(b"space")),
        call("GET", f"{MAP}/a%2bb", value(b"plus")),
    ),
    row(
        "answers §2 1",
        call("POST", f"{MAP}/a//b/c", OK, b"v"),
        call("GET", f"{MAP}/a%2F%2Fb%2Fc", value(b"v")),
        call("GET", f"{MAP}/a/b/c", NOTHING),
    ),
    row(
        "answers §2 1",
        call("POST", f"{MAP}//a", OK, b"v"),
        call("GET", f"{MAP}/%2Fa", value(b"v")),
        call("GET", f"{MAP}/a", NOTHING),
    ),
    row(
        "answers §2 1",
        call("POST", f"{MAP}/a/../b", OK, b"v"),
        call("GET", f"{MAP}/b", NOTHING),
        call("GET", f"{MAP}/a%2F..%2Fb", value(b"v")),
        call("GET", f"{MAP}/%61/%2e./%62", value(b"v")),
    ),
    row(
        "answers §2 1",
        call("POST", f"{MAP}/%C3%A4%E2%82%AC%F0%9F%98%80", OK, b"v"),
        call("GET", f"{MAP}/%c3%a4%e2%82%ac%f0%9f%98%80", value(b"v")),
        call("GET", f"{MAP}/a%CC%88", NOTHING),
    ),
    row(
        "answers §2 1",
        call("POST", f"{MAP}/%00", OK, b"1"),
        call("POST", f"{MAP}/%00%00", OK, b"2"),
        call("POST", f"{MAP}/a%0D%0Ab%09%7F", OK, b"3"),
        call("GET", f"{MAP}/%00", value(b"1")),
        call("GET", f"{MAP}/%00%00", value(b"2")),
        call("GET", f"{MAP}/a%0d%0ab%09%7f", value(b"3")),
    ),
    row(
        "answers §2 1",
        call("POST", "/grid/rest/maps/{map}%00/k", OK, b"v"),
        call("GET", KEY, NOTHING),
        call("GET", "/grid/rest/maps/{map}%00/k", value(b"v")),
    ),
    row(
        "answers §2 1",
        call("POST", f"{MAP}/%EF%BF%BF%EF%BB%BF", OK, b"v"),
        call("GET", f"{MAP}/%EF%BF%BF%EF%BB%BF", value(b"v")),
    ),
    row(
        "answers §2 1",
        call("POST", f"{MAP}/%2525", OK, b"v"),
        call("GET", f"{MAP}/%25", NOTHING),
        call("GET", f"{MAP}/%25%32%35", value(b"v")),
    ),
    *(
        row("answers §2 1", call("GET", f"{MAP}/{bad}", BAD), call("GET", KEY, NOTHING))
        for bad in (
            *("%", "%4", "%zz", "%4g", "a%", "%%41", "%u0041", "k%/x", "%+1"),
            *("%ff", "%C3", "%C3%28", "%80", "%C0%AF", "%E0%80%AF", "%F0%80%80%AF"),
            *("%ED%A0%80", "%ED%BF%BF", "%F4%90%80%80", "%FE", "x%c3"),
        )
    ),
    row("answers §2 1", call("GET", "/grid/rest/maps/%ff/k", BAD)),
    row("answers §2 1", call("POST", "/grid/rest/queues/%zz", BAD, b"i")),
    row("answers §2 1", call("DELETE", "/grid/rest/maps/%ED%A0%80", BAD)),
    row("answers §2 1", call("GET", f"{MAP}/a#b", BAD), call("GET", f"{MAP}/a%23b", NOTHING)),
    row(
        "answers §2 1",
        call("GET", "/grid/rest/maps//k", BAD),
        call("DELETE", "/grid/rest/maps", BAD),
    ),
    *(
        row(
            "answers §2 1",
            *(call(method, path, BAD) for method in ("GET", "HEAD", "DELETE")),
            *(call(method, path, BAD, b"v") for method in ("POST", "PUT")),
        )
        for path in (
            *("/grid/rest/maps", "/grid/rest/maps/"),
            *("/grid/rest/queues", "/grid/rest/queues/", "/grid/rest/maps//k"),
        )
    ),
    row("answers §2 1", call("GET", "/grid/rest/queues//size", BAD)),
)

LIMITS: tuple[Row, ...] = (
    row(
        "answers §2 3",
        call("POST", f"{MAP}/{'k' * 8192}", OK, b"v"),
        call("GET", f"{MAP}/{'k' * 8192}/", value(b"v")),
        call("GET", f"{MAP}/{'k' * 8193}", TOO_LONG),
        call("HEAD", f"{MAP}/{'k' * 8193}", TOO_LONG),
        call("DELETE", f"{MAP}/{'k' * 8193}", TOO_LONG),
        call("POST", f"{MAP}/{'k' * 8193}", TOO_LONG, b"v"),
    ),
    row(
        "answers §2 3; answers §1 8",
        call("GET", f"{MAP}/{'%C3%A4' * 4096}", NOTHING),
        call("GET", f"{MAP}/{'%C3%A4' * 4096}a", TOO_LONG),
        call("GET", f"{MAP}/{'%61' * 8192}", NOTHING),
        call("GET", f"{MAP}/{'%61' * 8193}", TOO_LONG),
        call("GET", f"{MAP}/{'a/' * 4096}b", TOO_LONG),
    ),
    row(
        "answers §2 3",
        call("GET", f"/grid/rest/maps/{'n' * 255}/k", NOTHING),
        call("GET", f"/grid/rest/maps/{'n' * 256}/k", TOO_LONG),
        call("DELETE", f"/grid/rest/maps/{'n' * 256}", TOO_LONG),
        call("GET", f"/grid/rest/maps/{'%E2%82%AC' * 85}/k", NOTHING),
        call("GET", f"/grid/rest/maps/{'%E2%82%AC' * 85}n/k", TOO_LONG),
    ),
    row(
        "answers §2 3",
        call("GET", f"/grid/rest/queues/{'n' * 255}/size", number(0)),
        call("GET", f"/grid/rest/queues/{'n' * 256}/size", TOO_LONG),
        call("POST", f"/grid/rest/queues/{'n' * 256}", TOO_LONG, b"i"),
        call("DELETE", f"/grid/rest/queues/{'n' * 256}/0", TOO_LONG),
    ),
    row(
        "answers §2 3; interface §Limits 4",
        call("POST", KEY, OK, LARGE),
        call("GET", KEY, value(LARGE)),
        call("HEAD", KEY, value(LARGE)),
        call("DELETE", KEY, OK),
    ),
    row(
        "answers §2 3",
        call("POST", QUEUE, OK, LARGE),
        call("DELETE", POLL, item(LARGE, "application/octet-stream")),
    ),
    row(
        "answers §2 3; answers §1 8",
        call("POST", KEY, Want(413, closes=True), LARGE + b"x"),
        call("GET", KEY, NOTHING),
        call("POST", QUEUE, Want(413, closes=True), LARGE + b"x"),
        call("GET", SIZE, number(0)),
    ),
)

ROWS: tuple[Row, ...] = (*ENCODINGS, *LIMITS)
