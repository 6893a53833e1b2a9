"""The lanes of one of several members: each over a stream of the members' nats-servers.

    begin():  identity ▶ own server ▶ connection ▶ streams ▶ replay ▶ lanes

A begin waits for as long as it takes until enough members are there, and tells why it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, cast

from grid_member.engine.api import EngineError
from grid_member.engine.cluster_lane import ClusterLane
from grid_member.engine.lanes import Lanes
from grid_member.engine.lmdb_log import LmdbLog
from grid_member.engine.log import wall_clock_ms
from grid_member.engine.nats.client import NatsClient
from grid_member.engine.nats.errors import NatsError
from grid_member.engine.nats.identity import open_identity
from grid_member.engine.nats.log import JetStreamLog
from grid_member.engine.nats.peers import peers
from grid_member.engine.nats.replay import Source
from grid_member.engine.nats.server import NatsServer
from grid_member.engine.nats.server_config import SYSTEM_USER, USER
from grid_member.engine.nats.streams import Copies, Stream, copies_of, ensure_stream
from grid_member.engine.replication import NOT_REPLICATED, Replication
from grid_member.engine.system_side import ignore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.lane import Lane
    from grid_member.engine.nats.identity import OpenIdentity

CLUSTER_SHARDS: Final = 3
"""Streams of durable structures: the death of one leader does not stop all."""
CONNECT_S: Final = 1.0
"""How long a look at the connection to the own server waits."""
CONNECT_RETRY_S: Final = 0.05
RETRY_S: Final = 0.5
LOOK_S: Final = 1.0
"""How often the copies of the streams are looked at."""
INCARNATION_BITS: Final = 20
"""Lives that a member may begin anew within one start."""
_STOPPING: Final = "the member is stopping"
_log: Final = logging.getLogger("grid.engine.nats")


class ClusterLanes(Lanes):
    """The lanes of a member of a cluster; none before `begin` is over."""

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        shards: int = CLUSTER_SHARDS,
        time_of: Callable[[int], int] = int,
    ) -> None:
        """Begin nothing yet.

        Args:
            settings: how the member finds the others.
            shards: lanes for structures that are kept; the same on all members, for ever.
            time_of: makes a record's time of the streams'; tests turn the clock with it.
        """
        # `begin` makes the lanes: neither a clock nor logs in files are needed for them.
        super().__init__(None, shards, wall_clock_ms, LmdbLog)
        self.waiting: str | None = None
        """Why the begin is not over yet."""
        self.replication: Replication = NOT_REPLICATED
        self.system_changed: Callable[[set[str]], None] = ignore
        """Is told which values of the system store a batch changed."""
        self._settings = settings
        self._time_of = time_of
        self._identity: OpenIdentity | None = None
        self._server: NatsServer | None = None
        self._client: NatsClient | None = None
        self._system: NatsClient | None = None
        self._looking: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @property
    def streams(self) -> list[Stream]:
        """The streams of the lanes, in their order."""
        durable = self._settings.directory is not None
        streams = [Stream(f"shard-{shard}", durable) for shard in range(self._shards)]
        return [*streams, Stream("volatile", durable=False)] if durable else streams

    @property
    def all_streams(self) -> list[Stream]:
        """The streams of the lanes, and those of their images."""
        streams = self.streams
        return [*streams, *(stream.images for stream in streams)]

    @property
    def cluster_lanes(self) -> list[ClusterLane]:
        """All lanes, as what they are."""
        return cast("list[ClusterLane]", self.all)

    @property
    def client(self) -> NatsClient:
        """The connection to the member's own server, once there is one."""
        if self._client is None:
            raise EngineError("the member has not begun to join the others")
        return self._client

    @property
    def system(self) -> NatsClient:
        """The connection that servers report to, once there is one."""
        if self._system is None:
            raise EngineError("the member has not begun to join the others")
        return self._system

    @property
    def settings(self) -> ClusterSettings:
        """How the member finds the others."""
        return self._settings

    @property
    def server_name(self) -> str | None:
        """The name of the member's own server, once it has one."""
        return None if self._identity is None else self._identity.identity.server_name

    @property
    def ended(self) -> bool:
        """Whether a begin is to be given up."""
        return self._ending.is_set()

    def end_waiting(self) -> None:
        """End a begin that is not over yet."""
        self._ending.set()

    async def begin(self, arrived: Callable[[Lane, set[str]], None]) -> None:
        """Join the others and replay the logs; wait for them for as long as it takes.

        Raises:
            EngineError: the directory, the nats-server or the data cannot be used, or the member is
                to stop.
        """
        joining = asyncio.ensure_future(self._join(arrived))
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({joining, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not joining.done():
                raise EngineError(_STOPPING)
            joining.result()
        except BaseException:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
            await self.abandon()
            raise
        finally:
            ending.cancel()

    async def close(self) -> None:
        """Close the lanes, then leave the others and stop the server."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        for lane in self.all:
            await lane.close()
        clients = [self._client, self._system]
        self._client = self._system = None
        for client in clients:
            if client is not None:
                await client.close()
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
        identity, self._identity = self._identity, None
        if identity is not None:
            identity.close()

    def disk_bytes(self) -> int | None:
        """Return what the member's server keeps on disk, None without a directory."""
        if self._settings.directory is None:
            return None
        return _tree_bytes(self._settings.directory)

    async def _join(self, arrived: Callable[[Lane, set[str]], None]) -> None:
        settings = self._settings
        self._identity = await asyncio.to_thread(
            open_identity,
            settings.directory,
            cluster_name=settings.cluster_name,
            member_name=settings.member_name,
        )
        identity = self._identity.identity
        self.member = identity.uuid
        self._server = server = NatsServer(settings, identity)
        self.waiting = "the other members are not there yet"
        await server.start()
        self._client = client = self._connection_to(server, USER, self._connected)
        self._system = self._connection_to(server, SYSTEM_USER)
        await self._connection(client, server)
        for stream in self.all_streams:
            await ensure_stream(
                client, stream, settings.copies, settings.cluster_name, self._wait_for
            )
        await self._replayed(client, server, arrived)
        self.waiting = None
        self._looking = asyncio.get_running_loop().create_task(self._look(client))

    def _connection_to(
        self, server: NatsServer, user: str, changed: Callable[[bool], None] | None = None
    ) -> NatsClient:
        client = NatsClient(
            lambda: server.client_address,
            user,
            server.token,
            self._settings.member_name,
            max_payload_bytes=self._settings.max_payload_bytes,
            changed=changed,
        )
        client.start()
        return client

    async def _connection(self, client: NatsClient, server: NatsServer) -> None:
        while True:
            try:
                await client.wait_connected(CONNECT_S)
            except NatsError as error:
                self._wait_for(server.failure or str(error))
                await asyncio.sleep(CONNECT_RETRY_S)
            else:
                return

    async def _replayed(
        self, client: NatsClient, server: NatsServer, arrived: Callable[[Lane, set[str]], None]
    ) -> None:
        """Make the lanes and bring them up to what the streams hold."""
        source = Source(lambda: server.client_address, USER, server.token)
        while True:
            lanes = [
                self._made(client, source, stream, shard, arrived)
                for shard, stream in enumerate(self.streams)
            ]
            try:
                for lane in lanes:
                    await asyncio.to_thread(lane.replay)
            except NatsError as error:
                self._wait_for(str(error))
                await asyncio.sleep(RETRY_S)
                continue
            break
        if self._settings.directory is not None:
            self.volatile = lanes.pop()
        self.durable = list(lanes)
        self.only = self.durable[0] if len(lanes) == 1 else None

    def _made(
        self,
        client: NatsClient,
        source: Source,
        stream: Stream,
        shard: int,
        arrived: Callable[[Lane, set[str]], None],
    ) -> ClusterLane:
        identity = cast("OpenIdentity", self._identity).identity
        alone = len(self._settings.members) == 1 or self._settings.lite
        log = JetStreamLog(
            client,
            stream.name,
            shard,
            self.member.bytes,
            source=source,
            own_server=lambda: None if alone else identity.server_name,
            time_of=self._time_of,
        )
        return ClusterLane(
            log,
            self.member.bytes,
            identity.incarnation << INCARNATION_BITS,
            arrived,
            (lambda changes: self.system_changed(changes)) if shard == 0 else ignore,
        )

    def _connected(self, connected: bool) -> None:
        if connected:
            for lane in self.cluster_lanes:
                lane.connected()

    def _wait_for(self, reason: str) -> None:
        if reason != self.waiting:
            _log.warning("waiting for the other members: %s", reason)
        self.waiting = reason

    async def _all_vote(self) -> bool:
        """Tell whether the servers that vote are those of the members, and all are heard of.

        With one that is gone among them the end of one more may be the end of the majority.
        """
        settings = self._settings
        if len(settings.members) == 1:
            return True
        try:
            found = await peers(self.system)
        except NatsError:
            return False
        own = settings.lite or self.server_name in found.names
        return own and not found.silent and len(found.names) <= len(settings.members)

    async def _look(self, client: NatsClient) -> None:
        while True:
            copies: list[Copies] = []
            for stream in self.all_streams:
                with contextlib.suppress(NatsError):
                    copies.append(await copies_of(client, stream))
            wanted = self._settings.copies * len(self.all_streams)
            missing = wanted - sum(one.current for one in copies)
            self.replication = Replication(
                in_contact=all(lane.in_contact for lane in self.cluster_lanes),
                replicas=wanted,
                not_current=missing if await self._all_vote() else max(missing, 1),
                offline=tuple(sorted({name for one in copies for name in one.offline})),
            )
            await asyncio.sleep(LOOK_S)


def _tree_bytes(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_blocks * 512
    return total
