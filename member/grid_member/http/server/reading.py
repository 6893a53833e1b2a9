"""What is the same for the requests of every listener: what comes before a path, and errors."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion10, HttpVersion11

from grid_member.config.model.security import RealmConfig
from grid_member.http.routes.calls import UnreadableError
from grid_member.http.wire.answers import Answer, error
from grid_member.http.wire.paths import MalformedError
from grid_member.security.credentials import Gate
from grid_member.telemetry.logs import failure

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from grid_member.cluster.member.member import Member
    from grid_member.config.model.member import ListenerConfig, MemberConfig

UNREADABLE: Final = (MalformedError, UnreadableError)
"""What is wrong with a request whose target or body cannot be read."""
_LINE_OVERHEAD_BYTES: Final = 4
"""`: ` and the line end of a header line."""


def unreadable_answer(problem: Exception) -> Answer:
    """Return the answer of a request that is `UNREADABLE`."""
    return problem.answer if isinstance(problem, UnreadableError) else error(400, str(problem))


async def answer_of(
    request: web.BaseRequest,
    route: Callable[[web.BaseRequest], Awaitable[Answer]],
    log: logging.Logger,
) -> Answer:
    """Return what a listener's route answers; what goes wrong is an answer, too.

    Raises:
        ConnectionError: the client is gone.
    """
    try:
        return await route(request)
    except UNREADABLE as problem:
        return unreadable_answer(problem)
    except (asyncio.CancelledError, ConnectionError):
        raise
    except Exception as problem:
        failure(log, "request failed", problem)
        return error(500, "unexpected error")


def ends_connection(member: Member, request: web.BaseRequest) -> bool:
    """Tell whether the connection closes behind the answer."""
    # While it drains a connection ends only when all that came on it is answered.
    return (member.ending and not member.draining) or _framing_problem(request)


def gate_of(config: MemberConfig, listener: ListenerConfig) -> Gate:
    """Return the gate of a listener; one that has users of its own asks all requests for them."""
    guard = None if listener.users is None else RealmConfig(listener.realm, listener.users)
    return Gate(listener.kind, config.cluster_name, config.security, guard, time.monotonic)


def check_head(request: web.BaseRequest, most_bytes: int) -> None:
    """Refuse what the parser lets through and this interface does not speak.

    Raises:
        UnreadableError: a head of more bytes than that, an HTTP version other than 1.0 and 1.1, a
            tunnel, or a transfer coding besides chunked, which another server on the way might see
            with another length.
    """
    if _header_bytes(request) > most_bytes:
        raise UnreadableError(431, "the header block is too large")
    if request.version not in (HttpVersion10, HttpVersion11):
        raise UnreadableError(400, "the HTTP version is neither 1.0 nor 1.1")
    if request.method == "CONNECT":
        raise UnreadableError(400, "this is not a proxy")
    codings = request.headers.getall("Transfer-Encoding", [])
    if codings and request.version == HttpVersion10:
        raise UnreadableError(400, "HTTP/1.0 has no transfer codings")
    if codings and [coding.strip().lower() for coding in codings] != ["chunked"]:
        raise UnreadableError(400, "unknown transfer coding")


def _framing_problem(request: web.BaseRequest) -> bool:
    """Tell whether where the next request begins is unclear: the connection closes."""
    # The body is malformed, or a client that waits for 100 may send its next request instead.
    body = request.content
    return body.exception() is not None or ("Expect" in request.headers and not body.is_eof())


def _header_bytes(request: web.BaseRequest) -> int:
    """Return how large the head of a request is."""
    size = len(request.method) + len(request.raw_path) + len(" HTTP/1.1") + 1
    for name, value in request.raw_headers:
        size += len(name) + len(value) + _LINE_OVERHEAD_BYTES
    return size
