"""The engine of one of more than five members: it may hold only a part of the data.

    start ─▶ a seat? ─ yes ─▶ all shards are read: a full replica, as any of up to five members
                └ no, and a full replica is there ─▶ the rest is forwarded ─ a seat is free ─▶ ┘

What every member has are the first shard and the one in memory. Calls of structures in other shards
are asked of a full replica, as a lite member does. A full replica stays one until it stops.
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError
from grid_member.engine.forward.client import FIND_S
from grid_member.engine.forward.messages import FORWARD_SERVERS
from grid_member.engine.io.ending import do_and_end, do_or_undo, do_unless_ended
from grid_member.engine.local.engine import CLOSING
from grid_member.engine.nats.client.errors import NatsError, describe_unexpected
from grid_member.engine.replicated.consistent_cut import NO_CUT
from grid_member.engine.replicated.engine import CURRENT_RETRY_S, ClusterEngine
from grid_member.engine.replicated.full_replicas import RENEW_S, Seats, read_shards
from grid_member.engine.replicated.lite_engine import LiteEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.api import (
        ClusterState,
        Done,
        Entry,
        Item,
        Poll,
        Refused,
        Structures,
    )
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
_log: Final = logging.getLogger("grid.engine")


class PartEngine(LiteEngine):
    """The `Engine` of a member that holds all shards when it has a seat, and else a part."""

    def __init__(self, structures: Structures, shards: ReplicatedShards, clock: Clock) -> None:
        super().__init__(structures, shards, clock)
        self._bringing_in = asyncio.Lock()
        self._seats: Seats | None = None
        """None before the first shard is current."""
        self._tasks: list[asyncio.Task[None]] = []
        self._claims = False
        """Whether it has a seat, or holds everything without one, and asks for one."""

    async def stop(self) -> None:
        """Refuse what is new, end waiting polls with None, finish what was begun, close."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._seats is not None and self._claims and self._refusal is not CLOSING:
            self._seats.leave()
        await super().stop()

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends, and all of the data can be reached."""
        if self._cluster.whole:
            return all(shard.in_contact for shard in self._cluster.replicated_shards)
        return super().in_contact

    @property
    def answering(self) -> bool:
        """Whether no shard refuses, and all of the data can be reached or could a moment ago."""
        if self._cluster.whole:
            return all(shard.answering for shard in self._cluster.replicated_shards)
        return super().answering

    @property
    def agreed(self) -> bool:
        """Whether all shards have the same cluster state."""
        here = {shard.state.cluster_state for shard in self.shards}
        return len(here) <= 1 and (self._cluster.whole or super().agreed)

    async def moment(self) -> list[Snapshot]:
        """Return one snapshot of all that is kept, of one moment on all members.

        Shards that this member does not have it reads for that, and gives up again.

        Raises:
            EngineError: that could not be had.
        """
        async with self._bringing_in:
            if self._cluster.whole:
                return await ClusterEngine.moment(self)
            others = await self._bring_in_missing(patience_s=CUT_PATIENCE_S)
            return await do_and_end(self._moment_with(others), partial(self._give_up, others))

    async def _moment_with(self, others: Sequence[ReplicatedShard]) -> list[Snapshot]:
        durable = [self._replicated_shard(shard) for shard in self._cluster.durable]
        try:
            self._consistent_cuts.begin([*durable, *others])
            return await ClusterEngine.moment(self)
        finally:
            self._watch_consistent_cuts()

    async def cluster_usage(self) -> list[StructureUsage] | Refused:
        """Return what the structures hold, as a member tells that holds them all."""
        return self.structure_usage() if self._cluster.whole else await super().cluster_usage()

    def lease(self, until_s: float, *, ended: bool) -> None:
        """Hear until when the others leave this member what it takes out of queues."""
        ClusterEngine.lease(self, until_s, ended=ended)

    @property
    def _forward_name(self) -> bytes:
        """What this member is called as a forward server, so that it does not ask itself."""
        return self._cluster.member.bytes

    # The cluster state

    def prepare_cluster_state(self, state: ClusterState, done: Done[bool]) -> None:
        """Set the cluster state in all shards but the first, which decides and is changed next."""
        self._for_all.prepare_cluster_state(self, state, done)

    def change_cluster_state(
        self, state: ClusterState, done: Done[bool], *, transient: bool = False
    ) -> None:
        """Set the cluster state in all shards."""
        self._for_all.change_cluster_state(self, state, done, transient=transient)

    # Maps

    def map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        """Create or replace an entry."""
        self._for_map(name).map_put(self, name, key, value, content_type, done)

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""
        self._for_map(name).map_get(self, name, key, done)

    def map_remove(self, name: str, key: str, done: Done[None]) -> None:
        """Remove an entry; the same outcome when there was none."""
        self._for_map(name).map_remove(self, name, key, done)

    def map_clear(self, name: str, done: Done[None]) -> None:
        """Remove all entries of the map atomically."""
        self._for_map(name).map_clear(self, name, done)

    # Queues

    def queue_offer(
        self, name: str, value: bytes, content_type: str | None, done: Done[bool]
    ) -> None:
        """Append an item; False when the queue is full."""
        self._for_queue(name).queue_offer(self, name, value, content_type, done)

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""
        return self._for_queue(name).queue_poll(self, name, timeout_s, done)

    def queue_confirm(self, item: Item) -> None:
        """The item's whole response was handed to the kernel: it is gone for good."""
        self._for_item(item).queue_confirm(self, item)

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""
        self._for_item(item).queue_return(self, item)

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""
        self._for_queue(name).queue_size(self, name, done)

    # Inside: the class whose way of doing something is the right one now

    @property
    def _for_all(self) -> type[ClusterEngine]:
        return ClusterEngine if self._cluster.whole else LiteEngine

    def _for_map(self, name: str) -> type[ClusterEngine]:
        if self._cluster.whole or self._refusal is not None:
            return ClusterEngine
        settings = self._structures.map_settings(name)
        away = settings is not None and self._maps.away(name, settings.persistent)
        return LiteEngine if away else ClusterEngine

    def _for_queue(self, name: str) -> type[ClusterEngine]:
        return LiteEngine if self._refusal is None and self._is_away(name) else ClusterEngine

    def _for_item(self, item: Item) -> type[ClusterEngine]:
        # Its delivery ends where it came from, whether this member has the shard by now or not.
        gave = self._forward_client is not None and self._forward_client.has_delivered(item)
        return LiteEngine if gave or self._is_away(item.queue) else ClusterEngine

    def _is_away(self, queue: str) -> bool:
        settings = self._structures.queue_settings(queue)
        return settings is not None and self._queues.away(queue, settings.persistent)

    # Inside: the shards

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._renew()))
        await super()._begin()
        self._tasks.append(loop.create_task(self._keep_seat()))

    async def _find_seat(self) -> None:
        """Bring in all shards if there is a seat for this member, or else see a full replica."""
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

    def _serve_others(self) -> None:
        """Do for others what they ask for, or ask them."""
        self._for_all._serve_others(self)

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
        try:
            shards += await read_shards(made, known.ending, report, known.client, patience)
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
        if self._cluster.whole:
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
