"""From a parsed request to its answer: path, row, group, credentials, body, operation."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_member.http.metrics.request_counting import PATH
from grid_member.http.routes import data
from grid_member.http.routes.calls import (
    HttpCall,
    read_body,
    split_parameters,
)
from grid_member.http.routes.handlers import HANDLERS
from grid_member.http.routes.idempotent import carry_out_once
from grid_member.http.routes.preconditions import parked_answer, unjoined_answer
from grid_member.http.server.reading import (
    UNREADABLE,
    answer_of,
    check_head,
    ends_connection,
    gate_of,
    unreadable_answer,
)
from grid_member.http.table import CATCH_ALL_GROUPS, DATA, RoutingTable, unavailable
from grid_member.http.wire.answers import Answer, error, failure_answer
from grid_member.http.wire.paths import split_target
from grid_member.security.audit import endpoint, is_failure
from grid_member.security.credentials import LoginAttempt, LoginVerdict
from grid_member.security.details import details
from grid_member.security.remotes import unmap
from grid_member.telemetry.logs import event, failure, repeatable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aiohttp import web

    from grid_member.cluster.member.member import Member
    from grid_member.config.model.member import EndpointGroup, ListenerConfig
    from grid_member.http.routes.calls import ConnectionCounts
    from grid_member.http.table import Match, Route

_log: Final = logging.getLogger("grid.http")
_BODY_METHODS: Final = frozenset({"POST", "PUT"})


class BackgroundCalls:
    """The calls under way, each in a task that ends by itself when the client leaves.

    A management call changes several things one after another; cut off between two of them it would
    leave the member in a state that nobody asked for. A client that leaves does not learn of the
    end.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Answer]] = set()

    async def run(self, work: Coroutine[None, None, Answer]) -> Answer:
        """Return the answer of the work, which goes on when who waits for it is cancelled."""
        task = asyncio.create_task(work)
        # The event loop itself may forget a task that nobody else holds.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_drop_answer)
            raise


