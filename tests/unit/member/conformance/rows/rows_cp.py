"""The CP subsystem on one member: nothing of it touches a map or a queue."""

from __future__ import annotations

from tests.unit.member.conformance.language import (
    BAD,
    MISSING,
    OK,
    Call,
    Role,
    Row,
    call,
    document,
    failure,
    item,
    matching,
    number,
    row,
    value,
)
from tests.unit.member.conformance.rows.rows_bad_input import UNCHANGED
from tests.unit.member.conformance.targets import MAP, QUEUE

CP = "/grid/rest/cp-subsystem"
LINES = "interface §Groups 7; interface §Groups 2; answers §3 16"
ADDRESS = r"\[127\.0\.0\.1\]:[0-9]+"
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
MEMBER = rf'\{{"uuid":"{UUID}","address":"{ADDRESS}"\}}'
GROUPS = document('[{"name":"METADATA","id":0},{"name":"default","id":1}]')
READ_ONLY = failure(409, "group default holds maps and queues: it is shown only")
OTHER = "00000000-0000-0000-0000-000000000001"


def group(name: str, number: int) -> str:
    return (
        rf'\{{"id":\{{"name":"{name}","id":{number}\}},"status":"ACTIVE","members":\[{MEMBER}\]\}}'
    )


ASKED: tuple[Call, ...] = (
    call("GET", f"{CP}/groups", GROUPS),
    call("GET", f"{CP}/groups/?x", GROUPS),
    call("HEAD", f"{CP}/groups", GROUPS),
    call("GET", f"{CP}/groups/METADATA", matching(group("METADATA", 0))),
    call("GET", f"{CP}/groups/default", matching(group("default", 1))),
    call("HEAD", f"{CP}/groups/default", matching(group("default", 1))),
    *(
        call("GET", f"{CP}/groups/{name}", MISSING)
        for name in ("other", "metadata", "{map}", "%00", "default%2F", "x" * 5000)
    ),
    call("GET", f"{CP}/groups/%zz", BAD),
    call("GET", f"{CP}/groups/default/sessions", document("[]")),
    call("HEAD", f"{CP}/groups/default/sessions", document("[]")),
    call("GET", f"{CP}/groups/METADATA/sessions", failure(409, "group METADATA has no sessions")),
    call("GET", f"{CP}/groups/{{map}}/sessions", MISSING),
    call("GET", f"{CP}/members", matching(rf"\[{MEMBER}\]")),
    call("HEAD", f"{CP}/members", matching(rf"\[{MEMBER}\]")),
    call("GET", f"{CP}/members/local", matching(MEMBER)),
    call("HEAD", f"{CP}/members/local", matching(MEMBER)),
    call("POST", f"{CP}/members", OK, b"dev&"),
    call("PUT", f"{CP}/members", OK, b"dev&pw"),
    *(
        call(method, f"{CP}/{path}", READ_ONLY, b"dev&")
        for method in ("POST", "PUT")
        for path in ("groups/default/remove", "reset", "restart", "reset/")
    ),
    *(
        call("POST", f"{CP}/groups/{name}/remove", BAD, b"dev&")
        for name in ("METADATA", "metadata", "other", "{map}", "%00", "%zz", "x" * 5000)
    ),
    *(
        call("POST", f"{CP}/groups/{name}/sessions/{session}/remove", BAD, b"dev&")
        for name, session in (
            *(("default", each) for each in ("1", "x", "-1", "%D9%A1", "9" * 4000, "%zz")),
            *(("METADATA", "1"), ("other", "1"), ("{map}", "1")),
        )
    ),
    *(
        call("POST", f"{CP}/members/{member}/remove", BAD, b"dev&")
        for member in (OTHER, "x", "%00", "x" * 5000, "local", OTHER.replace("-", ""))
    ),
)
"""Every call, and the wrong ones: names of groups, sessions and members."""


def compared(asked: Call) -> tuple[Call, ...]:
    """Return a call and what shows that the maps and queues are as they were."""
    return (
        asked,
        call("GET", f"{MAP}/k", value(b"v")),
        call("GET", f"{QUEUE}/size", number(2)),
    )


ROWS: tuple[Row, ...] = (
    row(
        LINES,
        call("POST", f"{MAP}/k", OK, b"v"),
        call("POST", QUEUE, OK, b"1"),
        call("POST", QUEUE, OK, b"2"),
        *(step for asked in ASKED for step in compared(asked)),
        call("DELETE", f"{QUEUE}/0", item(b"1")),
        call("DELETE", f"{QUEUE}/0", item(b"2")),
        *UNCHANGED,
    ),
    row(
        LINES,
        call("GET", f"{CP}/groups", failure(409, "cp-subsystem is not configured")),
        call(
            "POST",
            f"{CP}/members/x/remove",
            failure(409, "cp-subsystem is not configured"),
            b"dev&",
        ),
        role=Role.STRICT,
    ),
)
