"""Strategies: plain requests for data, and what becomes of them when something is changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from hypothesis import strategies as st

from tests.unit.member.http.fastpath.reference import Meaning

NASTY = (
    *(b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\n\n", b"\0", b"\x01", b"\x7f", b"\x80", b"\xff"),
    *(b" ", b"\t", b":", b"/", b"//", b"?", b"#", b"%", b"%2", b"%2F", b"%zz", b"+", b"-", b".."),
    *(b"0", b"1", b"0x", b"_", b",", b"Content-Length: 1\r\n", b"content-length: 2\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding : chunked\r\n", b"Host: b\r\n"),
    *(b"Connection: close\r\n", b"Expect: 100-continue\r\n", b" folded\r\n", b"HTTP/1.0"),
    *(b"GET ", b"size", b"GET /grid/rest/queues/default/size HTTP/1.1\r\nHost: a\r\n\r\n"),
)
"""What changes the meaning of a request when it stands where it should not."""
ESCAPE = re.compile("%[0-9A-F]{2}")
LITERAL = st.text("abcXYZ019-._~!$&'()*,;=:@", min_size=1, max_size=12)
TEXT = LITERAL | st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
OTHER_HEADERS = (
    *("Accept: */*", "User-Agent: a b", "X-A: b: c", "Cookie: a=b; c=d", "Accept-Encoding: gzip"),
    *("Connection: keep-alive", "connection: Keep-Alive", "Content-Encoding: gzip", "X-B: ,"),
    *(
        "Authorization: Basic YTpi",
        "Keep-Alive: timeout=5",
        "Origin: http://a",
        "!#$%&'*+-.^_`|~: x",
    ),
)
TYPES = ("text/plain", "application/json", "a/b; charset=UTF-8", "x")
BODIES = st.binary(max_size=20) | st.sampled_from(
    [b"\r\n\r\n", b"GET /grid/rest/queues/q/size HTTP/1.1\r\nHost: a\r\n\r\n", b"0\r\n\r\n"]
)
ROWS = (
    *(("GET", "map_get"), ("POST", "map_put"), ("PUT", "map_put"), ("DELETE", "map_remove")),
    *(("POST", "queue_offer"), ("PUT", "queue_offer"), ("DELETE", "queue_poll")),
    ("GET", "queue_size"),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A plain request, and what it was made to mean."""

    data: bytes
    meaning: Meaning


@st.composite
def _spelled(draw: st.DrawFn, text: str) -> str:
    """Spell a name or key in one of the ways that stand for it."""
    spelled = quote(text, safe=draw(st.sampled_from(["", "!$&'()*,;=:@"])))
    if draw(st.booleans()):
        spelled = ESCAPE.sub(lambda escape: escape[0].lower(), spelled)
    return spelled.replace("%20", "+") if draw(st.booleans()) else spelled


@st.composite
def _headers(draw: st.DrawFn, content_type: str | None, body: bytes | None) -> list[str]:
    several = draw(st.lists(st.sampled_from(OTHER_HEADERS), max_size=4))
    found = {line.partition(":")[0].lower(): line for line in several}
    found["host"] = draw(
        st.sampled_from(["Host: a", "host: a.b:80", "HOST:[::1]:1", "Host: 1.2.3.4"])
    )
    if content_type is not None:
        found["type"] = f"{draw(st.sampled_from(['Content-Type', 'content-type']))}: {content_type}"
    if body is not None:
        found["length"] = (
            f"{draw(st.sampled_from(['Content-Length', 'content-length']))}: {len(body)}"
        )
    return draw(st.permutations(list(found.values())))


@st.composite
def plain(draw: st.DrawFn) -> Shape:
    """Make a plain request."""
    method, operation = draw(st.sampled_from(ROWS))
    writes = method in ("POST", "PUT")
    name, key, seconds = draw(TEXT), "", 0
    path = (
        f"/grid/rest/{'maps' if operation.startswith('map') else 'queues'}/{draw(_spelled(name))}"
    )
    if operation.startswith("map"):
        key = draw(TEXT)
        path += f"/{draw(_spelled(key))}"
    elif operation == "queue_size":
        path += "/size"
    elif operation == "queue_poll":
        seconds = draw(st.integers(0, 9) | st.integers(0, 2**31 - 1))
        path += f"/{seconds}"
    body = draw(st.none() | BODIES) if writes else None
    content_type = draw(st.none() | st.sampled_from(TYPES))
    lines = [f"{method} {path} HTTP/1.1", *draw(_headers(content_type, body)), "", ""]
    data = "\r\n".join(lines).encode("ascii") + (body or b"")
    kept = content_type if writes else None
    return Shape(data, Meaning(operation, method, name, len(data), key, seconds, kept, body or b""))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Change a plain request, at one place or a few."""
    data = draw(plain()).data
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        what = draw(st.sampled_from(["insert", "replace", "remove", "double", "bare"]))
        nasty = draw(st.sampled_from(NASTY))
        if what == "insert":
            data = data[:at] + nasty + data[at:]
        elif what == "replace":
            data = data[:at] + nasty + data[at + len(nasty) :]
        elif what == "remove":
            data = data[:at] + data[at + draw(st.integers(1, 12)) :]
        elif what == "double":
            end = at + draw(st.integers(1, 40))
            data = data[:end] + data[at:]
        else:
            data = data[:at] + data[at:].replace(b"\r\n", draw(st.sampled_from([b"\n", b"\r"])), 1)
    return data
