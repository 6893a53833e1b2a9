"""Users, passwords and Basic headers where security is on: answers section 4."""

from __future__ import annotations

import base64
import unicodedata
from urllib.parse import quote_plus

from tests.unit.member.conformance.language import (
    BAD,
    JSON,
    MISSING,
    NOTHING,
    OK,
    UNAUTHENTICATED,
    Also,
    Ask,
    Call,
    Role,
    Row,
    Security,
    Step,
    Until,
    Want,
    ask,
    call,
    document,
    not_allowed,
    number,
    raw,
    row,
    value,
)
from tests.unit.member.conformance.paths import PATHS, Path, real
from tests.unit.member.conformance.rows.rows_bad_input import UNCHANGED
from tests.unit.member.conformance.targets import CHANGE, STATE

PASSWORD = "p&w:\u00fc+%"
IN_BODY = b"ada&" + quote_plus(PASSWORD).encode()
ACTIVE = document('{"status":"success","state":"active"}')
WRONG = Want(403, UNAUTHENTICATED, JSON)
WAIT = Want(403, UNAUTHENTICATED, JSON, (("Retry-After", "1"),))
SENT = "interface §Authentication 4; interface §Authentication 5; interface §Authentication 6; "
PROTECTED = Want(401, headers=(("WWW-Authenticate", 'Basic realm="members", charset="UTF-8"'),))
GUARDED = Want(401, headers=(("WWW-Authenticate", 'Basic realm="ops", charset="UTF-8"'),))


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ADA, OP = basic("ada", PASSWORD), basic("op", "s3cret")
GUESS = basic("ada", "guess")
STILL = (call("POST", STATE, ACTIVE, IN_BODY), *UNCHANGED[1:])


def secured(reference: str, *steps: Step, role: Role = Role.OPEN) -> Row:
    return row(reference, *steps, role=role, security=Security.ON)


def same(text: str) -> bytes:
    return quote_plus(text).encode()


RIGHT: tuple[Row, ...] = (
    secured(
        f"{SENT}interface §Management 1; answers §4 1; answers §4 2",
        *(
            call(method, STATE, ACTIVE, sent)
            for method in ("POST", "PUT")
            for sent in (
                IN_BODY,
                b"a%64a&" + same(PASSWORD),
                # The last part may hold ampersands.
                b"ada&p&w:%C3%BC%2B%25",
                b"ada&" + same(unicodedata.normalize("NFD", PASSWORD)),
            )
        ),
    ),
    secured(
        "answers §4 3",
        call("POST", STATE, ACTIVE, b"&", Authorization=ADA),
        call("PUT", STATE, ACTIVE, b"&", authorization=ADA.replace("Basic", "bASIC")),
        call("POST", STATE, ACTIVE, IN_BODY, Authorization=GUESS),
        call(
            "POST",
            CHANGE,
            document('{"status":"fail","state":"active"}'),
            b"&&active",
            Authorization=ADA,
        ),
        call("POST", CHANGE, BAD, b"&active", Authorization=ADA),
        call("POST", STATE, BAD, b"", Authorization=ADA),
    ),
)

ATTEMPTS: tuple[tuple[tuple[bytes, dict[str, str]], ...], ...] = (
    tuple(
        (sent, {})
        for sent in (
            b"dev&",
            b"dev&" + same(PASSWORD),
            b"ada&",
            b"&" + same(PASSWORD),
            b"Ada&" + same(PASSWORD),
            b"ada&" + same(PASSWORD.upper()),
            b"ada&" + same(PASSWORD) + b"&",
            b"op&s3cret",
            b"ada&" + same(quote_plus(PASSWORD)),
        )
    ),
    (
        (b"&", {}),
        (b"&", {"Authorization": "Bearer x"}),
        (b"&", {"Authorization": "Basic"}),
        (b"&", {"Authorization": "Basic %%"}),
        (b"&", {"Authorization": basic("ada", "")}),
        (b"&", {"Authorization": GUESS}),
        (b"&", {"Authorization": OP}),
        (b"dev&", {"Authorization": ADA}),
        (b"ada&guess", {"Authorization": ADA}),
        (b"ada&", {"Authorization": ADA}),
    ),
)
"""Wrong ones that one connection sends, nine guesses at most."""

REFUSED: tuple[Row, ...] = (
    *(
        secured(
            f"{SENT}answers §1 7; answers §4 2; answers §4 3",
            *(call("POST", STATE, WRONG, sent, **headers) for sent, headers in attempts),
            *STILL,
        )
        for attempts in ATTEMPTS
    ),
    secured(
        "answers §4 3",
        Call(Ask("POST", STATE, b"&", (("Authorization", ADA), ("Authorization", ADA))), WRONG),
        *STILL,
    ),
    # Sent all at once, so that the first wait, a second, cannot be over before the last one comes.
    secured(
        "answers §4 2",
        Call(
            raw(
                "POST",
                STATE,
                b"".join(
                    b"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(sent), sent)
                    for sent in (*[b"ada&guess"] * 10, IN_BODY)
                ),
            ),
            WRONG,
        ),
        *[Also(WRONG)] * 9,
        Also(WAIT),
        call("GET", "/grid/health/ready", OK),
        call("POST", "/grid/rest/maps/{map}/k", OK, b"v"),
        Until(ask("POST", STATE, IN_BODY), ACTIVE),
        call("POST", STATE, WRONG, b"ada&guess"),
        call("POST", STATE, ACTIVE, IN_BODY),
    ),
)


