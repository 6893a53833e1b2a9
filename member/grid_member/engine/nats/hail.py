"""Asking who is at a members' port, before this member has a server that could join the others.

    line      ─▶ whoever it is greets, a server with what it is called
    TLS       ─▶ a server that waits for it says nothing before
    as server ─▶ a message to its member, which answers with the id of its cluster

The question goes over the connection that servers have to each other, the only one there is. It
names nobody whom servers could tell each other of, and it ends with the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import ssl
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.nats.server_config import (
    ACCOUNT,
    ROUTE_USER,
    route_cluster,
    route_password,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client import NatsClient
    from grid_member.engine.nats.wire import Message

SUBJECT: Final = b"grid.cluster"
"""What members are asked for the id of their cluster with."""
CONNECT_S: Final = 1.0
GREETING_S: Final = 0.8
"""Who says nothing for so long waits for TLS."""
ANSWER_S: Final = 0.5
"""How long a member may take to answer, once its server did."""
_TRIES: Final = 3
"""Questions to a server whose member may be about to listen."""
_WAITING: Final = re.compile(rb"GRID ([0-9a-f]{16})(?: ([0-9a-f]{16}))?\n")
_NO_GOSSIP: Final = 1
_NAME_BYTES: Final = 12
_PAYLOAD_BYTES: Final = 1 << 20


class Present(NamedTuple):
    """Who is at a members' port."""

    lot: str | None
    """Of a member that has no server yet, as it waits for the others; None: there is a server."""
    cluster: str
    """The id of its cluster, empty when it knows none or does not tell."""


def waiting_line(lot: str, cluster: str) -> bytes:
    """Return what a member that has no server yet says to whoever comes."""
    return f"GRID {lot} {cluster}\n".encode()


def answer_with(client: NatsClient, cluster: Callable[[], str]) -> None:
    """Let this member's server answer with the id of its cluster, empty while there is none."""

    def answer(messages: Sequence[Message]) -> None:
        for message in messages:
            if message.reply:
                client.publish(message.reply, cluster().encode())

    client.subscribe(SUBJECT, answer)


async def hail(settings: ClusterSettings, host: str, port: int) -> Present | None:
    """Return who is there, None when nobody is."""
    with contextlib.suppress(OSError, TimeoutError, UnicodeError, ValueError):
        line = await _greeting(host, port)
        waiting = _WAITING.fullmatch(line)
        if waiting:
            return Present(waiting[1].decode(), (waiting[2] or b"").decode())
        return Present(None, await _told(settings, host, port))
    return None


async def greets(host: str, port: int) -> bool:
    """Return whether a member or its server is there."""
    with contextlib.suppress(OSError, TimeoutError, UnicodeError, ValueError):
        await _greeting(host, port)
        return True
    return False


async def _greeting(host: str, port: int) -> bytes:
    """Return the first line, empty when nothing is said.

    Raises:
        OSError: nobody is there, or something between the members took the connection.
        TimeoutError: the same.
    """
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        async with asyncio.timeout(GREETING_S):
            line = await reader.readline()
    except TimeoutError:
        return b""
    finally:
        writer.close()
    if not line:
        raise ConnectionAbortedError
    return line


async def _told(settings: ClusterSettings, host: str, port: int) -> str:
    """Return the id that the member of the server there tells; empty when it does not."""
    for _ in range(_TRIES):
        try:
            async with asyncio.timeout(CONNECT_S + ANSWER_S):
                return await _asked(settings, host, port)
        except TimeoutError:
            continue
        except (OSError, EOFError, ValueError):
            break  # it does not take this member, and says so when the server comes
    return ""


async def _asked(settings: ClusterSettings, host: str, port: int) -> str:
    tls = None if settings.tls is None else await asyncio.to_thread(_tls, settings)
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        inbox = f"_INBOX.{secrets.token_hex(_NAME_BYTES)}"
        writer.write(_question(settings, inbox))
        async with asyncio.timeout(ANSWER_S):
            while True:
                line = await reader.readuntil(b"\r\n")
                kind, *words = line.split()
                if kind == b"PING":
                    writer.write(b"PONG\r\n")
                if kind in {b"RMSG", b"HMSG"}:
                    payload = await reader.readexactly(int(words[-1]) + len(b"\r\n"))
                    if words[1] == inbox.encode():
                        return payload[: -len(b"\r\n")].decode()
    finally:
        writer.close()


def _question(settings: ClusterSettings, inbox: str) -> bytes:
    """Return what a server says that joins another one, and a message to its member."""
    name = f"ask-{secrets.token_hex(_NAME_BYTES)}"
    common = {"cluster": route_cluster(settings.cluster_name), "headers": True, "lnoc": True}
    connect: dict[str, Any] = {
        **common,
        "verbose": False,
        "pedantic": False,
        "tls_required": settings.tls is not None,
        "user": ROUTE_USER,
        "pass": route_password(settings),
        "name": name,
    }
    info: dict[str, Any] = {
        **common,
        "server_id": name,
        "server_name": name,
        "version": "2.15.1",
        "proto": 1,
        "host": "127.0.0.1",
        "port": 1,
        "max_payload": _PAYLOAD_BYTES,
        # The servers are not to look for this one.
        "gossip_mode": _NO_GOSSIP,
    }
    lines = (
        f"CONNECT {json.dumps(connect)}",
        f"INFO {json.dumps(info)}",
        f"RS+ {ACCOUNT} {inbox}",
        f"RMSG {ACCOUNT} {SUBJECT.decode()} {inbox} 0",
        "",
        "PING",
    )
    return "".join(f"{line}\r\n" for line in lines).encode()


def _tls(settings: ClusterSettings) -> ssl.SSLContext:
    tls = settings.tls
    context = ssl.create_default_context(cafile=None if tls is None else tls.ca_file)
    if tls is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    return context