class Service:
    """Answers the requests of one listener."""

    def __init__(
        self, member: Member, listener: ListenerConfig, connections: Callable[[], ConnectionCounts]
    ) -> None:
        self._member = member
        self._listener = listener
        self._connections = connections
        self._table = RoutingTable()
        self._gate = gate_of(member.config, listener)
        self._measured = member.measurements is not None
        self._background = BackgroundCalls()

    @property
    def slowed_logins(self) -> int:
        """How many attempts were turned away, too many having failed from their address."""
        return self._gate.slowed_count

    async def answer(self, request: web.BaseRequest) -> Answer:
        """Return the answer; what goes wrong is an answer, too."""
        answer = await answer_of(request, self._route, _log)
        if answer.status in (400, 500):
            reason = dict(answer.headers).get("X-Grid-Error")
            repeatable(
                _log,
                logging.INFO,
                "request refused",
                status=answer.status,
                reason=reason,
                remote=unmap(request.remote),
            )
        if _log.isEnabledFor(logging.DEBUG):
            # Without the path: it may hold a key.
            event(
                _log,
                logging.DEBUG,
                "request answered",
                method=request.method,
                status=answer.status,
                remote=unmap(request.remote),
            )
        return replace(answer, close=True) if ends_connection(self._member, request) else answer

    async def _route(self, request: web.BaseRequest) -> Answer:
        check_head(request, self._member.config.limits.header_bytes)
        target = split_target(request.raw_path)
        match = self._table.match(target.parts)
        row = match.row(request.method) if match else None
        rows = (row,) if row else match.rows if match else ()
        if self._measured and rows:
            request[PATH] = rows[0].path
        attempt = _attempt(request, rows[0] if rows else None)
        entered = self._gate.header(
            attempt,
            groups=frozenset().union(*(r.groups for r in rows)) if rows else CATCH_ALL_GROUPS,
            parts=_plain(target.parts, rows),
            probe=bool(rows) and all(r.probe for r in rows),
            everything_below=row is not None and row.operation == data.map_clear.__name__,
        )
        if not entered.allows:
            return self._challenge(entered)
        if match is None or row is None or not row.groups & self._listener.groups:
            answer = self._unreachable(match, rows, target.parts)
            if self._gate.audits(entered, request.method, everything_below=False):
                self._gate.audit.log_call(attempt, entered.user, answer.status)
            return answer
        call = HttpCall(request, row, match.names, self._member, self._connections(), target)
        return await self._carry_out(call, attempt, entered)

    async def _carry_out(
        self, call: HttpCall, attempt: LoginAttempt, entered: LoginVerdict
    ) -> Answer:
        row = call.route
        audits = row.parameters is not None or self._gate.audits(
            entered,
            call.request.method,
            everything_below=row.operation == data.map_clear.__name__,
        )
        read = await self._read(call)
        if isinstance(read, Answer):
            if audits:
                told = details(row.operation, call.names, ())
                self._gate.audit.log_call(attempt, entered.user, read.status, details=told)
            return read
        if row.parameters is None:
            return await (self._audit(read, attempt, entered) if audits else _perform(read))
        verdict = self._gate.parameters(attempt, entered, read.parameters)
        if not verdict.allows:
            return replace(failure_answer(403, "unauthenticated"), headers=_retry_after(verdict))
        return await self._background.run(self._audit(read, attempt, verdict))

    async def _read(self, call: HttpCall) -> HttpCall | Answer:
        """Return the call with its body and parameters, or the answer when they are no good."""
        request, row = call.request, call.route
        problem = data.problem(call) if DATA in row.groups else None
        if problem is not None:
            return problem
        try:
            # A body that the row does not want is read, too: malformed, it refuses the request.
            if request.method in _BODY_METHODS or request.body_exists:
                body = await read_body(request, self._member.config.limits.value_bytes)
                call = replace(call, body=body)
            if row.parameters is None:
                return call
            call = replace(call, parameters=split_parameters(call.body, row.parameters))
        except UNREADABLE as unreadable:
            return unreadable_answer(unreadable)
        if len(call.parameters) < row.parameters:
            return error(400, f"this endpoint expects {row.parameters} parameters")
        return call

    async def _audit(self, call: HttpCall, attempt: LoginAttempt, verdict: LoginVerdict) -> Answer:
        row = call.route
        status: int | None = 500
        refused = repeated = False
        try:
            answer = await _perform(call)
            status, repeated = answer.status, answer.repeated
            # Without parameters the body is data, which may look like anything.
            refused = row.parameters is not None and is_failure(answer.body)
            return answer
        except asyncio.CancelledError:
            status = None
            raise
        finally:
            told = details(row.operation, call.names, call.parameters)
            self._gate.audit.log_call(
                attempt, verdict.user, status, refused=refused, repeated=repeated, details=told
            )

    def _unreachable(
        self, match: Match | None, rows: tuple[Route, ...], parts: tuple[str, ...]
    ) -> Answer:
        """Return the answer of a path or method that is not there, or not enabled here."""
        if match is None:
            return self._unknown_path(parts)
        if not any(row.groups & self._listener.groups for row in rows):
            return self._disabled_group(rows[0].groups)
        return Answer(405, headers=(("Allow", match.allow),))

    def _unknown_path(self, parts: tuple[str, ...]) -> Answer:
        if parts[0] != "grid":
            return error(404, "no such path")
        if not CATCH_ALL_GROUPS & self._listener.groups:
            return self._disabled_group(CATCH_ALL_GROUPS)
        return error(404, "no such path")

    def _disabled_group(self, groups: frozenset[EndpointGroup]) -> Answer:
        name = sorted(group.value for group in groups)[0]
        setting = f"{self._listener.setting}.endpoint-groups.{name}.enabled"
        repeatable(_log, logging.INFO, "endpoint group is disabled", group=name, setting=setting)
        return failure_answer(403, f"endpoint group {name} is disabled")

    def _challenge(self, verdict: LoginVerdict) -> Answer:
        headers = (("WWW-Authenticate", self._gate.challenge), *_retry_after(verdict))
        return Answer(401, headers=headers)


def _drop_answer(task: asyncio.Task[Answer]) -> None:
    if task.cancelled():
        return
    problem = task.exception()
    if problem is not None:
        failure(_log, "request failed", problem)
        return
    lost = task.result().on_loss
    if lost is not None:
        lost()


async def _perform(call: HttpCall) -> Answer:
    problem = parked_answer(call) or unjoined_answer(call)
    if problem is not None:
        return problem
    row = call.route
    if row.operation is None:
        return failure_answer(409, unavailable(row))
    operation = HANDLERS[row.operation]
    return await (operation(call) if row.parameters is None else carry_out_once(call, operation))


def _attempt(request: web.BaseRequest, row: Route | None) -> LoginAttempt:
    shown = endpoint(request.method, row.path if row else None)
    return LoginAttempt(
        unmap(request.remote), shown, tuple(request.headers.getall("Authorization", ()))
    )


def _plain(parts: tuple[str, ...], rows: tuple[Route, ...]) -> tuple[str, ...]:
    """Return the parts with a key split at all of its slashes, encoded or not: it is the same."""
    if not (rows and rows[0].path.endswith("...}")):
        return parts
    key = rows[0].path.count("/") - 1
    return (*parts[:key], *"/".join(parts[key:]).split("/"))


def _retry_after(verdict: LoginVerdict) -> tuple[tuple[str, str], ...]:
    seconds = verdict.retry_after_s
    return (("Retry-After", str(seconds)),) if seconds else ()
