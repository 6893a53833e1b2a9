"""The WAN listener: other clusters say hello and send their changes, and nothing else is answered.

    not let in ──▶ 401, on every path
    let in: /grid/wan/hello, /grid/wan/1/changes, /grid/wan/1/digests, /grid/wan/1/keys; else 404

A client that is let in writes every configured map, and reads keys of it. A hello has an audit
line; what follows has none, as single entries have none on the REST listener.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_member.http.metrics.request_counting import PATH
from grid_member.http.routes.calls import read_body
from grid_member.http.server.reading import (
    answer_of,
    check_head,
    ends_connection,
    gate_of,
)
from grid_member.http.wire.answers import JSON, Answer, error, failure_answer
from grid_member.http.wire.paths import split_target
from grid_member.security.audit import endpoint
from grid_member.security.credentials import NOT_ASKED, LoginAttempt
from grid_member.security.remotes import unmap
from grid_member.telemetry.logs import repeatable
from grid_member.wan.comparison.messages import MAX_QUESTION_BYTES
from grid_member.wan.hello import MAX_HELLO_BYTES, HelloError, read_hello, write_welcome
from grid_member.wan.link import CHANGES_PATH, DIGESTS_PATH, HELLO_PATH, KEYS_PATH
from grid_member.wan.ports import BusyError, ConflictError
from grid_member.wan.protocol import CONTENT_TYPE, ProtocolError, with_checksum

if TYPE_CHECKING:
    from aiohttp import web

    from grid_member.cluster.member.member import Member
    from grid_member.config.model.member import ListenerConfig
    from grid_member.security.credentials import LoginVerdict
    from grid_member.wan.receiver import Receiver

_log: Final = logging.getLogger("grid.wan")
_ALL: Final = (HELLO_PATH, CHANGES_PATH, DIGESTS_PATH, KEYS_PATH)
_PATHS: Final = {tuple(path[1:].split("/")): path for path in _ALL}
_POST: Final = "POST"


class WanService:
    """Answers the requests of the WAN listener."""

    def __init__(self, member: Member, listener: ListenerConfig, receiver: Receiver) -> None:
        self._member = member
        self._receiver = receiver
        self._gate = gate_of(member.config, listener)
        self._asks = bool(listener.realm)
        """Without a realm the listener takes certificates alone, and its TLS has asked for one."""

    @property
    def slowed_logins(self) -> int:
        """How many attempts were turned away, too many having failed from their address."""
        return self._gate.slowed_count

    async def answer(self, request: web.BaseRequest) -> Answer:
        """Return the answer; what goes wrong is an answer, too."""
        answer = await answer_of(request, self._route, _log)
        return replace(answer, close=True) if ends_connection(self._member, request) else answer

    async def _route(self, request: web.BaseRequest) -> Answer:
        check_head(request, self._member.config.limits.header_bytes)
        path = _PATHS.get(split_target(request.raw_path).parts)
        if path is not None:
            request[PATH] = path
        attempt = LoginAttempt(
            unmap(request.remote),
            endpoint(request.method, path),
            tuple(request.headers.getall("Authorization", ())),
        )
        verdict = self._enter(attempt)
        if not verdict.allows:
            seconds = verdict.retry_after_s
            retry = (("Retry-After", str(seconds)),) if seconds else ()
            return Answer(401, headers=(("WWW-Authenticate", self._gate.challenge), *retry))
        if path is None:
            return Answer(404)
        if request.method != _POST:
            return Answer(405, headers=(("Allow", _POST),))
        if path != HELLO_PATH:
            return await self._message(request, path)
        answer = await self._hello(request)
        self._gate.audit.log_call(attempt, verdict.user, answer.status)
        return answer

    def _enter(self, attempt: LoginAttempt) -> LoginVerdict:
        if not self._asks:
            return NOT_ASKED
        return self._gate.header(attempt, groups=(), parts=(), probe=False)

    async def _hello(self, request: web.BaseRequest) -> Answer:
        body = await read_body(request, MAX_HELLO_BYTES)
        try:
            welcome = self._receiver.greet(read_hello(body))
        except HelloError as problem:
            return error(400, str(problem))
        except ConflictError as problem:
            _tell("a source is refused", problem, request)
            return failure_answer(409, str(problem))
        except BusyError as problem:
            return error(503, str(problem), retry=True)
        return Answer(200, write_welcome(welcome), JSON)

    async def _message(self, request: web.BaseRequest, path: str) -> Answer:
        receiver = self._receiver
        # A deflated body is no larger than what it holds: else it would travel as it is.
        most = receiver.settings.batch_bytes if path == CHANGES_PATH else MAX_QUESTION_BYTES
        body = await read_body(request, most)
        try:
            if path == CHANGES_PATH:
                answer = await receiver.take(body)
            elif path == DIGESTS_PATH:
                answer = await receiver.digests(body)
            else:
                answer = await receiver.keys(body)
        except ProtocolError as problem:
            _tell("a message is malformed", problem, request)
            return error(400, str(problem))
        except ConflictError as problem:
            return failure_answer(409, str(problem))
        except BusyError as problem:
            return error(503, str(problem), retry=True)
        return Answer(200, with_checksum(answer, body), CONTENT_TYPE)


def _tell(what: str, problem: Exception, request: web.BaseRequest) -> None:
    remote = unmap(request.remote)
    repeatable(_log, logging.WARNING, what, why=str(problem), remote=remote)
