"""Talks to members over their management listener: what they say of themselves, what they are told.

A member is another program that may hang, trickle, lie or be something else by now: every
exchange has a deadline and a size, every answer is checked, and whatever is wrong becomes a
`MemberProblem` or a `CallOutcome` in words. Credentials appear in no message and in no log line.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import aiohttp

from grid_operator.api.names import MANAGEMENT_PORT
from grid_operator.decide.calls import CallDone, CallRefused, CallUnknown, Endpoint
from grid_operator.decide.model import MemberProblem
from grid_operator.ports.members.address import (
    cluster_id,
    is_encrypted,
    member_url,
    process_id,
    server_name,
)
from grid_operator.ports.members.breaker import Breaker
from grid_operator.ports.members.call import (
    call_body,
    call_headers,
    call_outcome,
    call_timeout_s,
    masked,
)
from grid_operator.ports.members.trust import AuthorityError, MemberTrust
from grid_operator.ports.members.view import BadAnswerError
from grid_operator.ports.members.wire import (
    NotSentError,
    RefusedError,
    Wire,
    ask_view,
    ask_wan,
    gate_trace,
)
from grid_operator.ports.metrics import OperatorMetrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.calls import CallOutcome, MemberCall
    from grid_operator.decide.model import MemberView
    from grid_operator.ports.api import MemberAccess

CONNECT_TIMEOUT_S: Final = 1.0
VIEW_TIMEOUT_S: Final = 3.0
"""For all questions to one member together."""
IDLE_CONNECTION_S: Final = 1.0
"""Long enough for the questions of one view to share a connection, too short for the address of
the pod to belong to another."""
HEADER_LIMIT_BYTES: Final = 16 * 1024
CONNECTION_LIMIT: Final = 256
_FAILURES: Final = (
    aiohttp.ClientError,
    OSError,
    ValueError,
    BadAnswerError,
    AuthorityError,
    RefusedError,
)
"""What exchanges with a member fail with. A timeout is an OSError, and is caught before."""
_OUTCOMES: Final = {CallDone: "done", CallRefused: "refused", CallUnknown: "unknown"}
SILENT: Final = "gave no answer several times in a row; it is asked again in a while"
VIEW: Final = "view"
"""What the metrics call the questions about a member's state."""


