"""Bad input for every call with credentials: refused before anything is done."""

from __future__ import annotations

from tests.unit.member.conformance.language import (
    BAD,
    MISSING,
    OK,
    UNAUTHENTICATED,
    Call,
    Row,
    Want,
    call,
    closing,
    document,
    raw,
    row,
)
from tests.unit.member.conformance.paths import PATHS, Path, real
from tests.unit.member.conformance.targets import CLUSTER

REST = "/grid/rest"
WRONG = Want(403, UNAUTHENTICATED, "application/json")
HUGE = b"x" * 100_000
BINARY = bytes(range(256))
TOO_LARGE = "{path} HTTP/1.1\r\nHost: a\r\nContent-Length: 8388609\r\n\r\n"
WRONG_NAMES = (
    *(b"other&pw", b"Dev&", b"dev%20&", b" dev&", b"dev\n&", b"&", b"&dev"),
    *(b"dev%26&", b"%2564ev&", b"dev%00&", b"dev\0&", HUGE + b"&", b"dev\r&"),
)
UNCHANGED = (
    call("POST", f"{CLUSTER}/state", document('{"status":"success","state":"active"}'), b"dev&"),
    call("GET", f"{CLUSTER}/version", document('{"status":"success","version":"0.2"}')),
    call("GET", f"{CLUSTER}/operations", document("[]")),
    call("GET", f"{REST}/license", MISSING),
    call("GET", f"{REST}/log-level", document('{"logLevel":null}')),
    call(
        "GET",
        f"{REST}/config/tcp-ip/member-list",
        document('{"status":"success","member-list":["a:5701"]}'),
    ),
    call("GET", "/grid/health/ready", OK),
)
"""What tells that a refused call changed nothing."""


def body(credentials: bytes, count: int) -> bytes:
    """Return a body of so many parameters."""
    return b"&".join([credentials, *[b"x"] * (count - 2)])


def refusals(path: Path) -> tuple[Row, ...]:
    """Return the rows of a path with credentials: first their number, then they themselves."""
    count, where = path.parameters, real(path.path)
    few = b"&" * (count - 2)
    reference = f"{path.reference}; answers §1 7; answers §4 1; answers §4 2; answers §4 3"
    return tuple(
        row(
            reference,
            call(method, where, BAD),
            *(
                call(method, where, BAD, wrong)
                for wrong in (
                    *(b"", b"dev" + few, b"other" + few, HUGE, BINARY),
                    *(body(each, count) for each in (b"%zz&", b"%&", b"dev&%ff", b"\xff&")),
                    *(body(each, count) for each in (b"dev&\xc0\x80", b"dev&" + BINARY)),
                )
            ),
            *(call(method, where, WRONG, body(wrong, count)) for wrong in WRONG_NAMES[:7]),
            # Nine failures in a row are free where security is on; a success forgets them.
            UNCHANGED[0],
            *(call(method, where, WRONG, body(wrong, count)) for wrong in WRONG_NAMES[7:]),
            Call(raw(method, where, f"{method} {TOO_LARGE}".encode()), closing(Want(413))),
            *UNCHANGED,
        )
        for method in path.methods.split()
    )


ROWS: tuple[Row, ...] = tuple(r for path in PATHS if path.parameters for r in refusals(path))
