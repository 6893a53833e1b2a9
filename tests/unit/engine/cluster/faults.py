"""What befalls the servers of a cluster in one event loop, and clients of its engines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import TYPE_CHECKING

from grid_member.engine.api import Refused
from grid_member.engine.nats.client.blocking import BlockingClient
from tests.unit.engine.cluster.checker import NOTHING, Span
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_member.engine.server.process import NatsServer
    from tests.unit.engine.cluster.clusters import Cluster

ASK_S = 5.0


class EngineClient:
    """Talks to the engines of a cluster as the REST side of their members does."""

    def __init__(self, cluster: Cluster) -> None:
        self._drivers = cluster.drivers
        self.lost_polls: list[Span] = []

    async def put(self, member: int, name: str, key: str, value: str) -> bool | None:
        outcome = await self._drivers[member].put(name, key, value.encode())
        return True if outcome is None else None

    async def get(self, member: int, name: str, key: str) -> str | None:
        outcome = await self._drivers[member].get(name, key)
        if isinstance(outcome, Refused):
            return None
        return NOTHING if outcome is None else outcome.value.decode()

    async def offer(self, member: int, name: str, value: str) -> bool | None:
        outcome = await self._drivers[member].offer(name, value.encode())
        return None if isinstance(outcome, Refused) else outcome

    async def poll(self, member: int, name: str, timeout_s: int) -> str | None:
        driver = self._drivers[member]
        item = await driver.poll(name, timeout_s)
        if isinstance(item, Refused):
            return None
        if item is None:
            return NOTHING
        driver.engine.queue_confirm(item)
        return item.value.decode()


def server_of(cluster: Cluster, member: int) -> NatsServer:
    server = cluster.engines[member]._cluster._server
    assert server is not None
    return server


def pid_of(cluster: Cluster, member: int) -> int:
    pid = server_of(cluster, member).process_id
    assert pid is not None
    return pid


async def kill_servers(cluster: Cluster, *members: int) -> None:
    """End servers as crashes would, all at once; return when there are others.

    A member may just be starting its server, as it had held the former one back.
    """
    servers = [server_of(cluster, member) for member in members]
    await condition(lambda: all(one.process_id is not None for one in servers))
    former = [pid_of(cluster, member) for member in members]
    for pid in former:
        with contextlib.suppress(ProcessLookupError):  # its member was as fast
            os.kill(pid, signal.SIGKILL)
    await condition(lambda: all(one.process_id not in {None, *former} for one in servers))


async def servers_released(cluster: Cluster) -> None:
    """Return when no server is held back and each runs: a member ends the one it held back.

    Between that one and the next, which keeps streams, the member has no server.
    """
    servers = [server_of(cluster, member) for member in range(cluster.size)]
    await condition(
        lambda: not any(one.held_back._held or one.process_id is None for one in servers)
    )


@contextlib.contextmanager
def stopped_server(cluster: Cluster, member: int) -> Iterator[float]:
    """Let a server do nothing; give the time when that began."""
    pid = pid_of(cluster, member)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield time.monotonic()
    finally:
        os.kill(pid, signal.SIGCONT)


def first_held(cluster: Cluster, member: int, stream: str, address: tuple[str, int]) -> int:
    """Return the first sequence of a stream in the own copy of a member's server; 0: unknown."""
    server = server_of(cluster, member)
    with BlockingClient(address, "sys", server.token, ASK_S) as client:
        request = json.dumps({"accounts": True, "streams": True}).encode()
        answer = json.loads(client.request(b"$SYS.REQ.SERVER.PING.JSZ", request).payload)
    if answer["server"]["name"] != cluster.engines[member].server_name:
        return 0
    accounts = answer["data"].get("account_details") or []
    streams = [one for account in accounts for one in account.get("stream_detail") or []]
    return next((one["state"]["first_seq"] for one in streams if one["name"] == stream), 0)


def meta_leader(cluster: Cluster) -> int:
    """Return the member whose server leads the servers.

    Raises:
        ValueError: nobody leads them, or the server that is asked is being started.
    """
    server = server_of(cluster, 0)
    if server.client_address is None:
        raise ValueError("the server is being started")
    with BlockingClient(server.client_address, "sys", server.token, ASK_S) as client:
        answer = json.loads(client.request(b"$SYS.REQ.SERVER.PING.JSZ", b"").payload)
    names = [engine.server_name for engine in cluster.engines]
    return names.index(answer["data"]["meta_cluster"]["leader"])