class MemberClient:
    """Implements `ports.api.Members` with HTTP. Use as an async context manager."""

    def __init__(
        self,
        port: int = MANAGEMENT_PORT,
        view_timeout_s: float = VIEW_TIMEOUT_S,
        *,
        metrics: OperatorMetrics | None = None,
        breaker: Breaker | None = None,
        trust: MemberTrust | None = None,
        timeout_s: Callable[[Endpoint], float] = call_timeout_s,
    ) -> None:
        """Make a client.

        Args:
            port: Of the members' management listener.
            view_timeout_s: For all questions of one view together.
            metrics: Where latencies are counted.
            breaker: Which members are left alone for a while.
            trust: Which certificates are believed.
            timeout_s: How long the answer to a call may take.
        """
        self._port = port
        self._view_timeout_s = view_timeout_s
        self._metrics = metrics or OperatorMetrics()
        self._breaker = breaker or Breaker(time.monotonic, random.Random())  # noqa: S311 - jitter
        self._trust = trust or MemberTrust(time.monotonic)
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTION_LIMIT, keepalive_timeout=IDLE_CONNECTION_S
            ),
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=HEADER_LIMIT_BYTES,
            max_field_size=HEADER_LIMIT_BYTES,
            trust_env=False,
            # Members compress nothing, and what is compressed has no size until it is too late.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
            trace_configs=[gate_trace()],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch_view(self, pod: KubeObject, access: MemberAccess) -> MemberView | MemberProblem:
        """Ask one member what it says of itself; a problem, not an exception, when it cannot."""
        process = process_id(pod)
        if not self._breaker.allows(process):
            return MemberProblem(SILENT)
        began = time.monotonic()
        timed_out = False
        try:
            async with asyncio.timeout(self._view_timeout_s):
                view = _without(access.password, await self._ask(pod, access))
        except TimeoutError:
            timed_out = True
            limit = f"{self._view_timeout_s:g} s"
            view = MemberProblem(f"gave no complete answer within {limit}")
        except RefusedError:
            view = MemberProblem("does not accept the operator's credentials", unauthenticated=True)
        except _FAILURES as error:
            view = MemberProblem(masked(failure_text(error), access.password))
        self._note(process, timed_out=timed_out)
        if not self._breaker.allows(process):
            view = MemberProblem(SILENT)  # the same words now and while it is not asked
        outcome = "problem" if isinstance(view, MemberProblem) else "done"
        self._metrics.member_asked(VIEW, outcome, time.monotonic() - began)
        return view

    async def _ask(self, pod: KubeObject, access: MemberAccess) -> MemberView | MemberProblem:
        wire = self._wire(pod, access)
        view = await ask_view(wire)
        if isinstance(view, MemberProblem) or not access.asks_wan:
            return view
        return replace(view, wan=await ask_wan(wire))

    async def call(
        self, call: MemberCall, access: MemberAccess, may_send: Callable[[], bool]
    ) -> CallOutcome | None:
        """Tell one member what to do, as `Members.call` says, unless its breaker is open."""
        process = process_id(call.pod)
        if not self._breaker.allows(process):
            return CallUnknown(SILENT)
        began = time.monotonic()
        timed_out = False
        try:
            async with asyncio.timeout(self._timeout_s(call.endpoint)):
                outcome = await self._call(call, access, may_send)
        except NotSentError:
            return None
        except TimeoutError:
            timed_out = True
            outcome = CallUnknown("gave no complete answer in time")
        except _FAILURES as error:
            outcome = CallUnknown(masked(failure_text(error), access.password))
        self._note(process, timed_out=timed_out)
        self._metrics.member_asked(
            call.endpoint.value, _OUTCOMES[type(outcome)], time.monotonic() - began
        )
        return outcome

    async def _call(
        self, call: MemberCall, access: MemberAccess, may_send: Callable[[], bool]
    ) -> CallOutcome:
        wire, headers = self._wire(call.pod, access), call_headers(call)
        reply = await wire.post(call.endpoint.value, call_body(call), headers, may_send)
        licence = call.parameter if call.endpoint is Endpoint.LICENSE else None
        secrets = (access.password, licence or "")
        return call_outcome(call, reply.status, reply.headers, reply.body, *secrets)

    def _wire(self, pod: KubeObject, access: MemberAccess) -> Wire:
        if self._session is None:
            raise RuntimeError("MemberClient is used outside its context")
        authorization = aiohttp.encode_basic_auth(access.username, access.password, "utf-8")
        return Wire(
            self._session,
            member_url(pod, self._port),
            {"Authorization": authorization},
            tls=self._trust.context(cluster_id(pod), access.authority)
            if is_encrypted(pod)
            else None,
            server_name=server_name(pod),
        )

    def _note(self, process: str, *, timed_out: bool) -> None:
        if timed_out:
            self._breaker.timed_out(process)
        else:
            self._breaker.answered(process)


def _without(password: str, view: MemberView | MemberProblem) -> MemberView | MemberProblem:
    """Return the view with no password in what is told to people."""
    if isinstance(view, MemberProblem):
        return replace(view, message=masked(view.message, password))
    return replace(
        view,
        operations=tuple(replace(o, error=masked(o.error, password)) for o in view.operations),
    )


def failure_text(error: Exception) -> str:
    """Return in words why an exchange failed."""
    if isinstance(error, BadAnswerError | AuthorityError):
        return str(error)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or "it cannot be verified"
        return f"shows a certificate that is not trusted: {reason}"
    if isinstance(error, aiohttp.ClientSSLError):
        return "speaks no TLS that the operator accepts"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot be reached: {error.os_error.strerror or error.os_error}"
    return f"broke off its answer: {type(error).__name__}"
