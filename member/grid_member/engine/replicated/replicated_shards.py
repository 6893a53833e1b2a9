"""The shards of one of several members: each over a stream of the members' nats-servers.

A lite member has the first shard only, and that one without data. One of more than five has the
first one and the one in memory until it is known whether it is to have the others.

    begin():  identity ▶ own server ▶ connection ▶ streams ▶ replay ▶ shards

A begin waits for as long as it takes until enough members are there, and tells why it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from grid_member.engine.api import EngineError, NotYetError
from grid_member.engine.bootstrap.cluster_id import fix_cluster_id
from grid_member.engine.bootstrap.footing import Footing
from grid_member.engine.bootstrap.identity import open_identity
from grid_member.engine.bootstrap.quorum_of_one import QuorumOfOne
from grid_member.engine.bootstrap.wait_reasons import ABSENT, NO_LEADER, WaitReasons
from grid_member.engine.integrity.damage import Damage
from grid_member.engine.integrity.disk_alarms import DiskAlarms
from grid_member.engine.io.ending import do_unless_ended
from grid_member.engine.jetstream.replay import ReplaySource
from grid_member.engine.local.system import ignore
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.lost_memory.empty_logs import EmptyLogs
from grid_member.engine.lost_memory.recovery import LostMemory
from grid_member.engine.nats.admin.peer_removal import delete_streams, take_off_lost
from grid_member.engine.nats.admin.peers import count_voting
from grid_member.engine.nats.admin.streams import NoStreamError, Stream, shard_streams
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replicated.full_replicas import initial_shards
from grid_member.engine.replicated.import_backup import BackupImport
from grid_member.engine.replicated.making import new_shard
from grid_member.engine.replicated.own_server import (
    await_begin,
    await_connection,
    check_counted,
    connect_trusted,
    connection_to,
    take_off,
)
from grid_member.engine.replicated.streams import Streams
from grid_member.engine.replication import NOTHING_TO_RESCUE
from grid_member.engine.server.config import SYSTEM_USER, USER
from grid_member.engine.server.process import NatsServer
from grid_member.engine.shard.shards import Shards, tree_bytes
from grid_member.engine.state.sharding import shard_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.bootstrap.identity import OpenIdentity
    from grid_member.engine.cluster_settings import ClusterSettings
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.replicated.replicated_shard import ReplicatedShard
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.machine import State

CLUSTER_SHARDS: Final = 3
"""Streams of durable structures: the death of one leader does not stop all."""
TAKE_BACK_S: Final = 3.0
"""How long a begin that is given up tries to take its server off those that count."""
_log: Final = logging.getLogger("grid.engine.nats")


class ReplicatedShards(Shards):
    """The shards of a member of a cluster; none before `begin` is over."""

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
            shards: shards for structures that are kept; the same on all members, for ever.
            time_of: makes a record's time of the streams'; tests turn the clock with it.
        """
        # `begin` makes the shards: neither a clock nor logs in files are needed for them.
        super().__init__(None, shards, wall_clock_ms)
        self.waiting: str | None = None
        """Why the begin is not over yet."""
        self.system_changed: Callable[[set[str]], None] = ignore
        """Is told which values of the system store a batch changed."""
        self.volatile_changed: Callable[[set[str]], None] = ignore
        """Is told which of those of the shard in memory a batch changed."""
        self.lost_servers: set[str] = set()
        """Servers that a rescue took off."""
        self.wait_reasons = WaitReasons(settings)
        """Who of the list is there, while the begin is not over."""
        self.stalled = False
        """Whether the begin is over, and nobody confirms that the shards are current."""
        self.delay: str | None = None
        """Why that is so, when it is not for want of a majority."""
        self.disk_alarms = DiskAlarms(settings, self._own_trouble)
        """What keeps servers of other members from storing."""
        of_server = {"alone": settings.alone, "lite": settings.lite}
        self.damage = Damage(lambda: self.all_streams, settings.directory, **of_server)
        """What disks have lost."""
        self.memory = LostMemory(settings)
        self.stuck: Callable[[], str | None] = lambda: None
        """Returns which streams wait for servers that are gone, and what to do."""
        self._quorum_of_one = QuorumOfOne(settings)
        self.footing = Footing(settings)
        """What this process is the member by."""
        self._rescuing, self._wipes, self._wiping = asyncio.Lock(), 0, False
        """`_wiping`: all was to be deleted, and that could not be ended in time."""
        self.leaving = False
        """Whether the member leaves for good, so that nothing is to come from its own server."""
        self.settings = settings
        """How the member finds the others."""
        self.time_of = time_of
        """Makes a record's time of the streams'."""
        self._identity: OpenIdentity | None = None
        self._cluster = ""
        """The id of its cluster, also while the member leaves it."""
        self._server: NatsServer | None = None
        self._client = self._system = cast("NatsClient | None", None)
        self._refused = False
        """Whether the own server was removed before, and must not count again."""
        self.ending, self._make = asyncio.Event(), cast("Callable[..., ReplicatedShard]", new_shard)
        self.joining: list[ReplicatedShard] = []
        """Shards that were read last and that it may not have yet."""

    @property
    def whole(self) -> bool:
        """Whether this member has all shards, with their data."""
        return len(self.durable) == self._shards and not self.settings.lite

    def durable_of(self, name: str) -> Shard:
        """Return the durable shard of a structure; raises IndexError when it is not here."""
        return self.durable[shard_of(name, self._shards)]

    def missing(self, *, empty: bool = False) -> list[Callable[[], ReplicatedShard]]:
        """Return what makes each of the shards that this member does not have.

        Args:
            empty: without the data that is in them.
        """
        numbered = list(enumerate(self.streams[: self._shards]))[len(self.durable) :]
        return [partial(self._make, shard, stream, empty=empty) for shard, stream in numbered]

    def forget_missing(self) -> None:
        """Look no more after the logs of shards that this member does not have any more."""
        for stream in self.streams[len(self.durable) : self._shards]:
            self.damage.forget(stream)
            self.memory.forget(stream)

    @property
    def streams(self) -> list[Stream]:
        """The streams of the shards, in their order."""
        return shard_streams(self._shards, durable=self.settings.directory is not None)

    @property
    def all_streams(self) -> list[Stream]:
        """The streams of the shards, and those of their snapshots."""
        return [*self.streams, *(stream.snapshots for stream in self.streams)]

    @property
    def replicated_shards(self) -> list[ReplicatedShard]:
        """All shards, as what they are."""
        return cast("list[ReplicatedShard]", self.all)

    @property
    def client(self) -> NatsClient:
        """The connection to the member's own server, once there is one."""
        return await_begin(self._client)

    @property
    def system(self) -> NatsClient:
        """The connection that servers report to, once there is one."""
        return await_begin(self._system)

    @property
    def server_name(self) -> str | None:
        """The name of the member's own server, once it has one."""
        return None if self._identity is None else self._identity.identity.server_name

    @property
    def trouble(self) -> str | None:
        """What keeps servers from storing, and what to do; None: nothing is known."""
        known = self._own_trouble(), self.disk_alarms.of_others, self.damage.unreadable_log
        return next(filter(None, (*known, self.memory.report)), None) or self.stuck()

    def _own_trouble(self) -> str | None:
        return None if self._server is None else self._server.full

    @property
    def ended(self) -> bool:
        """Whether a begin is to be given up."""
        return self.ending.is_set()

    def end_waiting(self) -> None:
        """End a begin that is not over yet."""
        self.ending.set()

    async def rescue(self, *, wipe: bool) -> None:
        """Let a begin that waits go on with the members that are there: the others are lost.

        Args:
            wipe: whether to delete what is stored, too.

        Raises:
            EngineError: it cannot be done.
        """
        await do_unless_ended(self.ending, self._rescue(wipe=wipe))

    async def begin(self, on_arrival: Callable[[Shard, set[str]], None]) -> None:
        """Join the others and replay the logs; wait for them for as long as it takes.

        Raises:
            EngineError: the directory, the nats-server or the data cannot be used, or the member is
                to stop.
        """
        try:
            async with self.wait_reasons:
                await do_unless_ended(self.ending, self._join(on_arrival))
            self._quorum_of_one.note_start()
        except BaseException:
            await self.abandon()
            self.footing.refuse()
            raise

    async def close(self) -> None:
        """Close the shards, leave the others and stop the server, whatever one of them raises."""
        identity, server = self._identity, self._server
        clients = [client for client in (self._client, self._system) if client is not None]
        self._identity = self._server = self._client = self._system = None
        async with contextlib.AsyncExitStack() as last_first:
            if identity is not None:
                last_first.callback(identity.close)
            if server is not None:
                last_first.push_async_callback(server.stop)
            for client in clients:
                last_first.push_async_callback(client.close)
            last_first.push_async_callback(self.disk_alarms.end)
            last_first.push_async_callback(self.damage.end)
            last_first.push_async_callback(self.memory.end)
            last_first.push_async_callback(self._quorum_of_one.end)
            last_first.push_async_callback(self.footing.end)
            shards = (shard.close() for shard in self.all)
            for error in filter(None, await asyncio.gather(*shards, return_exceptions=True)):
                raise error

    async def abandon(self) -> None:
        """Close everything after a start that failed."""
        with contextlib.suppress(NatsError, EngineError, TimeoutError):
            system, name, settings = self._system, self.server_name, self.settings
            # A server that comes back goes on counting, and one that was refused must not again.
            returns = settings.lite or (settings.directory is not None and not self._refused)
            if system is not None and name is not None and not returns:
                await asyncio.wait_for(take_off(system, name), TAKE_BACK_S)
        await super().abandon()

    def disk_bytes(self) -> int | None:
        """Return what the member's server keeps on disk, None without a directory."""
        directory = self.settings.directory
        return None if directory is None else tree_bytes(directory)

    async def _join(self, on_arrival: Callable[[Shard, set[str]], None]) -> None:
        settings = self.settings
        self._identity = await asyncio.to_thread(
            open_identity,
            settings.directory,
            cluster_name=settings.cluster_name,
            member_name=settings.member_name,
        )
        identity = self._identity.identity
        self.member, self._cluster = identity.uuid, identity.cluster
        self.waiting = ABSENT
        await self.damage.watermarks.prepare(identity)  # by what the server has before it begins
        incarnation = self.footing.begin(identity, self._end_member)
        footing = self.footing.note_end, self.footing.is_gone
        self._server = server = NatsServer(
            settings, identity, self._wait_for, incarnation, *footing
        )
        server.held_back.allowed = self.memory.holding
        await server.start()
        self._client = client = connection_to(server, settings, USER, self._on_connection)
        self.wait_reasons.watch_clusters(client, lambda: server.apart)
        self.footing.listen(client, lambda: self._cluster)
        self.disk_alarms.begin(client)
        self._system = system = connection_to(server, settings, SYSTEM_USER)
        self.damage.begin(system, identity, lambda: bool(self.waiting or self.stalled))
        self.memory.begin(client, system, identity.server_name)
        await await_connection(client, server, self._wait_for)
        if not settings.lite:
            self._quorum_of_one.begin(system, identity.server_name)
        streams = self.streams[: self._shards]
        importing = BackupImport(client, settings, str(self.member), streams, self._wait_for)
        await importing.begin()
        wipes = -1
        while self.waiting is not None:
            async with self._rescuing:
                if wipes == self._wipes:
                    self.check_own(self.durable[0].state)
                    self.waiting = None
                    break
                wipes = self._wipes
            await self._begin(client, server, importing, on_arrival)

    def _end_member(self, error: EngineError) -> None:
        """End all that this process does as the member, as another process is the member."""
        self.ending.set()
        if self._server is not None:
            self._server.kill()
        for shard in self.replicated_shards:
            shard.fail(error)

    async def _rescue(self, *, wipe: bool) -> None:
        # Whoever asks for this says that those who are there are its own.
        client, system = await connect_trusted(
            lambda: self._server, lambda: (self._client, self._system)
        )
        self._quorum_of_one.ask()  # they may be one only
        names, size = [stream.name for stream in self.all_streams], len(self.settings.members)
        begun = wipe and self._wiping
        try:
            await take_off_lost(
                system, client, names, size, self.lost_servers, wipe=wipe, begun=begun
            )
            if wipe:
                async with self._rescuing:
                    if self.waiting is None:
                        raise EngineError(NOTHING_TO_RESCUE)  # it has just begun to serve
                    self._wipes += 1
                    await delete_streams(client, names)
        except NotYetError:
            self._wiping = wipe
            raise

    async def _begin(
        self,
        client: NatsClient,
        server: NatsServer,
        importing: BackupImport,
        on_arrival: Callable[[Shard, set[str]], None],
    ) -> None:
        """Make the streams and the shards, brought up to what the streams hold."""
        settings = self.settings
        source = ReplaySource(lambda: server.client_address, USER, server.token)
        numbers = initial_shards(settings, self._shards, len(self.streams))
        identity = cast("OpenIdentity", self._identity).identity
        self._make = make = partial(new_shard, self, identity, client, source, on_arrival)
        report = (self._wait_for, partial(count_voting, self.system), self.memory.creation_obstacle)
        lost = self.damage, EmptyLogs(self.system, client, self.server_name, self.streams, settings)
        async with Streams(client, settings, self.streams, *report, *lost) as streams:
            begun_as = None
            while begun_as != (cluster := await self._keep_cluster_id(client, streams)):
                # A rescue may have deleted all that was read so far: it is another cluster then.
                begun_as = cluster
                server.note_join()
                self.origin = await importing.finish(source, streams.await_made)
                shards = await streams.shards(make, numbers)
                await streams.await_made()
        if numbers[-1] == self._shards:
            self.volatile = shards.pop()
        self.durable = list(shards)
        self.only = shards[0] if self._shards == 1 else None

    async def _keep_cluster_id(self, client: NatsClient, streams: Streams) -> str:
        """Keep the id of the cluster with the data, and return it."""
        known = cast("OpenIdentity", self._identity)
        while True:
            first = await streams.await_first()
            with contextlib.suppress(NoStreamError):  # a rescue deleted it since
                found = await fix_cluster_id(
                    client, self.settings, first.name, known, self._wait_for
                )
                self._identity, self._cluster = found, found.identity.cluster
                return self._cluster

    def check_own(self, read: State) -> None:
        """End a start when the cluster's notes, as read, say that the own server was taken off."""
        try:
            check_counted(read, cast("str", self.server_name), self.settings.directory)
        except EngineError:
            self._refused = True
            raise

    def note_changes(self, shard: int, changes: set[str]) -> None:
        """Hear which values of the system store a batch changed in a shard."""
        if shard == 0:
            self.system_changed(changes)
        elif shard == self._shards:
            self.volatile_changed(changes)

    def _on_connection(self, connected: bool) -> None:
        if connected:
            for shard in (*self.replicated_shards, *self.joining):
                shard.reconnect()

    def wait_to_read(self, error: NatsError, *, serves: bool = False) -> None:
        """Tell why shards cannot be read which a member brings in that has begun, or `serves`."""
        reason, former = self.damage.reason(error), self.delay
        self.stalled, self.delay = not serves, None if NO_LEADER in reason else reason
        if self.delay not in {former, None}:
            _log.warning("a part of the data cannot be read yet: %s", reason)

    def _wait_for(self, reason: str) -> None:
        reason = self.wait_reasons.plainly(reason)
        if reason != self.waiting:
            _log.warning("waiting for the other members: %s", reason)
        self.waiting = reason
