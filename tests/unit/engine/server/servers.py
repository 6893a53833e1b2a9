"""Real nats-servers of a few members of one test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

from grid_member.engine.bootstrap.identity import open_identity
from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.nats.client.client import NatsClient
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.server.config import USER
from grid_member.engine.server.process import NatsServer
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from grid_member.engine.nats.client.wire import Message

HOST = "127.0.0.1"
PATIENCE_S = 30.0


def settings(
    port: int,
    ports: Sequence[int] | None = None,
    *,
    name: str = "m",
    password: str = "pw",
    lite: bool = False,
    directory: Path | None = None,
    server: Path | None = None,
) -> ClusterSettings:
    members = tuple((HOST, each) for each in ports or [port])
    return ClusterSettings("dev", name, port, members, "grid", password,
                           host=HOST, lite=lite, directory=directory, server=server)  # fmt: skip


def server_of(member: ClusterSettings) -> NatsServer:
    identity = open_identity(None, cluster_name=member.cluster_name, member_name=member.member_name)
    return NatsServer(member, identity.identity)


@contextlib.asynccontextmanager
async def started(*members: ClusterSettings) -> AsyncIterator[list[NatsServer]]:
    """Servers of members that start at the same moment."""
    servers = [server_of(member) for member in members]
    try:
        await asyncio.gather(*(server.start() for server in servers))
        yield servers
    finally:
        await asyncio.gather(*(server.stop() for server in servers))


@contextlib.asynccontextmanager
async def client_of(server: NatsServer, user: str = USER) -> AsyncIterator[NatsClient]:
    client = NatsClient(
        lambda: server.client_address, user, server.token, "test", max_payload_bytes=9 << 20
    )
    client.start()
    try:
        await client.wait_connected(PATIENCE_S)
        yield client
    finally:
        await client.close()


async def asked(client: NatsClient, subject: str) -> dict[str, Any] | None:
    """Return the answer of a call, None when there is none or it is an error."""
    try:
        answer = json.loads((await client.request(subject.encode(), timeout_s=0.5)).payload)
    except NatsError:
        return None
    found: dict[str, Any] = answer
    return None if "error" in found else found


async def all_servers(client: NatsClient, enough: int) -> set[str]:
    """Return the names of the servers that answer, as soon as there are enough."""
    names: set[str] = set()

    def take(messages: Sequence[Message]) -> None:
        names.update(json.loads(message.payload)["server"]["name"] for message in messages)

    inbox = client.unused_inbox()
    asked_for = client.subscribe(inbox, take)
    until = time.monotonic() + PATIENCE_S
    while len(names) < enough and time.monotonic() < until:
        client.publish(b"$SYS.REQ.SERVER.PING", b"", inbox)
        await asyncio.sleep(0.05)
    asked_for.unsubscribe()
    return names


async def formed(servers: Sequence[NatsServer]) -> None:
    """Wait until the interface for streams answers at every server."""
    for server in servers:
        async with client_of(server) as client:
            await eventually(lambda client=client: asked(client, "$JS.API.INFO"))  # type: ignore[misc]


def lives(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process_id}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
