"""Queues, and what changes with time or size: interface "Data", answers section 2."""

from __future__ import annotations

import re

from tests.unit.member.conformance.language import (
    BAD,
    FULL,
    MISSING,
    NOTHING,
    OK,
    Begin,
    End,
    Leave,
    Role,
    Row,
    Transport,
    Until,
    Want,
    ask,
    call,
    item,
    not_allowed,
    number,
    row,
    value,
)
from tests.unit.member.conformance.targets import POLL, QUEUE, SIZE

ALONE = re.compile(rb'.*"connectionCount":1,"allConnectionCount":1}')
PAIR = re.compile(rb'.*"connectionCount":2,"allConnectionCount":2}')

QUEUES: tuple[Row, ...] = (
    row(
        "interface §Data 5; interface §Data 6; interface §Queue 1",
        call("POST", QUEUE, OK, b"1"),
        call("PUT", f"{QUEUE}/", OK, b"2"),
        call("GET", SIZE, number(2)),
        call("DELETE", POLL, item(b"1")),
        call("DELETE", f"{QUEUE}/60", item(b"2")),
        call("DELETE", POLL, NOTHING),
    ),
    row(
        "interface §Data 7; answers §1 9; answers §1 13",
        call("GET", SIZE, number(0)),
        call("GET", f"{SIZE}/", number(0)),
        call("HEAD", SIZE, number(0)),
        call("POST", QUEUE, OK, b"1"),
        call("GET", f"{SIZE}?x", number(1)),
    ),
    row(
        "interface §Data 5; interface §Errors 3",
        call("POST", "/grid/rest/queues/jobs", OK, b"1"),
        call("POST", "/grid/rest/queues/jobs", FULL, b"2"),
        call("PUT", "/grid/rest/queues/jobs", FULL, b"2"),
        call("DELETE", "/grid/rest/queues/jobs/0", item(b"1")),
        call("DELETE", "/grid/rest/queues/jobs/0", NOTHING),
    ),
    row(
        "answers §2 2",
        call("POST", "/grid/rest/queues/jo.{queue}", OK, b"1"),
        call("POST", "/grid/rest/queues/jo.{queue}", OK, b"2"),
        call("POST", "/grid/rest/queues/jo.{queue}", FULL, b"3"),
        call("POST", QUEUE, OK, b"1"),
        call("POST", QUEUE, OK, b"2"),
        call("POST", QUEUE, OK, b"3"),
    ),
    row(
        "interface §Queue 1; answers §2 2",
        call("POST", "/grid/rest/queues/nowhere", MISSING, b"i"),
        call("DELETE", "/grid/rest/queues/nowhere/0", MISSING),
        call("GET", "/grid/rest/queues/nowhere/size", MISSING),
        call("HEAD", "/grid/rest/queues/nowhere/size", MISSING),
        role=Role.STRICT,
    ),
    row("answers §1 4; answers §2 5", call("GET", f"{QUEUE}/1", not_allowed("DELETE"))),
    row("answers §1 4", call("POST", f"{QUEUE}/1", not_allowed("DELETE"), b"i")),
    row("answers §1 4", call("GET", QUEUE, not_allowed("POST, PUT"))),
    row("answers §1 4", call("DELETE", QUEUE, not_allowed("POST, PUT"))),
    row("answers §1 4", call("DELETE", f"{QUEUE}/", not_allowed("POST, PUT"))),
    row("answers §1 4", call("DELETE", SIZE, not_allowed("GET, HEAD"))),
    *(
        row("answers §2 5; interface §Limits 3", call("DELETE", f"{QUEUE}/{good}", NOTHING))
        for good in ("0", "00", "0/", "0?x", "0000000000", "%30")
    ),
    *(
        row(
            "answers §2 5",
            call("POST", QUEUE, OK, b"i"),
            call("DELETE", f"{QUEUE}/{good}", item(b"i")),
        )
        for good in ("2147483647", "0002147483647", "0000001", "1/")
    ),
    *(
        row(
            "answers §2 5",
            call("POST", QUEUE, OK, b"i"),
            call("DELETE", f"{QUEUE}/{bad}", BAD),
            call("GET", SIZE, number(1)),
        )
        for bad in (
            *("-1", "+1", "%2B1", "1.5", "1e3", "0x1", "a", "%201", "1%20", "1,", "%D9%A1"),
            *("2147483648", "99999999999999999999", "%C2%B2", "1_0", "%00", "/"),
        )
    ),
    row(
        "answers §2 6",
        call("POST", QUEUE, OK, b"1"),
        call("POST", QUEUE, OK, b"2"),
        call("DELETE", f"{QUEUE}/5", item(b"1")),
        call("DELETE", f"{QUEUE}/5", item(b"2")),
        call("GET", SIZE, number(0)),
    ),
    row(
        "interface §Data 6",
        Begin(ask("DELETE", f"{QUEUE}/60")),
        call("POST", QUEUE, OK, b"woken"),
        End(item(b"woken")),
        call("GET", SIZE, number(0)),
    ),
    *(
        row(
            "answers §2 6",
            Until(ask("GET", "/grid/rest/cluster"), Want(200, ALONE, "application/json")),
            Begin(ask("DELETE", f"{QUEUE}/60")),
            Until(ask("GET", "/grid/rest/cluster"), Want(200, PAIR, "application/json")),
            leave,
            Until(ask("GET", "/grid/rest/cluster"), Want(200, ALONE, "application/json")),
            call("POST", QUEUE, OK, b"kept"),
            call("GET", SIZE, number(1)),
            call("DELETE", POLL, item(b"kept")),
            transport=Transport.PLAIN if leave is Leave.HALF else Transport.BOTH,
        )
        for leave in Leave
    ),
)

