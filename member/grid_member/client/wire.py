"""HTTP exchanges with one member: a connection for each, bounded in time and size."""

from __future__ import annotations

import http.client
import math
import re
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from grid_member.client.errors import (
    FinalError,
    MissingFileError,
    NoListenerError,
    SilentError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

REQUEST_S: Final = 10.0
"""For one step of an exchange: to connect, or for more bytes of the answer."""
CALL_S: Final = 45.0
"""For calls that are answered when all members have heard of it."""
LAST_LOOK_S: Final = 3.0
"""For a request that is begun as the time ends."""
ANSWER_LIMIT_BYTES: Final = 4 * 1024 * 1024
_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_HOST: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_SCHEMES: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete answer; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """How members are reached, the same for all of them."""

    connect: str = ""
    """Host to connect to. A certificate still has to be for that of the URL."""
    tls: ssl.SSLContext | None = None
    authorization: str | None = field(default=None, repr=False)
    """The value of the header Authorization."""
    until_s: float = math.inf
    """By the monotonic clock: when what members do not answer is given up."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a member listens."""

    encrypted: bool
    host: str
    port: int

    @property
    def name(self) -> str:
        """Host and port, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(url: str) -> Endpoint:
    """Return the place that a URL names.

    Raises:
        UsageError: It is no URL of a listener.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--url {url}: {error}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise UsageError(f"--url {url}: write it as http://HOST:PORT or https://HOST:PORT")
    if not is_host(parts.hostname):
        raise UsageError(f"--url {url}: {parts.hostname} is no name of a host, nor an address")
    if parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(f"--url {url}: give scheme, host and port alone")
    found = port if port is not None else _SCHEMES[parts.scheme]
    return Endpoint(parts.scheme == "https", parts.hostname, found)


def is_host(text: str) -> bool:
    """Return whether text can name a host, or is like an address; others cannot be looked up."""
    return _HOST.fullmatch(text) is not None


def tls_context(authority: Path | None) -> ssl.SSLContext:
    """Return what trusts the certificates of the file, those of the system when it is None.

    Raises:
        UsageError: The file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=authority)
        # The file may hold the members' certificate itself, where its issuer is not at hand.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    except ssl.SSLError:
        raise UsageError(f"--ca {authority}: holds no certificate in PEM") from None
    except FileNotFoundError as error:
        raise MissingFileError(f"--ca {authority}: {error.strerror}") from None
    except OSError as error:
        raise UsageError(f"--ca {authority}: {error.strerror}") from None


def exchange(
    endpoint: Endpoint,
    options: ConnectOptions,
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = REQUEST_S,
) -> HttpReply:
    """Send one request and return the whole answer.

    Raises:
        SilentError: There is none, or it is cut off.
        FinalError: The certificate is not trusted, or the answer is none of a member.
    """
    timeout_s = min(timeout_s, max(LAST_LOOK_S, options.until_s - time.monotonic()))
    sent = {**(headers or {}), "Connection": "close"}
    if options.authorization is not None:
        sent["Authorization"] = options.authorization
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)
    try:
        connection.sock = _connect(endpoint, options, timeout_s)
        connection.request(method, path, body=body, headers=sent)
        with connection.getresponse() as response:
            found = response.read(ANSWER_LIMIT_BYTES + 1)
            named = {name.lower(): value for name, value in response.getheaders()}
            reply = HttpReply(response.status, named, found)
    except ssl.SSLCertVerificationError as error:
        raise FinalError(
            f"{endpoint.name} shows a certificate that is not trusted: {error.verify_message}: "
            "--ca FILE names the authority"
        ) from None
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise NoListenerError(f"{endpoint.name} cannot be reached: {error.strerror}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise SilentError(f"{endpoint.name} gives no answer: {reason}") from None
    finally:
        connection.close()
    if len(reply.body) > ANSWER_LIMIT_BYTES:
        raise FinalError(f"{endpoint.name} answered more than {ANSWER_LIMIT_BYTES} bytes")
    return reply


def _connect(endpoint: Endpoint, options: ConnectOptions, timeout_s: float) -> socket.socket:
    plain = socket.create_connection((options.connect or endpoint.host, endpoint.port), timeout_s)
    if not endpoint.encrypted:
        return plain
    try:
        return (options.tls or tls_context(None)).wrap_socket(plain, server_hostname=endpoint.host)
    except BaseException:
        plain.close()
        raise
