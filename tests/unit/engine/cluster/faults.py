"""What befalls the servers of a cluster in one event loop, and clients of its engines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import TYPE_CHECKING

from grid_member.engine.api import EngineError, Refused
from grid_member.engine.lost_memory.own_copies import has_complete_copies
from grid_member.engine.nats.admin.peers import peer_id, peers, unsettled_groups
from grid_member.engine.nats.admin.streams import copies_of
from grid_member.engine.nats.client.blocking import BlockingClient
from grid_member.engine.nats.client.errors import NatsError
from tests.unit.engine.cluster.checker import NOTHING, Span
from tests.unit.engine.drive import condition
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_member.engine.replicated.replicated_shards import ReplicatedShards
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


async def servers_settled(cluster: Cluster) -> None:
    """Return when any one server may freeze or be cut off: the others are a quorum of every log.

    A server that was killed has lost what it had in memory. Its member first starts it without
    streams, then ends it and starts it with streams. From then on the process is there, but the
    server's vote counts in a log's group only once the server has a part of that log. Until then
    the two other servers are the only quorum of three. A log that lost more is written back, which
    waits for the reports of all members: a member behind a frozen server does not report.
    """

    async def settled() -> bool:
        with contextlib.suppress(NatsError, EngineError):  # a server is being started
            members = [engine._cluster for engine in cluster.engines]
            return all([one.settings.lite or await _is_settled(one) for one in members])
        return False

    await eventually(settled)


async def _is_settled(shards: ReplicatedShards) -> bool:
    """Tell whether a member's server holds all that it should, and its votes count."""
    name, server = shards.server_name, shards._server
    if name is None or server is None or server.held_back._held or server.process_id is None:
        return False
    streams = [stream.name for stream in shards.all_streams]
    copies = [await copies_of(shards.client, stream) for stream in streams]
    voting = await peers(shards.system)
    groups = frozenset(one.group for one in copies)
    held = frozenset(one.group for one in copies if peer_id(name) in one.servers)
    return (
        not shards.memory._logs.left
        and not voting.silent
        and all(len(one.current) == one.wanted for one in copies)
        and await has_complete_copies(shards.client, shards.system, name, streams)
        and not await unsettled_groups(shards.system, name, groups, voting.ids, held)
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
