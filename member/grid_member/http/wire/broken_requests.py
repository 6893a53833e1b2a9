"""The answers to what could not be read as a request; the connection closes behind each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp.http_exceptions import LineTooLong

from grid_member.http.wire.answers import error

if TYPE_CHECKING:
    from grid_member.http.wire.answers import Answer

_TOO_MANY_HEADERS: Final = "Too many headers received"


class LateError(Exception):
    """A head that did not come to its end in time: 408."""


def broken_request(status: int, exc: BaseException | None, line_limit_bytes: int) -> Answer:
    """Return the answer, with the status that the parser found when nothing more is known.

    Args:
        status: what the parser says.
        exc: what went wrong.
        line_limit_bytes: of a request line; that of a header line is one more, which tells them
            from each other.
    """
    if isinstance(exc, LineTooLong):
        field_limit_bytes = line_limit_bytes + 1
        if field_limit_bytes in exc.args or str(field_limit_bytes) in exc.args:
            return error(431, "a header line is too long", close=True)
        return error(414, "the request line is too long", close=True)
    if isinstance(exc, LateError):
        return error(408, "the head takes too long", close=True)
    if _TOO_MANY_HEADERS in str(exc):
        return error(431, "too many headers", close=True)
    reason = "malformed request" if status < 500 else "unexpected error"
    return error(status, reason, close=True)