def refusals(path: Path) -> Row:
    """Return the row of a path with credentials: it asks for those of a user."""
    where = real(path.path)
    rest = b"&x" * (path.parameters - 2)
    return secured(
        f"{path.reference}; interface §Authentication 3; answers §1 7; answers §4 2; answers §4 3",
        *(
            step
            for method in path.methods.split()
            for step in (
                call(method, where, BAD, b"ada" + b"&" * (path.parameters - 2)),
                call(method, where, WRONG, b"dev&" + rest),
                call(method, where, WRONG, b"ada&guess" + rest),
                call(method, where, WRONG, b"&" + rest),
                call(method, where, WRONG, b"&" + rest, Authorization=GUESS),
            )
        ),
        *STILL,
    )


ELSEWHERE: tuple[Row, ...] = (
    secured(
        "interface §Authentication 1; interface §Authentication 2; interface §Authentication 7",
        *(
            step
            for headers in ({}, {"Authorization": GUESS})
            for step in (
                call("POST", "/grid/rest/maps/{map}/k", OK, b"v", **headers),
                call("GET", "/grid/rest/maps/{map}/k", value(b"v"), None, **headers),
                call("GET", "/grid/rest/queues/{queue}/size", number(0), None, **headers),
                call("GET", "/grid/rest/instance", document('{"name":"tester"}'), None, **headers),
                call("GET", "/grid/health/ready", OK, None, **headers),
                call("GET", "/grid/nothing", MISSING, None, **headers),
            )
        ),
    ),
    secured(
        "answers §5 2; answers §4 3",
        call("POST", STATE, GUARDED, IN_BODY),
        call("POST", STATE, GUARDED, b"&", Authorization=ADA),
        call("POST", STATE, ACTIVE, b"&", Authorization=OP),
        call("POST", STATE, ACTIVE, IN_BODY, Authorization=OP),
        call("POST", STATE, WRONG, b"dev&", Authorization=OP),
        call("POST", STATE, WRONG, b"op&s3cret", Authorization=OP),
        call("GET", "/grid/health/ready", OK),
        call("GET", "/grid/health/node-state", document('"ACTIVE"')),
        role=Role.MANAGED,
    ),
)

HIDDEN = (
    ("GET", "/grid/rest/maps/{map}/k", NOTHING),
    ("PATCH", "/grid/rest/maps/{map}/k", not_allowed("POST, PUT, GET, HEAD, DELETE")),
    ("DELETE", "/grid/rest/queues/{queue}/0", NOTHING),
    ("GET", "/grid/health/cluster-state", document('"ACTIVE"')),
    ("HEAD", "/grid/health", None),
    ("GET", "/grid/health/other", BAD),
    ("GET", "/grid/rest/log-level", document('{"logLevel":null}')),
    ("GET", "/grid/rest/log-level/reset", not_allowed("POST, PUT")),
    ("GET", "/grid/rest/cp-subsystem/groups/x", MISSING),
)
"""What PROTECTED asks a user for, and what the user gets."""

ASKED: tuple[Row, ...] = (
    *(
        secured(
            "answers §4 3; interface §Authentication 3",
            *(
                call(method, path, PROTECTED, None, **headers)
                for headers in (
                    {},
                    {"Authorization": GUESS},
                    {"Authorization": OP},
                    {"Authorization": "Bearer x"},
                )
            ),
            *(() if want is None else (call(method, path, want, None, Authorization=ADA),)),
            role=Role.PROTECTED,
        )
        for method, path, want in HIDDEN
    ),
    secured(
        "answers §4 3",
        *(
            call("GET", path, want, None, **headers)
            for path, want in (
                ("/grid/health/ready", OK),
                ("/grid/health/node-state", document('"ACTIVE"')),
                ("/grid/rest/instance", document('{"name":"tester"}')),
                ("/grid/nothing", MISSING),
                ("/other", MISSING),
            )
            for headers in ({}, {"Authorization": GUESS})
        ),
        # What is not protected asks for the credentials of its body alone.
        call("POST", STATE, ACTIVE, IN_BODY, Authorization=GUESS),
        # What is protected asks for both; the header is enough for empty parts.
        call("DELETE", "/grid/rest/log-level", PROTECTED, IN_BODY),
        call(
            "DELETE",
            "/grid/rest/log-level",
            document('{"status":"success","message":"log level is reset"}'),
            b"&",
            Authorization=ADA,
        ),
        call("DELETE", "/grid/rest/log-level", WRONG, b"ada&guess", Authorization=ADA),
        role=Role.PROTECTED,
    ),
)

ROWS: tuple[Row, ...] = (
    *RIGHT,
    *REFUSED,
    *(refusals(path) for path in PATHS if path.parameters),
    *ELSEWHERE,
    *ASKED,
)
