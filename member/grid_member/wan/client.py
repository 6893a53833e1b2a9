"""Requests to a target over HTTP, with aiohttp."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp

from grid_member.wan.ports import (
    OverloadedError,
    RefusedError,
    TooLargeError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.config.model.member import User
    from grid_member.wan.endpoints import Address

MAX_ANSWER_BYTES: Final = 8 << 20
"""More than the largest answer of a target, a page of keys."""
PIECE_BYTES: Final = 256 << 10
CONNECT_S: Final = 10.0
MAX_RETRY_AFTER_S: Final = 60.0
MAX_SHOWN_CHARACTERS: Final = 200
UNKNOWN_USER: Final = (
    "the target refuses the name and password: the publisher's realm must show a user of the realm "
    "of the target's network.wan"
)
NO_USER: Final = (
    "the target asks for a name and password: give the publisher a realm that shows a user of the "
    "realm of the target's network.wan"
)
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_NO_LISTENER: Final = frozenset({403, 404, 405})
_TOO_LARGE: Final = 413
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
"""What OpenSSL says of an answer that is not of TLS, by its version."""
_OPENSSL: Final = re.compile(r"\[SSL: (\w+)\]")
"""In the text of an error; an error of an open connection has a number that is not the system's."""
_BUSY: Final = frozenset({429, 503})
_REASON: Final = "X-Grid-Error"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a publisher reaches its target."""

    response_timeout_s: float
    identity: User | None = None
    """What Basic authentication shows; None shows nothing."""
    tls: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    """Returns the context for new connections; None speaks plain HTTP."""


class HttpTransport:
    """The connections of one publisher. They are kept and used again."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def post(self, address: Address, path: str, body: bytes, content_type: str) -> bytes:
        """Return the body of a 200.

        Raises:
            TargetError: there was none.
        """
        headers = {"Content-Type": content_type, "Host": _host(address)}
        if self._settings.identity is not None:
            headers["Authorization"] = _basic(self._settings.identity)
        context = None if self._settings.tls is None else self._settings.tls()
        scheme = "http" if context is None else "https"
        try:
            async with self._opened().post(
                f"{scheme}://{_bracketed(address.ip)}:{address.port}{path}",
                data=body,
                headers=headers,
                ssl=True if context is None else context,
                server_hostname=None if context is None else address.host,
                allow_redirects=False,
            ) as response:
                return await _answer(response, self._settings.identity)
        except TimeoutError:
            raise UnreachableError("no answer in time") from None
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as problem:
            raise UnreachableError(words_of(problem)) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            # TLS connections take a turn of the loop to close.
            await asyncio.sleep(0)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=self._settings.response_timeout_s,
                sock_connect=min(CONNECT_S, self._settings.response_timeout_s),
            )
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, use_dns_cache=False),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=timeout,
                auto_decompress=False,
            )
        return self._session


async def _answer(response: aiohttp.ClientResponse, identity: User | None) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(PIECE_BYTES):
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            response.close()
            raise UnreachableError("no WAN listener answers there: its answer is too long")
    if response.status == _OK:
        return bytes(body)
    why = _reason(response, bytes(body))
    if response.status in _BUSY:
        raise OverloadedError(why, _retry_after_s(response))
    if response.status == _TOO_LARGE:
        raise TooLargeError("the target or a proxy before it refuses so large a request (413)")
    raise RefusedError(_refusal(response.status, why, identity))


def _refusal(status: int, why: str, identity: User | None) -> str:
    """Return why the target takes nothing of this publisher, and what has to be changed."""
    if status == _UNAUTHORIZED:
        return UNKNOWN_USER if identity is not None else NO_USER
    if status in _NO_LISTENER:
        return (
            f"no WAN listener answers there ({status}): target-endpoints must name the port of "
            "the target's network.wan"
        )
    return f"the target answers {status}: {why}"


def _reason(response: aiohttp.ClientResponse, body: bytes) -> str:
    """Return what the target says of a refusal, in one line of characters that are harmless."""
    text: object = response.headers.get(_REASON)
    if not text:
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            content = None
        text = content.get("message") if isinstance(content, dict) else None
    shown = "".join(c for c in str(text or "") if c.isprintable())
    return shown[:MAX_SHOWN_CHARACTERS] or "no reason is given"


def _retry_after_s(response: aiohttp.ClientResponse) -> float:
    text = response.headers.get("Retry-After", "")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1
    return min(MAX_RETRY_AFTER_S, max(1.0, float(seconds)))


def words_of(problem: Exception) -> str:
    """Return why there was no answer, as a person would say it."""
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        found = problem.certificate_error
        return f"the target's certificate is refused: {getattr(found, 'verify_message', found)}"
    named = _OPENSSL.search(str(problem))
    if named is not None or isinstance(problem, (aiohttp.ClientSSLError, ssl.SSLError)):
        return _tls_words(type(problem).__name__ if named is None else named[1])
    if isinstance(problem, OSError) and problem.errno:
        return os.strerror(problem.errno)  # its own text has the address in it
    # The latter without a number: while TLS was agreed on.
    if isinstance(problem, (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectorError)):
        return "the target closed the connection"
    return f"no usable answer: {type(problem).__name__}"


def _tls_words(reason: str) -> str:
    """Return why TLS failed, of a reason as OpenSSL names it."""
    if reason in _NO_TLS:
        return "TLS failed: what answers there speaks no TLS"
    if "CERTIFICATE_REQUIRED" in reason:
        return "the target asks for a certificate: the publisher's ssl needs a certificate-file"
    if "ALERT" in reason:
        return f"the target refuses TLS or the certificate that the publisher shows: {reason}"
    return f"TLS failed: {reason}"


def _basic(identity: User) -> str:
    pair = f"{identity.name}:{identity.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


def _host(address: Address) -> str:
    return f"{_bracketed(address.host)}:{address.port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
