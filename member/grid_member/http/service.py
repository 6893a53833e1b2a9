"""From a parsed request to its answer: path, row, group, credentials, body, operation."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion10, HttpVersion11

from grid_member.cluster.logs import event, failure
from grid_member.cluster.member import Phase
from grid_member.http import data, documents
from grid_member.http.answers import Answer, error, failed
from grid_member.http.calls import (
    BodyTooLargeError,
    Call,
    ExpectationError,
    FramingError,
    credentials_fit,
    read_body,
    split_parameters,
)
from grid_member.http.paths import MalformedError, split_target
from grid_member.http.routes import CATCH_ALL_GROUPS, DATA, RoutingTable, unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from grid_member.cluster.member import Member
    from grid_member.config.model import EndpointGroup, ListenerConfig, User
    from grid_member.http.calls import ConnectionCounts
    from grid_member.http.routes import Match, Route

_log: Final = logging.getLogger("grid.http")
_BODY_METHODS: Final = frozenset({"POST", "PUT"})
_LINE_OVERHEAD_BYTES: Final = 4
"""`: ` and the line end of a header line."""

OPERATIONS: Final[dict[str, Callable[[Call], Awaitable[Answer]]]] = {
    operation.__name__: operation
    for operation in (
        *(data.no_name, data.map_put, data.map_get, data.map_remove, data.map_clear),
        *(data.queue_offer, data.queue_poll, data.queue_size),
        *(documents.health, documents.health_ready, documents.health_node_state),
        *(documents.health_cluster_state, documents.health_cluster_safe),
        *(documents.health_migration_queue_size, documents.health_cluster_size),
        *(documents.health_unknown, documents.cluster, documents.instance),
        *(documents.cluster_state, documents.cluster_version, documents.member_shutdown),
    )
}


class Service:
    """Answers the requests of one listener."""

    def __init__(
        self, member: Member, listener: ListenerConfig, connections: Callable[[], ConnectionCounts]
    ) -> None:
        self._member = member
        self._listener = listener
        self._connections = connections
        self._table = RoutingTable()

    async def answer(self, request: web.BaseRequest) -> Answer:
        """Return the answer; what goes wrong is an answer, too."""
        try:
            answer = await self._routed(request)
        except MalformedError as problem:
            answer = error(400, str(problem))
        except FramingError as problem:
            answer = error(400, str(problem), close=True)
        except BodyTooLargeError:
            answer = error(413, "the body is too large", close=True)
        except ExpectationError:
            answer = error(417, "unknown expectation", close=True)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as problem:
            failure(_log, "request failed", problem)
            answer = error(500, "unexpected error")
        if answer.status in (400, 500):
            reason = dict(answer.headers).get("X-Grid-Error")
            event(
                _log,
                logging.INFO,
                "request refused",
                status=answer.status,
                reason=reason,
                remote=request.remote,
            )
        if self._member.phase is Phase.STOPPING or _lost_track(request):
            answer = replace(answer, close=True)
        return answer

    async def _routed(self, request: web.BaseRequest) -> Answer:
        if _header_bytes(request) > self._member.config.limits.header_bytes:
            return error(431, "the header block is too large", close=True)
        _check_framing(request)
        target = split_target(request.raw_path)
        match = self._table.match(target.parts)
        row = match.row(request.method) if match else None
        refused = self._unauthorized(request, row)
        if refused is not None:
            return refused
        if match is None:
            return self._unknown(target.parts)
        rows = (row,) if row else match.rows
        if not any(r.groups & self._listener.groups for r in rows):
            return self._disabled(rows[0].groups)
        if row is None:
            return Answer(405, headers=(("Allow", match.allow),))
        return await self._called(request, row, match, target.trailing_slash)

    async def _called(
        self, request: web.BaseRequest, row: Route, match: Match, trailing_slash: bool
    ) -> Answer:
        call = Call(request, row, match.names, self._member, self._connections(), trailing_slash)
        problem = data.problem(call) if DATA in row.groups else None
        if problem is not None:
            return problem
        # A body that the row does not want is read, too: malformed, it refuses the request.
        if request.method in _BODY_METHODS or request.body_exists:
            body = await read_body(request, self._member.config.limits.value_bytes)
            call = replace(call, body=body)
        if row.parameters is not None:
            call = replace(call, parameters=split_parameters(call.body, row.parameters))
            problem = self._credentials_problem(call, row.parameters)
            if problem is not None:
                return problem
        if row.operation is None:
            return failed(409, unavailable(row))
        if row.parameters is not None:
            event(
                _log,
                logging.INFO,
                "management call",
                operation=row.operation,
                remote=request.remote,
            )
        return await OPERATIONS[row.operation](call)

    def _unknown(self, parts: tuple[str, ...]) -> Answer:
        if parts[0] != "grid":
            return error(404, "no such path")
        if not CATCH_ALL_GROUPS & self._listener.groups:
            return self._disabled(CATCH_ALL_GROUPS)
        return error(404, "no such path")

    def _disabled(self, groups: frozenset[EndpointGroup]) -> Answer:
        name = sorted(group.value for group in groups)[0]
        setting = f"{self._listener.setting}.endpoint-groups.{name}.enabled"
        event(_log, logging.INFO, "endpoint group is disabled", group=name, setting=setting)
        return failed(403, f"endpoint group {name} is disabled")

    def _credentials_problem(self, call: Call, count: int) -> Answer | None:
        if len(call.parameters) < count:
            return error(400, f"this endpoint expects {count} parameters")
        authenticated = self._listener.users is not None
        if credentials_fit(call.parameters, self._member.config.cluster_name, authenticated):
            return None
        event(
            _log,
            logging.WARNING,
            "authentication failed",
            remote=call.request.remote,
            endpoint=call.route.path,
        )
        return failed(403, "unauthenticated")

    def _unauthorized(self, request: web.BaseRequest, row: Route | None) -> Answer | None:
        users = self._listener.users
        if users is None or (row is not None and row.probe):
            return None
        header = request.headers.get("Authorization")
        if _basic_accepted(header, users):
            return None
        reason = "no credentials" if header is None else "wrong credentials"
        event(_log, logging.WARNING, "authentication failed", remote=request.remote, reason=reason)
        realm = "".join(c for c in self._listener.realm if " " <= c <= "~" and c not in '"\\')
        challenge = f'Basic realm="{realm}", charset="UTF-8"'
        return Answer(401, headers=(("WWW-Authenticate", challenge),))


def _check_framing(request: web.BaseRequest) -> None:
    """Refuse what the parser lets through and this interface does not speak.

    Raises:
        FramingError: an HTTP version other than 1.0 and 1.1, a tunnel, or a transfer coding
            besides chunked, which another server on the way might see with another length.
    """
    if request.version not in (HttpVersion10, HttpVersion11):
        raise FramingError("the HTTP version is neither 1.0 nor 1.1")
    if request.method == "CONNECT":
        raise FramingError("this is not a proxy")
    codings = request.headers.getall("Transfer-Encoding", [])
    if codings and request.version == HttpVersion10:
        raise FramingError("HTTP/1.0 has no transfer codings")
    if codings and [coding.strip().lower() for coding in codings] != ["chunked"]:
        raise FramingError("unknown transfer coding")


def _lost_track(request: web.BaseRequest) -> bool:
    # The body is malformed, or a client that waits for 100 may send its next request instead.
    body = request.content
    return body.exception() is not None or ("Expect" in request.headers and not body.is_eof())


def _header_bytes(request: web.BaseRequest) -> int:
    size = len(request.method) + len(request.raw_path) + len(" HTTP/1.1") + 1
    for name, value in request.raw_headers:
        size += len(name) + len(value) + _LINE_OVERHEAD_BYTES
    return size


def _basic_accepted(header: str | None, users: tuple[User, ...]) -> bool:
    given = _basic_credentials(header)
    accepted = False
    # Every user is compared, so that the time does not tell which name exists.
    for user in users:
        expected = f"{user.name}:{user.password}".encode()
        accepted |= hmac.compare_digest(given or b"", expected)
    return accepted


def _basic_credentials(header: str | None) -> bytes | None:
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
