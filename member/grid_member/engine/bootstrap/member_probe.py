"""Asking who is at a members' port, before this member has a server that could join the others.

    line      ─▶ whoever it is greets, a server with what it is called
    TLS       ─▶ a server that waits for it says nothing before
    as server ─▶ a message to its member, which answers with the id of its cluster

The question goes over the connection that servers have to each other, the only one there is. It
names nobody whom servers could tell each other of, and it ends with the answer. It says which
member asks, and the answer tells of another process that is the same member (`incarnation`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import secrets
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grid_member.engine.bootstrap.identity import (
    ROUTE_USER,
    route_cluster,
    route_password,
)
from grid_member.engine.bootstrap.incarnation import Incarnation, decode_incarnation
from grid_member.engine.io.listening import server_at
from grid_member.engine.nats.admin.peers import ACCOUNT
from grid_member.engine.nats.admin.questions import answer_each, ask_all
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.nats.client.wire import Message

SUBJECT: Final = b"grid.cluster"
"""What members are asked for the id of their cluster with."""
CONNECT_S: Final = 1.0
GREETING_S: Final = 0.8
"""Who says nothing for so long waits for TLS."""
PROBED_MEMBER_ANSWER_S: Final = 0.5
"""How long a member may take to answer, once its server did."""
TWIN_S: Final = 0.3
"""How long of that another one may take that it asks."""
MAX_LINES_BYTES: Final = 1 << 20
"""What a server says at once, at most; there is little that it could."""
_TRIES: Final = 3
"""Questions to a server whose member may be about to listen."""
_WAITING: Final = re.compile(rb"GRID ([0-9a-f]{16})(?: ([0-9a-f]{16}) ([0-9a-f]{16}))?\n")
_MESSAGES: Final = frozenset({b"RMSG", b"HMSG"})
_DIGEST_CHARACTERS: Final = 16
_NO_GOSSIP: Final = 1
_NAME_BYTES: Final = 12
_PAYLOAD_BYTES: Final = 1 << 20


class Occupant(NamedTuple):
    """Who is at a members' port."""

    lot: str | None
    """Of a member that has no server yet, as it waits for the others; None: there is a server."""
    cluster: str | None
    """The id of its cluster, empty when it knows none; None: it does not tell."""
    twin: Incarnation | None = None
    """Another process that is the member that asks; None: it knows of none."""


class ServerLine(NamedTuple):
    """What a server says to another one."""

    kind: bytes
    fields: list[bytes]
    payload: bytes


def waiting_line(settings: ClusterSettings, lot: str, cluster: str) -> bytes:
    """Return what a member that has no server yet says to whoever comes."""
    return f"GRID {lot} {cluster} {_digest(settings)}\n".encode()


async def listen_and_say(settings: ClusterSettings, line: bytes) -> asyncio.Server | None:
    """Listen at the members' port, and say a line to whoever comes; None when that cannot be."""

    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(line)
        writer.close()

    try:
        return await server_at(settings.host, settings.port, answer)
    except OSError:
        return None  # the server meets the same difficulty, and its error says what to do


def answer_with(
    client: NatsClient,
    cluster: Callable[[], str],
    own: Incarnation | None = None,
    refused: Callable[[Incarnation, Incarnation], None] = lambda older, younger: None,
) -> None:
    """Let this member's server answer who asks which cluster this is, and for the own twin.

    Args:
        client: connected to the member's own server.
        cluster: returns the id of its cluster, empty while there is none.
        own: this process; None tells nobody of twins.
        refused: hears of an older process and of a younger one that asked and will end.
    """
    asking: set[asyncio.Task[None]] = set()

    async def answer(reply: bytes, incarnation: Incarnation | None) -> None:
        twin = (
            None if own is None or incarnation is None else await _twin_of(client, incarnation, own)
        )
        if twin is not None and incarnation is not None and incarnation.yields_to(twin):
            refused(twin, incarnation)
        told = cluster().encode()
        client.publish(reply, told if twin is None else told + b"\n" + twin.payload)

    def heard(messages: Sequence[Message]) -> None:
        for message in messages:
            if message.reply:
                task = asyncio.ensure_future(
                    answer(message.reply, decode_incarnation(message.payload))
                )
                asking.add(task)
                task.add_done_callback(asking.discard)

    def live_twin(said: bytes) -> bytes | None:
        incarnation = decode_incarnation(said)
        if own is None or incarnation is None or not incarnation.is_twin_of(own):
            return None
        return own.payload

    client.subscribe(SUBJECT, heard)
    if own is not None:
        answer_each(client, _incarnation_subject(own), live_twin)