IN_TIME: tuple[Row, ...] = (
    row(
        "interface §Data 6; interface §Errors 5",
        call("DELETE", f"{QUEUE}/1", NOTHING),
        call("GET", SIZE, number(0)),
        slow=True,
    ),
    row(
        "answers §2 2",
        call("POST", "/grid/rest/maps/short.{map}/k", OK, b"v"),
        call("GET", "/grid/rest/maps/short.{map}/k", value(b"v")),
        Until(ask("GET", "/grid/rest/maps/short.{map}/k"), NOTHING),
        call("POST", "/grid/rest/maps/short.{map}/k", OK, b"w"),
        call("GET", "/grid/rest/maps/short.{map}/k", value(b"w")),
        slow=True,
    ),
    row(
        "answers §2 2",
        call("POST", "/grid/rest/maps/idle.{map}/k", OK, b"v"),
        # Reads keep it for longer than it may be idle: the poll is the clock.
        call("DELETE", f"{QUEUE}/1", NOTHING),
        call("GET", "/grid/rest/maps/idle.{map}/k", value(b"v")),
        call("DELETE", f"{QUEUE}/1", NOTHING),
        call("GET", "/grid/rest/maps/idle.{map}/k", value(b"v")),
        call("DELETE", f"{QUEUE}/1", NOTHING),
        call("GET", "/grid/rest/maps/idle.{map}/k", value(b"v")),
        call("DELETE", f"{QUEUE}/3", NOTHING),
        call("GET", "/grid/rest/maps/idle.{map}/k", NOTHING),
        slow=True,
    ),
    row(
        "answers §2 2",
        *(call("POST", f"/grid/rest/maps/lru.{{map}}/{k}", OK, k.encode()) for k in "ab"),
        # Used again, a is not the one to go.
        call("GET", "/grid/rest/maps/lru.{map}/a", value(b"a")),
        call("POST", "/grid/rest/maps/lru.{map}/c", OK, b"c"),
        call("GET", "/grid/rest/maps/lru.{map}/b", NOTHING),
        call("GET", "/grid/rest/maps/lru.{map}/a", value(b"a")),
        call("GET", "/grid/rest/maps/lru.{map}/c", value(b"c")),
    ),
    row(
        "answers §2 2",
        call("POST", "/grid/rest/maps/lruexact/a", OK, b"1"),
        call("POST", "/grid/rest/maps/lruexact/b", OK, b"2"),
        call("GET", "/grid/rest/maps/lruexact/a", NOTHING),
        call("GET", "/grid/rest/maps/lruexact/b", value(b"2")),
        call("POST", "/grid/rest/maps/lruexact/b", OK, b"3"),
        call("GET", "/grid/rest/maps/lruexact/b", value(b"3")),
    ),
)

ROWS: tuple[Row, ...] = (*QUEUES, *IN_TIME)
