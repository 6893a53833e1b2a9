"""Targets: the parameters of a form-like body, and the target of a request line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.http.routes.calls import split_parameters
from grid_member.http.wire.paths import MalformedError, split_target
from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from collections.abc import Hashable

_HEX: Final = b"0123456789ABCDEFabcdef"
_COMMON: Final = (
    *(b"%", b"%%", b"%41", b"%2", b"%zz", b"%C3%A9", b"%c3", b"%F0%9F%98%80", b"%ED%A0%80"),
    *(b"%00", b"%2F", b"%2B", b"%26", b"%25", b"+", b"&", b"&&", b"\\", b"\\x41", b"\\N{DASH}"),
    *(b"\\u0041", b"\\\n", "é".encode(), b"\xff", b"\xed\xa0\x80", b"\x00", b"\n", b"\r", b" "),
)


class ParametersTarget:
    """The first byte is how many parameters are wanted, the rest is the body."""

    name = "parameters"
    words = _COMMON
    max_bytes = 2048

    def run(self, data: bytes) -> Hashable:
        """Compare with a parser that reads byte by byte."""
        count, body = 1 + (data[0] if data else 0) % 8, data[1:]
        wanted = _parameters(body, count)
        try:
            found = split_parameters(body, count)
        except MalformedError as error:
            _same(None, wanted, "parameters")
            return str(error)
        _same(found, wanted, "parameters")
        return len(found), sum(map(bool, found)), "\\" in "".join(found)


class PathTarget:
    """A request target as aiohttp hands it on: UTF-8 with other bytes as surrogates."""

    name = "path"
    words = (
        *_COMMON,
        *(
            b"/",
            b"//",
            b"?",
            b"#",
            b"/grid/rest/maps/",
            b"/grid/rest/queues/",
            b"/size",
            b"..",
            b".",
        ),
        *(b"http://", b"HTTPS://a:1", b"https://", b"*", b"a@b:", b";"),
    )
    max_bytes = 2048

    def run(self, data: bytes) -> Hashable:
        """Compare with a parser that reads byte by byte."""
        wanted = _path(data)
        try:
            target = split_target(data.decode("utf-8", "surrogateescape"))
        except MalformedError as error:
            _same(None, wanted, "path")
            return str(error)
        found = (target.parts, target.trailing_slash, target.has_query)
        _same(found, wanted, "path")
        return len(target.parts), target.trailing_slash, target.has_query


def _same(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise FindingError(f"the {what} are {wanted!r}, but {found!r} was read")


def _parameters(body: bytes, count: int) -> tuple[str, ...] | None:
    """Return the parameters; None for what is malformed."""
    pieces = [b""]
    for byte in body:
        if byte == ord("&") and len(pieces) < count:
            pieces.append(b"")
        else:
            pieces[-1] += bytes((byte,))
    if not _is_utf8(body):
        return None
    texts = [_unescaped(piece) for piece in pieces]
    return None if None in texts else tuple(text for text in texts if text is not None)


def _path(data: bytes) -> tuple[tuple[str, ...], bool, bool] | None:
    if b"#" in data:
        return None
    path = data
    for scheme in (b"http://", b"https://"):
        if data[: len(scheme)].lower() == scheme:
            rest = data[len(scheme) :]
            ends = [rest.find(b"/"), rest.find(b"?")]
            path = rest[min((end for end in ends if end >= 0), default=len(rest)) :]
    query = b"?" in path
    if query:
        path = path[: path.index(b"?")]
    if not path.startswith(b"/"):
        # Nothing is found there, so nothing is decoded.
        return (path.decode("utf-8", "surrogateescape"),), False, query
    parts = path[1:].split(b"/")
    trailing = len(parts) > 1 and not parts[-1]
    texts = [_unescaped(part) for part in (parts[:-1] if trailing else parts)]
    return None if None in texts else (tuple(t for t in texts if t is not None), trailing, query)


def _unescaped(data: bytes) -> str | None:
    plain, at = bytearray(), 0
    while at < len(data):
        byte = data[at]
        if byte == ord("%"):
            digits = data[at + 1 : at + 3]
            if len(digits) < 2 or any(digit not in _HEX for digit in digits):
                return None
            plain.append(int(digits, 16))
            at += 3
            continue
        plain.append(ord(" ") if byte == ord("+") else byte)
        at += 1
    return plain.decode() if _is_utf8(bytes(plain)) else None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