async def _twin_of(
    client: NatsClient, incarnation: Incarnation, own: Incarnation
) -> Incarnation | None:
    """Return a process that lives as the member that asks; a dead one does not answer."""
    if incarnation.is_twin_of(own):
        return own
    try:
        answer = await client.request(
            _incarnation_subject(incarnation), incarnation.payload, timeout_s=TWIN_S
        )
    except NatsError:
        return None
    return decode_incarnation(answer.payload)


def _incarnation_subject(incarnation: Incarnation) -> bytes:
    """Return the subject at which a process answers whoever says that it is the same member."""
    return b"grid.lives." + incarnation.member.encode()


async def connected_clusters(client: NatsClient) -> list[str]:
    """Return the ids of the clusters of all members whose servers are connected, this one too.

    A member without a cluster answers with an empty id. A member without an answer within
    `PROBED_MEMBER_ANSWER_S` is left out.
    """
    told: list[bytes] = []
    await ask_all(client, SUBJECT, b"", PROBED_MEMBER_ANSWER_S, told.append)
    return [answer.decode(errors="replace") for answer in told]


async def probe(
    settings: ClusterSettings,
    host: str,
    port: int,
    on_connect: Callable[[], None] = lambda: None,
    incarnation: Incarnation | None = None,
) -> Occupant | None:
    """Return who is there, None when nobody is; that takes 6 s at most of who is reached."""
    with contextlib.suppress(OSError, TimeoutError, UnicodeError, ValueError):
        line = await greeting(host, port, on_connect)
        waiting = _WAITING.fullmatch(line)
        if waiting is None:
            return Occupant(None, *await _ask(settings, host, port, incarnation))
        lot, cluster, digest = (word.decode() for word in waiting.groups(b""))
        # An address that was a member's of this cluster may be one of another name meanwhile.
        return Occupant(lot, cluster) if digest in {"", _digest(settings)} else None
    return None


