"""License, log level, configuration, member list and idempotency: answers section 3."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import quote_plus

from tests.unit.member.conformance.language import (
    BAD,
    MISSING,
    NOTHING,
    OK,
    Call,
    Role,
    Row,
    Want,
    call,
    document,
    failure,
    row,
    value,
)
from tests.unit.member.conformance.rows.rows_bad_input import HUGE, UNCHANGED
from tests.unit.member.conformance.targets import CHANGE, STATE

REST = "/grid/rest"
LICENSE = f"{REST}/license"
LEVEL = f"{REST}/log-level"
LIST = f"{REST}/config/tcp-ip/member-list"
UPLOAD, UPDATE, RELOAD = (f"{REST}/config/{name}" for name in ("upload", "update", "reload"))
LICENSE_LINES = "interface §Groups 2; interface §Groups 1; answers §3 11"
LEVEL_LINES = "interface §Groups 1; interface §Groups 2; answers §3 12"
CONFIG_LINES = "interface §Groups 2; answers §3 13; answers §3 17"
LIST_LINES = "interface §Groups 1; interface §Groups 2; answers §3 14"
NO_JOIN = failure(409, "the TCP/IP join is not enabled: see network.join.tcp-ip.enabled")
ADDRESSES = "write host, host:port, [IPv6] or [IPv6]:port"


def info(key: bytes) -> str:
    shown = base64.b64encode(hashlib.sha256(key).digest()).decode()
    return (
        '"licenseInfo":{"expiryDate":null,"maxNodeCount":null,"type":0,"companyName":null,'
        f'"ownerEmail":null,"keyHash":"{shown}"}}'
    )


LICENSES: tuple[Row, ...] = (
    row(
        LICENSE_LINES,
        call("GET", LICENSE, MISSING),
        call("HEAD", LICENSE, MISSING),
        *(
            step
            for method, sent, key in (
                ("POST", b"open+sesame&and%26more", b"open sesame&and&more"),
                ("PUT", b"%E2%82%AC%00", b"\xe2\x82\xac\0"),
                ("POST", b"k" * 8192, b"k" * 8192),
            )
            for step in (
                call(
                    method,
                    LICENSE,
                    document(f'{{"status":"success",{info(key)}}}'),
                    b"dev&&" + sent,
                ),
                call("GET", LICENSE, document(f"{{{info(key)}}}")),
                call("HEAD", f"{LICENSE}/?x", document(f"{{{info(key)}}}")),
            )
        ),
        *(
            call("POST", LICENSE, BAD, b"dev&&" + sent)
            for sent in (b"", b"k" * 8193, HUGE, b"%zz", b"\xff")
        ),
        call("GET", LICENSE, document(f"{{{info(b'k' * 8192)}}}")),
        role=Role.CHANGED,
    ),
    row(
        LICENSE_LINES,
        *(
            call("POST", LICENSE, BAD, b"dev&&" + sent)
            for sent in (b"", b"k" * 8193, HUGE, b"%zz", b"\xff")
        ),
        *UNCHANGED,
    ),
)


def level(name: str | None) -> Call:
    shown = "null" if name is None else f'"{name}"'
    return call("GET", LEVEL, document(f'{{"logLevel":{shown}}}'))


LEVEL_CHANGED = document('{"status":"success","message":"log level is changed"}')
LEVEL_RESET = document('{"status":"success","message":"log level is reset"}')

LEVELS: tuple[Row, ...] = (
    row(
        LEVEL_LINES,
        level(None),
        call("HEAD", LEVEL, document('{"logLevel":null}')),
        *(
            step
            for name in ("OFF", "SEVERE", "WARNING", "INFO", "CONFIG", "FINE", "FINER", "FINEST")
            for step in (
                call("POST", LEVEL, LEVEL_CHANGED, b"dev&&" + name.title().encode()),
                level(name),
            )
        ),
        call("DELETE", LEVEL, LEVEL_RESET, b"dev&"),
        level(None),
        call("PUT", LEVEL, LEVEL_CHANGED, b"dev&pw&fi%6Ee"),
        level("FINE"),
        call("POST", f"{LEVEL}/reset", LEVEL_RESET, b"dev&"),
        level(None),
        call("PUT", f"{LEVEL}/reset/", LEVEL_RESET, b"dev&"),
        level(None),
    ),
    row(
        LEVEL_LINES,
        *(
            call("POST", LEVEL, BAD, b"dev&&" + wrong)
            for wrong in (
                *(b"", b"ALL", b"foo", b"800", b"+fine", b"fine%0A", b"fine%00", b"fine&x"),
                *(b"%zz", b"\xff", HUGE, b"f%C4%B1ne"),
            )
        ),
        *UNCHANGED,
    ),
)


def config(text: str) -> bytes:
    return b"dev&&" + quote_plus(text).encode()


def changed(what: str, added: str = "", ignored: str = "") -> Want:
    lists = [
        ",".join(
            f'{{"sectionName":"{section}","configName":"{name}"}}'
            for section, _, name in (each.partition(" ") for each in listed.split(", ") if each)
        )
        for listed in (added, ignored)
    ]
    return document(
        f'{{"status":"success","message":"Configuration {what} successfully finished.",'
        f'"result":{{"addedConfigs":[{lists[0]}],"ignoredConfigs":[{lists[1]}]}}}}'
    )


FILE = (
    "map default, map exact, map short*, map idle*, map lru*, map lruexact, "
    "queue default, queue jobs, queue jo*"
)
IN_YAML = "grid: {map: {up-y: {eviction: {eviction-policy: LRU, size: 1}}}, queue: {jobs: {}}}"
IN_XML = (
    '<grid xmlns="urn:grid:config:1"><queue name="up-x"><max-size>1</max-size></queue>'
    '<map name="up-y"/><map name="default"/></grid>'
)

CHANGES: tuple[Row, ...] = (
    row(
        CONFIG_LINES,
        call("POST", RELOAD, changed("Reload", ignored=FILE), b"dev&"),
        call("POST", UPLOAD, changed("Update", "map up-y", "queue jobs"), config(IN_YAML)),
        call("POST", f"{REST}/maps/up-y/a", OK, b"1"),
        call("POST", f"{REST}/maps/up-y/b", OK, b"2"),
        call("GET", f"{REST}/maps/up-y/a", NOTHING),
        call("GET", f"{REST}/maps/up-y/b", value(b"2")),
        call("PUT", UPLOAD, changed("Update", "", "map up-y, queue jobs"), config(IN_YAML)),
        call(
            "POST", UPDATE, changed("Update", "queue up-x", "map up-y, map default"), config(IN_XML)
        ),
        call("POST", f"{REST}/queues/up-x", OK, b"1"),
        call("POST", f"{REST}/queues/up-x", Want(503), b"2"),
        call("PUT", f"{RELOAD}/", changed("Reload", ignored=FILE), b"dev&"),
        call("GET", f"{REST}/maps/up-y/b", value(b"2")),
        role=Role.CHANGED,
    ),
    row(
        CONFIG_LINES,
        *(
            call(method, path, BAD, body)
            for method, path in (("POST", UPLOAD), ("PUT", UPDATE))
            for body in (
                *(b"dev&&", b"dev&&%zz", b"dev&&\xff", b"dev&&" + HUGE, b"dev&&%00"),
                config("grid: {map: {good: {}, bad: {time-to-live-seconds: -1}}}"),
                config("grid: {map: {good: {}, ba: {unknown: 1}}}"),
                config("grid: {map: {good: {}}, queue: {q: {wan-replication-ref: a}}}"),
                config("grid: {map: {good: {}, 'exac*': {}, '*act': {}}}"),
                config("map: {good: {}}"),
                config("<grid><map name='good'/></grid>"),
                config("<!DOCTYPE a [<!ENTITY b 'c'>]><grid xmlns='urn:grid:config:1'/>"),
                config("grid: {map: {good: {data-persistence: {enabled: true}}}}"),
            )
        ),
        call("POST", UPLOAD, changed("Update"), config("grid: {}")),
        *UNCHANGED,
    ),
)


def members(*addresses: str) -> str:
    return ",".join(f'"{address}"' for address in addresses)


def listed(*addresses: str) -> tuple[Call, ...]:
    want = document(f'{{"status":"success","member-list":[{members(*addresses)}]}}')
    return call("GET", LIST, want), call("HEAD", f"{LIST}/?x", want)


def replaced(method: str, sent: bytes, *addresses: str) -> Call:
    message = "The member list of TCP-IP join config is updated at run time. "
    shown = f'"message":"{message}","member-list":[{members(*addresses)}]'
    return call(method, LIST, document(f'{{"status":"success",{shown}}}'), b"dev&&" + sent)


MEMBER_LISTS: tuple[Row, ...] = (
    row(
        LIST_LINES,
        *listed("a:5701"),
        replaced(
            "POST", b"c:1,,d%3B+[%3A%3A1]:5701 10.0.0.1,", "c:1", "d", "[::1]:5701", "10.0.0.1"
        ),
        *listed("c:1", "d", "[::1]:5701", "10.0.0.1"),
        replaced("PUT", b"e", "e"),
        *listed("e"),
        *(
            call("POST", LIST, BAD, b"dev&&" + wrong)
            for wrong in (b"", b",; ", b"a,b:0", b"a:65536", b"a\n", b"a%00", HUGE, b"a," * 257)
        ),
        *listed("e"),
        role=Role.CHANGED,
    ),
    row(
        LIST_LINES,
        *(
            call("POST", LIST, BAD, b"dev&&" + wrong)
            for wrong in (b"", b"a,b:0", b"http://a", b"a&b", b"%zz", b"\xff", HUGE)
        ),
        *UNCHANGED,
    ),
    row(
        LIST_LINES,
        call("GET", LIST, NO_JOIN),
        call("HEAD", LIST, NO_JOIN),
        role=Role.DEFAULTS,
    ),
    row(
        LIST_LINES,
        call("POST", LIST, NO_JOIN, b"dev&&a"),
        call("POST", LIST, BAD, b"dev&&"),
        role=Role.WRITER,
    ),
)

FROZEN = document('{"status":"success","state":"frozen"}')
AGAIN = failure(409, "the Idempotency-Key k-1 was sent before with another request")

KEYS: tuple[Row, ...] = (
    row(
        "answers §3 18",
        call("POST", CHANGE, FROZEN, b"dev&&frozen", Idempotency_Key="k-1"),
        call("POST", CHANGE, document('{"status":"success","state":"active"}'), b"dev&&active"),
        call("PUT", CHANGE, FROZEN, b"dev&pw&froze%6E", Idempotency_Key="k-1"),
        call("POST", STATE, document('{"status":"success","state":"active"}'), b"dev&"),
        call("POST", CHANGE, AGAIN, b"dev&&passive", Idempotency_Key="k-1"),
        call("POST", RELOAD, AGAIN, b"dev&", Idempotency_Key="k-1"),
        call("POST", CHANGE, BAD, b"dev&&foo", Idempotency_Key="k-2"),
        call("POST", CHANGE, BAD, b"dev", Idempotency_Key="k-1"),
        call("POST", CHANGE, failure(403, "unauthenticated"), b"x&&frozen", Idempotency_Key="k-1"),
        call("POST", STATE, document('{"status":"success","state":"active"}'), b"dev&"),
        role=Role.CHANGED,
    ),
    row(
        "answers §3 18",
        *(
            call("POST", CHANGE, BAD, b"dev&&frozen", Idempotency_Key=key)
            for key in ("", "a b", "\xe4", "k" * 129)
        ),
        *UNCHANGED,
    ),
)

ROWS: tuple[Row, ...] = (*LICENSES, *LEVELS, *CHANGES, *MEMBER_LISTS, *KEYS)
