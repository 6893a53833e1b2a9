"""The engine of one of several members: the same state machine over logs that all share.

What a local engine reads at once is read here when the shard is current, so that nobody is ever
shown less than was answered before, by any member.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import ClusterState, EngineError
from grid_member.engine.bootstrap.wait_reasons import majority_wait
from grid_member.engine.forward.server import ForwardServer
from grid_member.engine.local.engine import LocalEngine
from grid_member.engine.local.maps import MapRead
from grid_member.engine.local.system import ignore, outcome_of
from grid_member.engine.nats.admin.groups import ServerGroups
from grid_member.engine.replicas.departure import Departure
from grid_member.engine.replicas.servers import NoteStore, Servers
from grid_member.engine.replicas.watch import CopyWatch
from grid_member.engine.replicated.agreed_placement import AgreedPlacement, Agreement
from grid_member.engine.replicated.consistent_cut import ConsistentCuts
from grid_member.engine.replicated.polls import ClusterPolls
from grid_member.engine.replication import NOT_REPLICATED, NOTHING_TO_RESCUE, Taker
from grid_member.engine.shard.answers import reader
from grid_member.engine.state.operations import MemberGone, SystemPut, SystemRemove
from grid_member.engine.state.sharding import merge, without_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done, Entry, Structures
    from grid_member.engine.local.polls import QueuePolls
    from grid_member.engine.log.log import Clock
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.replicas.departure import Evacuation
    from grid_member.engine.replicated.replicated_shard import ReplicatedShard
    from grid_member.engine.replicated.replicated_shards import ReplicatedShards
    from grid_member.engine.replication import Colleagues, Replication
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.snapshot import Snapshot
    from grid_member.engine.state.stored import StoredEntry

CURRENT_RETRY_S: Final = 0.2
NOTE_RETRY_S: Final = 0.5
SNAPSHOT_LOOK_S: Final = 1.0
"""How often a shard looks whether its snapshot is to be written, while nothing is written to it."""
_log: Final = logging.getLogger("grid.engine.nats")


class ClusterEngine(LocalEngine):
    """The `Engine` of a member of a cluster."""

    _keeps_ways = False  # shards come and go

    def __init__(self, structures: Structures, shards: ReplicatedShards, clock: Clock) -> None:
        super().__init__(structures, shards, clock)
        self._cluster = shards
        """`_shards`, as what they are here."""
        self._maps = maps = AgreedPlacement(shards, lambda shard: shard.state.maps.by_name)
        self._queues = queues = AgreedPlacement(shards, lambda shard: shard.state.queues.by_name)
        self._agreement = Agreement(shards, maps, queues)
        self._consistent_cuts = ConsistentCuts()
        self._colleagues: Colleagues | None = None
        self._servers: Servers | None = None
        self._watch: CopyWatch | None = None
        self._keeping: list[asyncio.Task[None]] = []
        self._forward_server: ForwardServer | None = None
        """None on a member that holds no data."""
        self.leased_until_s = math.inf
        """Until when the others leave this member what it takes, by `steady_s`."""

    @property
    def waiting(self) -> str | None:
        """Why the start is not over yet; None when nothing is waited for."""
        shards = self._cluster
        waited = shards.wait_reasons.with_absence(shards.waiting)
        if self._stalled:
            nobody = shards.delay or majority_wait(shards.settings, joined=True)
            nobody = shards.damage.beside(nobody)
            return nobody if shards.trouble is None else f"{shards.trouble}; {nobody}"
        known = filter(None, (shards.disk_alarms.of_others, shards.damage.report))
        return None if waited is None else "; ".join([*known, waited])

    @property
    def decided(self) -> bool:
        """Whether it is known by now if the start waits for others, or it is over."""
        shards = self._cluster
        return self._started or shards.waiting is not None or self._stalled or shards.ended

    @property
    def _stalled(self) -> bool:
        """Whether nobody confirms what a start does that has joined the others."""
        answering = all(one.answering for one in self._cluster.replicated_shards)
        return self._cluster.stalled or not (self._started or answering)

    @property
    def ended(self) -> bool:
        """Whether the start is given up, as the member is to stop."""
        return self._cluster.ended

    @property
    def client(self) -> NatsClient:
        """The connection to the member's own server."""
        return self._cluster.client

    @property
    def server_name(self) -> str | None:
        """The name of the member's own server."""
        return self._cluster.server_name

    @property
    def restart_state(self) -> ClusterState:
        """The cluster state without transient changes."""
        return self._system_shard.state.restart_state

    def groups(self) -> ServerGroups:
        """Return the groups of the servers, once the member has joined them."""
        shards, data = self._cluster, tuple(stream.name for stream in self._cluster.streams)
        name, durable = shards.settings.cluster_name, shards.settings.directory is not None
        return ServerGroups(shards.client, shards.system, name, data, durable=durable)

    def end_waiting(self) -> None:
        """End a start that waits for the other members."""
        self._cluster.end_waiting()

    async def rescue(self, *, wipe: bool) -> None:
        """Let a start go on with the members that are there, as the others are gone for good.

        Args:
            wipe: whether to delete what is stored, too.

        Raises:
            EngineError: there is no need for it, or it cannot be done.
        """
        if self._cluster.waiting is None and (wipe or not self._stalled):
            raise EngineError(NOTHING_TO_RESCUE)
        await self._cluster.rescue(wipe=wipe)

    def replication(self) -> Replication:
        """Return how well the data is replicated."""
        if self._watch is None:
            return NOT_REPLICATED
        shards, report = self._cluster, self._watch.replication(self.in_contact)
        report = report._replace(trouble=shards.trouble, twins=shards.footing.conflict)
        return report._replace(answering=self.answering, leased=self.leased)

    async def moving(self) -> bool:
        """Tell whether copies are moved now, by a look at all of them."""
        return self._watch is not None and await self._watch.moving()

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends, in every shard."""
        return all(shard.in_contact for shard in self._cluster.replicated_shards)

    @property
    def answering(self) -> bool:
        """Whether no shard refuses what it is asked, as nothing was confirmed for too long."""
        return all(shard.answering for shard in self._cluster.replicated_shards)

    @property
    def leased(self) -> bool:
        """Whether every shard has held a lease since it refused anything."""
        return not any(shard.leasehold.awaited for shard in self._cluster.replicated_shards)

    def use_structures(self, structures: Structures) -> None:
        """Find settings there from now on; everything stays where all agreed that it is."""
        super().use_structures(structures)
        self._agreement.extend(structures.persistence())

    def set_colleagues(self, colleagues: Colleagues) -> None:
        """Hear of the other members; without them no server is removed."""
        self._colleagues = colleagues

    async def evacuate(self, report: Callable[[Evacuation], None]) -> None:
        """Move this member's copies to the others and leave for good; it can be begun again.

        Args:
            report: hears how far it is and what it waits for.

        Raises:
            EngineError: the member has not started.
        """
        if self._servers is None:
            raise EngineError("the engine has not started: there is nothing to move yet")
        shards = self._cluster
        try:
            shards.leaving = True
            if not shards.settings.lite:
                await Departure(self._servers, self._steady).evacuate(report)
        except BaseException:
            shards.leaving = False  # for all that is known it stays
            raise

    def watch_system(self, on_change: Callable[[set[str]], None]) -> None:
        """Tell changed which keys of the system store a batch changed, whoever did it."""
        self._cluster.system_changed = on_change

    async def current(self) -> bool:
        """Wait until everything is applied here that was answered before, on any member.

        False when no quorum tells in time.
        """
        if self._refusal is not None:
            return False
        return await outcome_of(self._system_shard.read_when_current) is None

    async def moment(self) -> list[Snapshot]:
        """Return one snapshot of all that is kept, of one moment on all members.

        Raises:
            EngineError: that could not be had.
        """
        whole = merge(await self._consistent_cuts.take())
        return [without_values(whole, self._cluster.settings.leftovers)]

    def takers(self) -> set[Taker]:
        """Return the incarnations of other members that have items in flight, as known here."""
        own = self._cluster.member.bytes
        return {
            Taker(shard.shard, str(uuid.UUID(bytes=member)), incarnation)
            for shard in self._cluster.replicated_shards
            for member, incarnation in shard.state.takers().items()
            if member != own
        }

    def end_incarnation(self, taker: Taker) -> None:
        """Give back what was taken in that incarnation, and not in later ones."""
        end = MemberGone(uuid.UUID(taker.member).bytes, taker.incarnation)
        for shard in self._cluster.replicated_shards if self._refusal is None else ():
            if shard.shard == taker.shard:
                shard.propose(end, ignore, 0, always=True)

    def lease(self, until_s: float, *, ended: bool) -> None:
        """Hear until when the others leave this member what it takes out of queues.

        Args:
            until_s: by `steady_s`; -inf before there is a lease.
            ended: whether there was one that they ended, so that they may be ending incarnations.
        """
        self.leased_until_s = until_s
        if self._loop is not None:
            # Later than the outcomes of this batch: an incarnation does not end among them.
            self._loop.call_soon(self._lease, until_s, ended)

    # Reads

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""
        settings = self._structures.map_settings(name)
        if settings is None or self._refusal is not None:
            self.map_read(name, key, done)  # which tells why not
            return
        shard = self._replicated_shard(self._maps.shard(name, settings.persistent))
        shard.read_when_current(MapRead(self, name, key, done))

    def map_peek(self, name: str, key: str) -> StoredEntry | None:
        """Return None: nothing can be had at once."""
        return None

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""
        settings = self._structures.queue_settings(name)
        if settings is None or self._refusal is not None:
            super().queue_size(name, done)
            return
        shard = self._replicated_shard(self._queues.shard(name, settings.persistent))
        shard.read_when_current(reader(partial(super().queue_size, name), done))

    # Inside

    def _lease(self, until_s: float, ended: bool) -> None:
        held = all(shard.leasehold.holds for shard in self._cluster.replicated_shards)
        for shard in self._cluster.replicated_shards:
            shard.lease(until_s, ended=ended)
        if not held:
            self._serve_polls()

    @property
    def _system_shard(self) -> ReplicatedShard:
        return self._cluster.replicated_shards[0]

    def now_of(self, shard: Shard) -> int:
        """Return the time that a shard's values live by: the log's, as members' clocks differ."""
        silence_s = time.monotonic() - self._replicated_shard(shard).heard_s
        return shard.state.timestamp_ms + int(silence_s * 1000)

    def _replicated_shard(self, shard: Shard) -> ReplicatedShard:
        return shard  # type: ignore[return-value]  # all shards of these shards are

    async def _begin(self) -> None:
        for shard in self._cluster.replicated_shards:
            shard.lend(self.leased_until_s, self._serve_soon)
        self._watch_consistent_cuts()
        self._system_shard.state_changed = self._state_changed
        await asyncio.gather(*map(self._catch_up, self._cluster.replicated_shards))
        self._cluster.stalled = False
        await self._find_seat()
        await self._agreement.begin(self._structures.persistence())
        self._serve_others()
        await self._begin_to_keep()

    def _watch_consistent_cuts(self) -> None:
        """Watch for cuts in the shards that there are now."""
        durable = [self._replicated_shard(shard) for shard in self._cluster.durable]
        self._consistent_cuts.begin(durable, whole=self._cluster.whole)

    async def _find_seat(self) -> None:
        """Find out which shards this member is to have, and bring them in: it has them all."""

    def _serve_others(self) -> None:
        """Do for lite members what they ask for, once this member has started."""
        self._forward_server = ForwardServer(self.client, self, self._cluster.member.bytes)
        self._forward_server.start()

    def end_polls(self) -> None:
        """End waiting polls; what other members ask for here they ask of another forward server."""
        if self._forward_server is not None:
            self._forward_server.leave()
        super().end_polls()

    async def stop(self) -> None:
        """Refuse what is new, end waiting polls with None, finish what was begun, close."""
        for task in self._keeping:
            task.cancel()
        self._agreement.end()
        self.end_polls()
        await super().stop()
        self._consistent_cuts.end()

    def _on_drained(self) -> None:
        if self._forward_server is not None:
            self._forward_server.end()

    async def _begin_to_keep(self) -> None:
        """Note this member's server; look after servers and copies from then on."""
        shards, settings, name = self._cluster, self._cluster.settings, self.server_name
        if name is None:
            return
        self._servers = servers = Servers(
            *(shards.client, shards.system, settings, name),
            [stream.name for stream in shards.all_streams],
            NoteStore(self.system_items, self._keep_value),
            lambda: self._colleagues,
            shards.lost_servers,
            frozenset(stream.name for stream in shards.all_streams if stream.durable),
        )
        several = len(settings.members) > 1
        while several and not (await servers.note_own() and await servers.note_lost()):
            if shards.ended:
                return
            await asyncio.sleep(NOTE_RETRY_S)
        self._watch = CopyWatch(servers, settings, self._steady)
        shards.stuck = lambda: None if self._watch is None else self._watch.trouble
        keeping = [self._watch.run(), self._keep_snapshots(), *([servers.run()] if several else [])]
        self._keeping = [asyncio.create_task(one) for one in keeping]

    async def _keep_snapshots(self) -> None:
        while True:
            await asyncio.sleep(SNAPSHOT_LOOK_S)
            for shard in self._cluster.replicated_shards:
                shard.keep_snapshot()

    def _steady(self) -> bool:
        """Tell whether copies may be moved in the cluster's present state."""
        return self.cluster_state is ClusterState.ACTIVE

    async def _keep_value(self, key: str, value: bytes | None) -> bool:
        """Store or remove a value, also before anybody is served and while the member ends."""
        operation = SystemRemove(key) if value is None else SystemPut(key, value, 0)
        return await outcome_of(partial(self._system_shard.propose_system, operation)) is None

    async def _catch_up(self, shard: ReplicatedShard) -> None:
        """Wait until the shard is current, for as long as it takes."""
        while True:
            if await outcome_of(shard.read_when_current) is None or self._cluster.ended:
                return
            self._cluster.stalled = not self._started
            await asyncio.sleep(CURRENT_RETRY_S)

    def _make_polls(self, name: str, loop: asyncio.AbstractEventLoop) -> QueuePolls:
        polls = ClusterPolls(name, loop, self.queue_return, self._deliveries.expect)
        polls.ended = lambda: self._write_refusal() is not None
        polls.end = self._end_of_polls
        polls.shared = self._replicated_shard
        polls.unheard = lambda: self._system_shard.refusal
        return polls