async def connection(
    host: str, port: int, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to there.

    Raises:
        OSError: nobody is there.
        TimeoutError: nobody took it in time. Names may take longer to look up, and are not given
            up: each look would leave a thread behind.
        UnicodeError: there is no such name.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failed: OSError = ConnectionRefusedError()
    for address in dict.fromkeys(str(each[4][0]) for each in found):
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(
                    address, port, ssl=tls, server_hostname=host if tls else None
                )
        except OSError as error:  # one that takes too long, too
            failed = error
    raise failed


async def has_member(host: str, port: int) -> bool:
    """Return whether a member or its server is there."""
    with contextlib.suppress(OSError, TimeoutError, UnicodeError, ValueError):
        await greeting(host, port)
        return True
    return False


async def greeting(host: str, port: int, on_connect: Callable[[], None] = lambda: None) -> bytes:
    """Return the first line, empty when nothing is said.

    Raises:
        OSError: nobody is there, or something between the members took the connection.
        TimeoutError: the same.
    """
    reader, writer = await connection(host, port)
    on_connect()
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


async def _ask(
    settings: ClusterSettings, host: str, port: int, incarnation: Incarnation | None
) -> tuple[str | None, Incarnation | None]:
    """Return what the member of the server there tells: the id of its cluster, and a twin."""
    for _ in range(_TRIES):
        try:
            said = await _ask_server(settings, host, port, incarnation)
        except TimeoutError:
            continue
        except (OSError, EOFError, ValueError):
            break  # it does not take this member, or just ended
        cluster, _, twin = said.partition("\n")
        return cluster, decode_incarnation(twin.encode())
    return None, None


async def _ask_server(
    settings: ClusterSettings, host: str, port: int, incarnation: Incarnation | None
) -> str:
    inbox = f"_INBOX.{secrets.token_hex(_NAME_BYTES)}"
    question = _question(inbox, b"" if incarnation is None else incarnation.payload)
    async with (
        as_server(settings, host, port, question) as hear,
        asyncio.timeout(PROBED_MEMBER_ANSWER_S),
    ):
        while True:
            kind, fields, payload = await hear()
            if kind in _MESSAGES and fields[1] == inbox.encode():
                return payload.decode()


async def send_message(
    settings: ClusterSettings, host: str, port: int, subject: bytes, payload: bytes
) -> None:
    """Let the member of the server there have a message, if there is one that takes it."""
    said = b"RMSG %b %b %d\r\n%b\r\nPING\r\n" % (
        *(ACCOUNT.encode(), subject, len(payload)),
        payload,
    )
    with contextlib.suppress(OSError, TimeoutError, EOFError, ValueError):
        async with (
            as_server(settings, host, port, said) as hear,
            asyncio.timeout(PROBED_MEMBER_ANSWER_S),
        ):
            while (await hear()).kind != b"PONG":
                pass


@contextlib.asynccontextmanager
async def as_server(
    settings: ClusterSettings, host: str, port: int, lines: bytes = b""
) -> AsyncIterator[Callable[[], Awaitable[ServerLine]]]:
    """Be connected to a server there as another one that says lines; what comes returns its next.

    Raises:
        OSError: nobody is there, or it does not take this member.
        TimeoutError: nobody took the connection in time.
        EOFError: it has hung up, as hearing tells.
    """
    tls = None if settings.tls is None else await asyncio.to_thread(_tls, settings)
    reader, writer = await connection(host, port, tls)
    try:
        writer.write(_introduction(settings) + lines)
        yield partial(_read_line, reader, writer)
    finally:
        writer.close()


async def _read_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> ServerLine:
    try:
        kind, *fields = (await reader.readuntil(b"\r\n")).split() or [b""]
    except asyncio.LimitOverrunError:
        raise ValueError("it is no server that says so much in a line") from None
    payload = b""
    if kind == b"PING":
        writer.write(b"PONG\r\n")
    if kind in _MESSAGES:
        size = int(fields[-1]) if fields else -1
        if not 0 <= size <= MAX_LINES_BYTES:
            raise ValueError("it is no server that says so much")
        payload = await reader.readexactly(size + len(b"\r\n"))
    return ServerLine(kind, fields, payload.removesuffix(b"\r\n"))


def _question(inbox: str, incarnation: bytes) -> bytes:
    """Return what asks the member of a server for the id of its cluster."""
    lines = (
        f"RS+ {ACCOUNT} {inbox}\r\nRMSG {ACCOUNT} {SUBJECT.decode()} {inbox} {len(incarnation)}\r\n"
    )
    return lines.encode() + incarnation + b"\r\nPING\r\n"


def _introduction(settings: ClusterSettings) -> bytes:
    """Return what a server says that joins another one."""
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
    return f"CONNECT {json.dumps(connect)}\r\nINFO {json.dumps(info)}\r\n".encode()


def _digest(settings: ClusterSettings) -> str:
    """Return what tells clusters of other names and users, and nothing to guess a password with."""
    said = "\0".join(("grid waits 1", settings.cluster_name, settings.user)).encode()
    return hashlib.sha256(said).hexdigest()[:_DIGEST_CHARACTERS]


def _tls(settings: ClusterSettings) -> ssl.SSLContext:
    tls = settings.tls
    context = ssl.create_default_context(cafile=None if tls is None else tls.ca_file)
    if tls is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    return context
