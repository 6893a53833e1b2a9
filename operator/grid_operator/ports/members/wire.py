"""HTTP exchanges with one member, each bounded in size; and the exchanges that make a view."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import aiohttp

from grid_operator.decide.model import MemberProblem
from grid_operator.decide.words import without_counts
from grid_operator.ports.members.call import ERROR_HEADER, MAX_MESSAGE_LENGTH
from grid_operator.ports.members.view import (
    CLUSTER_PATH,
    HEALTH_PATH,
    OPERATIONS_PATH,
    READY_PATH,
    SAFE_PATH,
    USAGE_PATH,
    VERSION_PATH,
    WAN_PATH,
    WAN_UNCONFIGURED,
    BadAnswerError,
    member_view,
    node_state,
    parse_object,
    wan_publishers,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from types import SimpleNamespace

    from grid_operator.decide.model import MemberView, WanPublisherView

BODY_LIMIT_BYTES: Final = 256 * 1024
USAGE_LIMIT_BYTES: Final = 1024 * 1024
VERSION_TIMEOUT_S: Final = 1.5
"""Half of a view's time: a member without a majority keeps this answer back for longer, and shows
otherwise that it lives."""
USAGE_TIMEOUT_S: Final = 1.0
"""Usage is told for people: a member that cannot tell it now is as good as any."""
_OK: Final = 200
_CONFLICT: Final = 409
_NOT_SAFE: Final = "not safe: "


class RefusedError(Exception):
    """The member answers 401."""


class NotSentError(Exception):
    """The request was given up before a byte of it went out."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def reason(self) -> str:
        """What the member says is wrong, empty when it does not say."""
        text = self.headers.get(ERROR_HEADER, "")
        return "".join(c for c in text if c.isprintable())[:MAX_MESSAGE_LENGTH]


class Wire:
    """The way to one member."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        headers: Mapping[str, str],
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> None:
        self._session = session
        self._base_url = base_url
        self._headers = headers
        self._tls = tls
        self._server_name = server_name if tls is not None else None

    async def get(self, path: str, limit_bytes: int = BODY_LIMIT_BYTES) -> Reply:
        """Return what is at the path.

        Raises:
            BadAnswerError: It is larger than the limit.
        """
        return await self._exchange("GET", path, self._headers, None, None, limit_bytes)

    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str], may_send: Callable[[], bool]
    ) -> Reply:
        """Send the body; `may_send` is asked when the connection is there, before the first byte.

        Raises:
            NotSentError: `may_send` said no.
            BadAnswerError: The answer is larger than the limit.
        """
        return await self._exchange(
            "POST", path, {**self._headers, **headers}, body, may_send, BODY_LIMIT_BYTES
        )

    async def _exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        data: bytes | None,
        may_send: Callable[[], bool] | None,
        limit_bytes: int,
    ) -> Reply:
        async with self._session.request(
            method,
            self._base_url + path,
            headers=headers,
            data=data,
            allow_redirects=False,
            ssl=True if self._tls is None else self._tls,
            server_hostname=self._server_name,
            trace_request_ctx=may_send,
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > limit_bytes:
                    raise BadAnswerError(f"answered more than {limit_bytes} bytes")
            return Reply(response.status, response.headers, bytes(body))


def gate_trace() -> aiohttp.TraceConfig:
    """Return what makes a session ask `may_send` before it writes a request's first byte.

    aiohttp calls it when the connection is there and the head is still to be written.
    """
    trace = aiohttp.TraceConfig()

    async def before_head(
        _session: aiohttp.ClientSession, context: SimpleNamespace, _params: object
    ) -> None:
        may_send = context.trace_request_ctx
        if may_send is not None and not may_send():
            raise NotSentError

    trace.on_request_headers_sent.append(before_head)
    return trace


async def ask_view(wire: Wire) -> MemberView | MemberProblem:
    """Return what a member says of itself; a problem when it has not joined.

    Raises:
        RefusedError: It does not accept the credentials.
        BadAnswerError: It says something that is not in the interface.
    """
    health = await _document(wire, HEALTH_PATH)
    ready = await wire.get(READY_PATH)
    cluster = await wire.get(CLUSTER_PATH)
    if cluster.status == 503:
        state = node_state(parse_object(health, HEALTH_PATH))
        reason = ready.reason or cluster.reason or "it has not joined"
        return MemberProblem(reason, node_state=state)
    version = await _version(wire)
    if version is None:
        said = _words(ready)
        return MemberProblem(said or "no majority of the members answers it", own_words=bool(said))
    documents = {
        HEALTH_PATH: health,
        CLUSTER_PATH: _accepted(cluster, CLUSTER_PATH),
        VERSION_PATH: _accepted(version, VERSION_PATH),
    }
    operations = await wire.get(OPERATIONS_PATH)
    if operations.status != 404:  # a member of a version that has no such document
        documents[OPERATIONS_PATH] = _accepted(operations, OPERATIONS_PATH)
    usage = await _usage(wire)
    if usage is not None:
        documents[USAGE_PATH] = usage
    view = member_view(documents, ready=ready.status == 200)
    return replace(view, problem=_words(ready), unsafe=await _unsafe(wire, view))


async def _version(wire: Wire) -> Reply | None:
    """Return the answer, None when the member waits for the others to know it."""
    try:
        async with asyncio.timeout(VERSION_TIMEOUT_S):
            reply = await wire.get(VERSION_PATH)
    except TimeoutError:
        return None
    return reply if reply.status != 503 else None


async def _usage(wire: Wire) -> bytes | None:
    try:
        async with asyncio.timeout(USAGE_TIMEOUT_S):
            reply = await wire.get(USAGE_PATH, USAGE_LIMIT_BYTES)
    except (TimeoutError, BadAnswerError):
        return None
    return reply.body if reply.status == 200 else None


async def ask_wan(wire: Wire) -> tuple[WanPublisherView, ...] | None:
    """Return the publishers that a member shows, None when it cannot tell now.

    Raises:
        BadAnswerError: It says something that is not in the interface.
    """
    try:
        async with asyncio.timeout(USAGE_TIMEOUT_S):
            reply = await wire.get(WAN_PATH, USAGE_LIMIT_BYTES)
    except TimeoutError:
        return None
    if reply.status == _CONFLICT and _is_unconfigured(reply.body):
        return ()
    return wan_publishers(reply.body) if reply.status == _OK else None


def _is_unconfigured(body: bytes) -> bool:
    return parse_object(body, WAN_PATH).get("message") == WAN_UNCONFIGURED


async def _unsafe(wire: Wire, view: MemberView) -> str:
    """Return why the cluster is not safe; it is told for people, as usage is."""
    if view.cluster_safe:
        return ""
    try:
        async with asyncio.timeout(USAGE_TIMEOUT_S):
            return _words(await wire.get(SAFE_PATH)).removeprefix(_NOT_SAFE)
    except (TimeoutError, BadAnswerError):
        return ""


def _words(check: Reply) -> str:
    """Return what the member says about a check that fails."""
    return without_counts(check.reason) if check.status == 503 else ""


async def _document(wire: Wire, path: str) -> bytes:
    return _accepted(await wire.get(path), path)


def _accepted(reply: Reply, path: str) -> bytes:
    if reply.status == 401:
        raise RefusedError
    if reply.status != 200:
        raise BadAnswerError(f"answered {reply.status} to GET {path}")
    return reply.body
