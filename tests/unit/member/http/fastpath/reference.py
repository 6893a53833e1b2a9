"""What a request for data means, read slowly and by the book: RFC 9112 and answers sections 1, 2.

It takes more shapes than the fast path, which leaves the rarer ones to aiohttp: a query, a trailing
slash, slashes inside a key, any order and spelling of headers. It leaves out whatever changes the
framing or the connection: transfer codings, `Expect`, `Upgrade`, `Connection: close`.
"""

from __future__ import annotations

from dataclasses import dataclass

NAME_BYTES = 255
KEY_BYTES = 8 << 10
VALUE_BYTES = 8 << 20
POLL_S = 2**31 - 1

DIGITS = frozenset(b"0123456789")
HEX = b"0123456789abcdef"
LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
TCHAR = frozenset(b"!#$%&'*+-.^_`|~") | DIGITS | LETTERS
"""RFC 9110 section 5.6.2."""
VISIBLE = frozenset(range(0x21, 0x7F))
FIELD = VISIBLE | frozenset(range(0x80, 0x100)) | {0x20, 0x09}
"""RFC 9110 section 5.5: what a field's value may hold."""
ONCE = frozenset((b"host", b"content-length", b"content-type"))
ELSEWHERE = frozenset((b"transfer-encoding", b"expect", b"upgrade"))
WRITES = frozenset((b"POST", b"PUT"))


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a request asks for, and where it ends."""

    operation: str
    method: str
    name: str
    end: int
    key: str = ""
    seconds: int = 0
    content_type: str | None = None
    body: bytes = b""


class NotDataError(Exception):
    """It is malformed, over a limit, not all there, or asks for something else."""


def meaning(data: bytes) -> Meaning | None:
    """Return what the request means that the bytes begin with, None when it is not for this."""
    try:
        return _meaning(data)
    except NotDataError:
        return None


def _meaning(data: bytes) -> Meaning:
    head, found, rest = data.partition(b"\r\n\r\n")
    _need(bool(found))
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    _need(len(words) == 3 and words[2] == b"HTTP/1.1")
    fields = _fields(lines)
    length = _length(fields)
    _need(len(rest) >= length)
    end = len(head) + len(found) + length
    content_type = fields.get(b"content-type", b"").decode("latin-1") or None
    asked = _asked(words[0], words[1], end)
    if words[0] not in WRITES:
        return asked
    return Meaning(
        *(asked.operation, asked.method, asked.name, end, asked.key),
        content_type=content_type,
        body=rest[:length],
    )


def _need(holds: bool) -> None:
    if not holds:
        raise NotDataError


def _fields(lines: list[bytes]) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        _need(bool(colon) and bool(name) and set(name) <= TCHAR and set(value) <= FIELD)
        name = name.lower()
        _need(name not in ELSEWHERE and not (name in ONCE and name in fields))
        fields[name] = b", ".join(filter(None, (fields.get(name), value.strip(b" \t"))))
    _need(b"host" in fields)
    options = [
        option.strip(b" \t").lower() for option in fields.get(b"connection", b"").split(b",")
    ]
    _need(b"close" not in options and b"upgrade" not in options)
    return fields


def _length(fields: dict[bytes, bytes]) -> int:
    text = fields.get(b"content-length", b"0")
    _need(bool(text) and set(text) <= DIGITS)
    length = int(text)
    _need(length <= VALUE_BYTES)
    return length


def _asked(method: bytes, target: bytes, end: int) -> Meaning:
    _need(target.startswith(b"/") and set(target) <= VISIBLE - {ord("#")})
    raw = target.partition(b"?")[0].split(b"/")[1:]
    slash = len(raw) > 1 and raw[-1] == b""
    grid, rest, kind, *parts = [_decoded(part) for part in raw[: len(raw) - slash]] + [""] * 3
    parts = parts[: len(raw) - slash - 3]
    _need((grid, rest) == ("grid", "rest") and len(parts) >= 1 and parts[0] != "")
    _need(len(parts[0].encode()) <= NAME_BYTES)
    if kind == "maps":
        return _map(method, parts[0], "/".join(parts[1:]), end)
    _need(kind == "queues")
    return _queue(method, parts[0], parts[1:], end)


def _decoded(part: bytes) -> str:
    found, at = bytearray(), 0
    while at < len(part):
        if part[at : at + 1] == b"%":
            high, low = (HEX.find(part[n : n + 1].lower()) for n in (at + 1, at + 2))
            _need(at + 2 < len(part) and high >= 0 and low >= 0)
            found.append(high * 16 + low)
            at += 3
        else:
            found += b" " if part[at : at + 1] == b"+" else part[at : at + 1]
            at += 1
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise NotDataError from None


def _map(method: bytes, name: str, key: str, end: int) -> Meaning:
    _need(0 < len(key.encode()) <= KEY_BYTES)
    operations = {b"GET": "map_get", b"DELETE": "map_remove"} | dict.fromkeys(WRITES, "map_put")
    _need(method in operations)
    return Meaning(operations[method], method.decode(), name, end, key)


def _queue(method: bytes, name: str, more: list[str], end: int) -> Meaning:
    text = method.decode("latin-1")
    if not more and method in WRITES:
        return Meaning("queue_offer", text, name, end)
    _need(len(more) == 1)
    if method == b"GET" and more == ["size"]:
        return Meaning("queue_size", text, name, end)
    _need(method == b"DELETE" and more[0] != "" and set(more[0].encode()) <= DIGITS)
    seconds = int(more[0].lstrip("0") or "0")
    _need(seconds <= POLL_S)
    return Meaning("queue_poll", text, name, end, seconds=seconds)
