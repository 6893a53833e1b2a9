"""From the request target on the wire to the decoded parts of its path."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

_AUTHORITY: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_UNESCAPED: Final = codecs.getdecoder("unicode_escape")
"""Looked up here: the first request that needs it does not wait for its module."""


class MalformedError(ValueError):
    """A part of the request cannot be decoded: 400. The message quotes nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """The decoded parts of a path without its one trailing slash."""

    parts: tuple[str, ...]
    trailing_slash: bool
    has_query: bool = False
    """Whether there is a `?`, also with nothing behind it."""


def split_target(target: str) -> Target:
    """Split at raw slashes, then decode each part; the query is left out.

    Args:
        target: as on the wire, bytes outside ASCII as surrogates or characters.

    Raises:
        MalformedError: a broken escape, bytes that are not UTF-8, or a fragment, which HTTP does
            not send: most likely a `#` of a key that was not encoded.
    """
    if "#" in target:
        raise MalformedError("a # in the target must be sent as %23")
    authority = _AUTHORITY.match(target)
    path, query, _ = (target[authority.end() :] if authority else target).partition("?")
    if not path.startswith("/"):
        return Target((path,), False, bool(query))
    parts = path.split("/")[1:]
    trailing = len(parts) > 1 and parts[-1] == ""
    return Target(tuple(map(decode, parts[:-1] if trailing else parts)), trailing, bool(query))


def decode(text: str) -> str:
    """Return a part of a path or body with `%XX` as UTF-8 and `+` as a space.

    Raises:
        MalformedError: a broken escape, or bytes that are not UTF-8.
    """
    if text.isascii() and "%" not in text:
        return text.replace("+", " ")
    raw = text.encode("utf-8", "surrogateescape").replace(b"+", b" ")
    # As Python's own escapes, whose decoder is many times as fast as that for URLs: nobody has to
    # have credentials to send megabytes of them, and meanwhile nothing else is answered.
    escaped = raw.replace(b"\\", b"\\\\").replace(b"%", b"\\x")
    try:
        unescaped = _UNESCAPED(escaped)[0].encode("latin-1")
    except UnicodeDecodeError:
        raise MalformedError("malformed percent escape") from None
    try:
        return unescaped.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedError("not valid UTF-8") from None
