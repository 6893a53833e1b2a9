"""The engine of a member that holds a part of the data, or none: it forwards the rest.

    of more than five members: start ─▶ a seat? ─ yes ─▶ all shards are read: a full replica
                └ no, and a full replica is there ─▶ the rest is forwarded ─ a seat is free ─▶ ┘
    lite member:               start ─▶ everything is forwarded

What every member has is the first shard, a lite member without its data, and others have the one in
memory. Calls of structures in other shards are asked of a full replica, which stays one until it
stops.
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.api import EngineError, Refused
from grid_member.engine.forward.client import FIND_S, ForwardClient
from grid_member.engine.forward.messages import FORWARD_SERVERS, Frame, FrameKind
from grid_member.engine.io.ending import do_and_end, do_or_undo, do_unless_ended, end_tasks
from grid_member.engine.local.engine import CLOSING
from grid_member.engine.local.polls import MAX_TIMER_S, NoPoll
from grid_member.engine.local.system import NOT_STARTED, nothing, outcome_of
from grid_member.engine.local.usage import decode_usage
from grid_member.engine.nats.client.errors import NatsError, describe_unexpected
from grid_member.engine.replicated.consistent_cut import NO_CUT
from grid_member.engine.replicated.engine import CURRENT_RETRY_S, ClusterEngine
from grid_member.engine.replicated.full_replicas import RENEW_S, Seats, read_shard
from grid_member.engine.shard.answers import StateChange
from grid_member.engine.state.operations import ClusterStateChange, TransientStateChange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.api import ClusterState, Done, Entry, Item, Poll, Structures
    from grid_member.engine.local.usage import StructureUsage
    from grid_member.engine.log.log import Clock
    from grid_member.engine.replicated.replicated_shard import ReplicatedShard
    from grid_member.engine.replicated.replicated_shards import ReplicatedShards
    from grid_member.engine.state.snapshot import Snapshot

LOOK_S: Final = 1.0
"""How often a member without a seat looks for one."""
CUT_PATIENCE_S: Final = 15.0
"""How long a backup waits for a leader of the shards that this member reads for it."""
GIVE_UP_S: Final = 3.0
"""How long shards that are given up wait for what they sent."""
NO_FULL_REPLICA: Final = "none of the members that hold all of the data is there yet"
"""Why a start waits that is to hold a part of it."""
_NO_DATA: Final = (
    "this member holds no data (lite-member.enabled): a member that does makes the backups"
)
_log: Final = logging.getLogger("grid.engine")


class PartEngine(ClusterEngine):
    """The `Engine` of a member that holds all shards when it has a seat, and else a part."""

    def __init__(self, structures: Structures, shards: ReplicatedShards, clock: Clock) -> None:
        super().__init__(structures, shards, clock)
        self._forward_client: ForwardClient | None = None
        """None before the member has met the others, and once it holds everything."""
        self._bringing_in = asyncio.Lock()
        self._seats: Seats | None = None
        """None before the first shard is current."""
        self._tasks: list[asyncio.Task[None]] = []
        self._claims = False
        """Whether it has a seat, or holds everything without one, and asks for one."""

    async def stop(self) -> None:
        """Refuse what is new, end waiting polls with None, finish what was begun, close."""
        await end_tasks(*self._tasks)
        if self._seats is not None and self._claims and self._refusal is not CLOSING:
            self._seats.leave()
        if self._forward_client is not None:
            await self._forward_client.stop()
        await super().stop()

    def end_polls(self) -> None:
        """End waiting polls with None, and let none wait from now on: the member stops soon."""
        if self._forward_client is not None:
            self._forward_client.end_polls()
        super().end_polls()

    def hurry(self) -> None:
        """Wait for nobody any more: for a stop."""
        if self._forward_client is not None:
            self._forward_client.hurry()
        super().hurry()

    def lease(self, until_s: float, *, ended: bool) -> None:
        """Hear until when the others leave this member what it takes out of queues.

        What a lite member takes is taken by forward servers, which have leases of their own.
        """
        if not self._lite:
            super().lease(until_s, ended=ended)

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends, and all of the data can be reached."""
        client = self._forward_client
        reached = self.whole or (client is not None and client.in_contact)
        return reached and super().in_contact

    @property
    def answering(self) -> bool:
        """Whether no shard refuses, and all of the data can be reached or could a moment ago."""
        client = self._forward_client
        reached = self.whole or (client is not None and client.answering)
        return reached and super().answering

    @property
    def agreed(self) -> bool:
        """Whether all shards have the same cluster state, the ones that others hold as well."""
        client = self._forward_client
        return super().agreed and (self.whole or (client is not None and client.agreed))

    async def moment(self) -> list[Snapshot]:
        """Return one snapshot of all that is kept, of one moment on all members.

        Shards that this member does not have it reads for that, and gives up again.

        Raises:
            EngineError: that could not be had, or the member is a lite one.
        """
        if self._lite:
            raise EngineError(_NO_DATA)
        async with self._bringing_in:
            if self.whole:
                return await super().moment()
            others = await self._bring_in_missing(patience_s=CUT_PATIENCE_S)
            return await do_and_end(self._moment_with(others), partial(self._give_up, others))

    async def _moment_with(self, others: Sequence[ReplicatedShard]) -> list[Snapshot]:
        durable = [self._replicated_shard(shard) for shard in self._cluster.durable]
        try:
            self._consistent_cuts.begin([*durable, *others])
            return await super().moment()
        finally:
            self._watch_consistent_cuts()

    async def cluster_usage(self) -> list[StructureUsage] | Refused:
        """Return what the structures hold, as a member tells that holds them all."""
        if self.whole:
            return self.structure_usage()
        asking = partial(self._forward, Frame(FrameKind.USAGE, 0))
        report: Entry | Refused = await outcome_of(asking)
        if isinstance(report, Refused):
            return report
        return await asyncio.to_thread(decode_usage, report.value)

    # The cluster state

    def prepare_cluster_state(self, state: ClusterState, done: Done[bool]) -> None:
        """Set the cluster state in all shards but the first, which decides and is changed next."""
        if self.whole:
            super().prepare_cluster_state(state, done)
        else:
            self._forward(Frame(FrameKind.SPREAD, 0, state.value), done)

    def change_cluster_state(
        self, state: ClusterState, done: Done[bool], *, transient: bool = False
    ) -> None:
        """Set the cluster state, here in the first shard; then in the others."""
        if self.whole or self._refusal is not None:
            super().change_cluster_state(state, done, transient=transient)
            return
        kind = FrameKind.SPREAD_FOR_NOW if transient else FrameKind.SPREAD
        operation = TransientStateChange(state) if transient else ClusterStateChange(state)

        def changed(outcome: bool | Refused) -> None:
            def spread(others: bool | Refused) -> None:
                done(others if isinstance(others, Refused) else outcome)

            if isinstance(outcome, Refused):
                done(outcome)
            elif self.whole:
                StateChange(self.shards[1:], operation, nothing, spread).send()
            else:
                self._forward(Frame(kind, 0, state.value), spread)

        StateChange([self._system_shard], operation, self._state_changed, changed).send()

    # Maps

    def map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        """Create or replace an entry."""
        if self._is_map_away(name):
            self._forward(Frame(FrameKind.MAP_PUT, 0, name, key, value, content_type), done)
        else:
            super().map_put(name, key, value, content_type, done)

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""
        if self._is_map_away(name):
            self._forward(Frame(FrameKind.MAP_GET, 0, name, key), done)
        else:
            super().map_get(name, key, done)

    def map_remove(self, name: str, key: str, done: Done[None]) -> None:
        """Remove an entry; the same outcome when there was none."""
        if self._is_map_away(name):
            self._forward(Frame(FrameKind.MAP_REMOVE, 0, name, key), done)
        else:
            super().map_remove(name, key, done)

    def map_clear(self, name: str, done: Done[None]) -> None:
        """Remove all entries of the map atomically."""
        if self._is_map_away(name):
            self._forward(Frame(FrameKind.MAP_CLEAR, 0, name), done)
        else:
            super().map_clear(name, done)

    # Queues

    def queue_offer(
        self, name: str, value: bytes, content_type: str | None, done: Done[bool]
    ) -> None:
        """Append an item; False when the queue is full."""
        if self._is_queue_away(name):
            self._forward(Frame(FrameKind.QUEUE_OFFER, 0, name, "", value, content_type), done)
        else:
            super().queue_offer(name, value, content_type, done)

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""
        if not self._is_queue_away(name):
            return super().queue_poll(name, timeout_s, done)
        wait_s = max(0.0, min(timeout_s, MAX_TIMER_S)) if self._polls_wait else 0.0
        frame = Frame(FrameKind.QUEUE_POLL, 0, name, number=int(wait_s * 1000))
        return self._forward(frame, done, wait_s) or NoPoll()

    def queue_confirm(self, item: Item) -> None:
        """The item's whole response was handed to the kernel: it is gone for good."""
        if not self._end_forwarded(FrameKind.QUEUE_CONFIRM, item):
            super().queue_confirm(item)

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""
        if not self._end_forwarded(FrameKind.QUEUE_RETURN, item):
            super().queue_return(item)

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""
        if self._is_queue_away(name):
            self._forward(Frame(FrameKind.QUEUE_SIZE, 0, name), done)
        else:
            super().queue_size(name, done)

    # Inside: what is forwarded

    @property
    def _lite(self) -> bool:
        """Whether this member holds no data, and asks for no seat."""
        return self._cluster.settings.lite

    @property
    def whole(self) -> bool:
        """Whether this member has all shards, with their data."""
        return self._cluster.whole

    def _is_map_away(self, name: str) -> bool:
        if self.whole or self._refusal is not None:
            return False
        settings = self._structures.map_settings(name)
        return settings is not None and (self._lite or self._maps.away(name, settings.persistent))

    def _is_queue_away(self, name: str) -> bool:
        return self._refusal is None and self._is_away(name)

    def _is_away(self, queue: str) -> bool:
        settings = self._structures.queue_settings(queue)
        return settings is not None and (
            self._lite or self._queues.away(queue, settings.persistent)
        )

    def _end_forwarded(self, kind: FrameKind, item: Item) -> bool:
        """End a delivery where it came from, whether this member has the shard by now or not.

        False when the item is one that this member took.
        """
        client = self._forward_client
        gave = client is not None and client.has_delivered(item)
        if not gave and not self._is_away(item.queue):
            return False
        if client is not None:
            client.end_delivery(kind, item)
        return True

    def _forward(self, frame: Frame, done: Done[Any], wait_s: float = 0.0) -> Poll | None:
        """Ask a member that holds the data; None when that was refused here."""
        if self._refusal is not None or self._forward_client is None:
            done(self._refusal or NOT_STARTED)
            return None
        return self._forward_client.call(frame, done, wait_s)

    def _serve_others(self) -> None:
        """Do for others what they ask for, or ask them."""
        if self.whole:
            super()._serve_others()
        else:
            # A lite member is never asked: it needs no name by which it would not ask itself.
            own = b"" if self._lite else self._cluster.member.bytes
            self._forward_client = ForwardClient(self.client, own)
            self._forward_client.start()

    # Inside: the shards

    async def _begin(self) -> None:
        if self._lite:
            await super()._begin()
            return
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._renew()))
        await super()._begin()
        self._tasks.append(loop.create_task(self._keep_seat()))

    async def _find_seat(self) -> None:
        """Bring in all shards if there is a seat for this member, or else see a full replica."""
        if self._lite:
            return
        shards = self._cluster
        self._seats = Seats(self._system_shard, self.system_items, self.member_uuid)
        while not (has_place := await self._seats.take()) and not await self._sees_full_replica():
            if shards.ended:
                return
            shards.stalled, shards.delay = True, NO_FULL_REPLICA
            await asyncio.sleep(CURRENT_RETRY_S)
        shards.stalled, shards.delay = False, None
        # Only who holds everything can begin to agree; members of former versions did not.
        if has_place or not await self._agreement.await_made():
            self._claims = True
            await self._hold_all()
            return
        if shards.settings.directory is not None:
            # What it had in flight in an incarnation in which it held them goes back with the next
            # one.
            await self._give_up(await self._bring_in_missing(empty=True))

    async def _sees_full_replica(self) -> bool:
        try:
            await self.client.request(FORWARD_SERVERS, self._cluster.member.bytes, timeout_s=FIND_S)
        except NatsError:
            return False
        return True

    async def _hold_all(self) -> None:
        """Bring in the shards that this member does not have, and keep them."""
        async with self._bringing_in:
            others = await self._bring_in_missing()
            for shard in others:
                shard.lend(self.leased_until_s, self._serve_soon)
            self._cluster.durable = [*self._cluster.durable, *others]
            self._cluster.joining = []
            self._watch_consistent_cuts()

    async def _bring_in_missing(
        self, *, empty: bool = False, patience_s: float | None = None
    ) -> list[ReplicatedShard]:
        """Return the shards that this member does not have, current.

        Raises:
            EngineError: they cannot be read, or nobody confirms in time that they are current.
        """
        known = self._cluster
        shards: list[ReplicatedShard] = []
        made = known.missing(empty=empty)
        try:
            work = self._bring_in(made, shards, patience_s)
            await do_or_undo(work, partial(self._give_up, shards))
        finally:
            known.stalled, known.delay = False, None
        return shards

    async def _bring_in(
        self,
        made: Sequence[Callable[[], ReplicatedShard]],
        shards: list[ReplicatedShard],
        patience_s: float | None,
    ) -> None:
        """Append the shards, and wait until they are current."""
        known, loop = self._cluster, asyncio.get_running_loop()
        report = partial(known.wait_to_read, serves=self._started)
        patience = math.inf if patience_s is None else patience_s
        reading = known.ending, report, known.client, patience
        try:
            shards += [await read_shard(make, *reading) for make in made]
            known.joining, known.delay = shards, None
            for shard in shards:
                shard.start(loop)
            async with asyncio.timeout(patience_s):
                await do_unless_ended(known.ending, self._all_current(shards))
        except TimeoutError:
            raise EngineError(NO_CUT) from None

    async def _all_current(self, shards: Sequence[ReplicatedShard]) -> None:
        await asyncio.gather(*map(self._catch_up, shards))

    async def _give_up(self, shards: Sequence[ReplicatedShard]) -> None:
        """Close shards that are not needed any more, once what they sent has its outcome."""
        self._cluster.joining = []
        for shard in shards:
            shard.lose_patience(GIVE_UP_S)
            await shard.settle()
            await shard.close()
        self._cluster.forget_missing()

    async def _keep_seat(self) -> None:
        """Keep the seat that this member has, or take one that is free for long."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look()
            except Exception as error:
                if self._cluster.ended:
                    return
                _log.error("the data is not brought in: %s", describe_unexpected(error))

    async def _look(self) -> None:
        seats, now_s = self._seats, asyncio.get_running_loop().time()
        if seats is None:
            return
        if self.whole:
            await self._end_forwarding()
        elif seats.is_long_free(now_s) and await seats.take():
            await self._become_full_replica(seats)

    async def _renew(self) -> None:
        """Keep the seat that this member has, also while the data is brought in."""
        while True:
            await asyncio.sleep(RENEW_S)
            if self._claims and self._seats is not None:
                await self._seats.take()

    async def _become_full_replica(self, seats: Seats) -> None:
        self._claims = True
        try:
            await self._hold_all()
        except BaseException:
            self._claims = False
            seats.leave()
            raise
        self._begin_expiry()
        self._serve_others()
        _log.info("this member holds all of the data from now on")

    async def _end_forwarding(self) -> None:
        """Ask nobody any more, once all that was asked for has its outcome."""
        forward_client = self._forward_client
        if forward_client is not None and not forward_client.busy:
            self._forward_client = None
            await forward_client.stop()
