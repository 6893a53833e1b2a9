"""The engine: maps, queues and the cluster state over logs, for one event loop.

A structure lives in one shard, that is one state machine over one log: durable structures in the
shard of their shard, the others, when there is a directory at all, in a shard in memory, so that
they neither wait for a disk nor come back after a restart.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, get_running_loop
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import (
    ClusterState,
    Done,
    EngineError,
    Item,
    Poll,
    Reason,
    Refused,
    Structures,
)
from grid_member.engine.local.deliveries import Deliveries
from grid_member.engine.local.expiry_rounds import ExpiryRounds
from grid_member.engine.local.maps import MAX_WAYS, PASSIVE, MapSide, unconfigured_refusal
from grid_member.engine.local.placement import Placement
from grid_member.engine.local.polls import NoPoll, QueuePolls
from grid_member.engine.local.system import NOT_STARTED
from grid_member.engine.log.log import Clock, wall_clock_ms
from grid_member.engine.shard.shards import LogOpener, Shards
from grid_member.engine.state.operations import QueueConfirm, QueueOffer, QueueReturn, made
from grid_member.engine.state.stored import shared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.engine.shard.shard import Shard

MAX_IDLE_QUEUES: Final = 1024
"""Queues whose polls are remembered before those that have none are forgotten."""
UNKNOWN_GRACE_S: Final = 5.0
"""Seconds that a stop waits for a disk to tell what became of a commit that failed."""
CLOSING: Final = Refused(Reason.CLOSING, "the member is stopping")


def open_engine(
    structures: Structures,
    directory: Path | None = None,
    *,
    shards: int = 1,
    clock: Clock = wall_clock_ms,
    open_log: LogOpener | None = None,
) -> LocalEngine:
    """Return an engine for one member, to be started.

    Args:
        structures: finds the settings of maps and queues.
        directory: where data is kept; None keeps it in memory only.
        shards: logs that the structures are spread over; fixed when the directory is made.
        clock: milliseconds since the epoch, for time to live.
        open_log: opens a log inside the directory; None opens one of LMDB.
    """
    return LocalEngine(structures, Shards(directory, shards, clock, open_log), clock)


class LocalEngine(MapSide):
    """The `Engine` of a cluster of one member."""

    _keeps_ways = True

    def __init__(self, structures: Structures, shards: Shards, clock: Clock) -> None:
        super().__init__(structures, shards, clock)
        self._queues = Placement(shards, lambda shard: shard.state.queues.by_name)
        self._queue_ways: dict[str, tuple[Shard, Shard, int]] = {}
        """The shard of a queue and how many items it may hold, as `_ways` has it for maps."""
        self._polls: dict[str, QueuePolls] = {}
        self._polls_wait = True
        """Whether a poll that finds nothing may wait."""
        self._deliveries = Deliveries(self._queue_shard)
        self._loop: AbstractEventLoop | None = None
        self._expiry: ExpiryRounds | None = None

    # Start and stop

    async def start(self, replayed: Callable[[], None] | None = None) -> None:
        """Open the logs and replay them; serve from then on.

        Args:
            replayed: is called when the stored data is there and nothing was done with it yet.
                It may read the system store and call `use_structures`; what it raises ends the
                start.

        Raises:
            EngineError: the directory is locked, foreign, of a newer format or damaged.
        """
        if self._loop is not None:
            raise EngineError("an engine starts once: make a new one")
        self._loop = get_running_loop()
        try:
            await self._shards.begin(self._note_arrivals)
        except BaseException:
            self._loop = None  # a store that was recovered meanwhile may be opened
            raise
        self._replayed = True
        failure: BaseException | None = None
        try:
            if replayed is not None:
                replayed()
        except BaseException as error:
            failure = error
        if failure is not None:
            self._replayed = False
            await self._shards.abandon()
            raise failure
        for shard in self.shards:
            shard.start(self._loop)
        await self._begin()
        self._maps.begin("map", self._structures.map_settings)
        self._queues.begin("queue", self._structures.queue_settings)
        for shard in self.shards:
            await shard.settle()
        await self._shards.note_open()
        self._refusal = None
        self._begin_expiry()

    async def stop(self) -> None:
        """Refuse what is new, end waiting polls with None, finish what was begun, close."""
        if self._refusal is CLOSING or self._loop is None:
            return
        self._refusal = CLOSING
        self._ways.clear()
        self._queue_ways.clear()
        if self._expiry is not None:
            self._expiry.stop()
        for shard in self.shards:
            shard.reads.send_all()
        for polls in list(self._polls.values()):
            polls.finish_waiting(None)
        self._lose_patience(UNKNOWN_GRACE_S)
        await self._settle()
        await self._deliveries.drain()
        await self._settle()
        self._on_drained()
        await self._shards.close()

    def end_polls(self) -> None:
        """End waiting polls with None, and let none wait from now on: the member stops soon."""
        self._polls_wait = False
        for polls in list(self._polls.values()):
            polls.wait_no_more()

    def hurry(self) -> None:
        """Wait no more for a disk that does not tell what became of a commit: for a stop."""
        self._lose_patience(0)

    def use_structures(self, structures: Structures) -> None:
        """Find settings there from now on.

        What holds data stays where that is until it is empty, whatever the new settings say.
        """
        former, self._structures = self._structures, structures
        self._ways.clear()
        self._queue_ways.clear()
        if self._refusal is NOT_STARTED:
            return  # the start looks where everything is
        self._maps.change(former.map_settings)
        self._queues.change(former.queue_settings)
        for name, polls in list(self._polls.items()):
            if structures.queue_settings(name) is None:
                polls.finish_waiting(unconfigured_refusal("queue"))

    # Queues

    def queue_offer(
        self, name: str, value: bytes, content_type: str | None, done: Done[bool]
    ) -> None:
        """Append an item; False when the queue is full."""
        if self._deliveries.confirms:
            self._deliveries.send()
        way = self._queue_ways.get(name)
        if way is not None and not way[0].state.passive:
            _, shard, max_size = way  # as below, for most offers
        else:
            settings = self._structures.queue_settings(name)
            if settings is None:
                done(unconfigured_refusal("queue"))
                return
            refused = self._write_refusal()
            if refused is not None:
                done(refused)
                return
            shard, max_size = self._queues.shard(name, settings.persistent), settings.max_size
            if self._queues.changed:
                done = self._queues.counting(name, shard, settings.persistent, done)
            else:
                self._note_queue_way(name, shard, max_size)
        if content_type is not None:
            content_type = shared(content_type)
        operation = made(QueueOffer, (name, value, content_type, max_size))
        shard.propose(operation, done, len(value))

    def poll_waiters(self) -> int:
        """Return how many polls wait here for an item, those of other members' clients too."""
        return sum([polls.waiters for polls in self._polls.values()])

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""
        way, polls = self._queue_ways.get(name), self._polls.get(name)
        if way is not None and polls is not None:
            first, shard, _ = way
            if not first.state.passive:
                return polls.poll(shard, timeout_s, done)  # as below, for most polls
        settings = self._structures.queue_settings(name)
        if settings is None:
            done(unconfigured_refusal("queue"))
            return NoPoll()
        refused = self._write_refusal()
        if refused is not None:
            done(refused)
            return NoPoll()
        if polls is None:
            self._forget_idle_polls()
            polls = self._polls[name] = self._make_polls(name, get_running_loop())
            if not self._polls_wait:
                polls.wait_no_more()
        shard = self._queues.shard(name, settings.persistent)
        if not self._queues.changed:
            self._note_queue_way(name, shard, settings.max_size)
        return polls.poll(shard, timeout_s, done)

    def queue_confirm(self, item: Item) -> None:
        """The item's whole response was handed to the kernel: it is gone for good."""
        self._deliveries.confirm(made(QueueConfirm, (item.queue, item.item_id, item.take_id)))

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""
        self._deliveries.give_back(QueueReturn(item.queue, item.item_id, item.take_id))

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""
        settings = self._structures.queue_settings(name)
        if settings is None:
            done(unconfigured_refusal("queue"))
        elif self._refusal is not None:
            done(self._refusal)
        else:
            shard = self._queues.shard(name, settings.persistent)
            done(shard.state.queue_size(name))

    @property
    def takes_polls(self) -> bool:
        """Whether a poll may wait; else each is refused, or ends at once."""
        return self._polls_wait and self._write_refusal() is None

    @property
    def waiting(self) -> str | None:
        """Why the start is not over yet; None when no other member is waited for."""
        return None

    def end_waiting(self) -> None:
        """End a start that waits for other members."""

    # Inside

    async def _begin(self) -> None:
        """Do what comes before anything is served."""
        self._begin_state()

    def _begin_expiry(self) -> None:
        """Look for what expires in the shards that there are now."""
        if self._expiry is not None:
            self._expiry.stop()
        if self._loop is not None:
            self._expiry = ExpiryRounds(self.shards, self.now_of, self._loop)
            self._expiry.start()

    def _on_drained(self) -> None:
        """Hear that a stop has finished what was begun; the logs are closed next."""

    def _make_polls(self, name: str, loop: AbstractEventLoop) -> QueuePolls:
        return QueuePolls(name, loop, self.queue_return, self._deliveries.expect)

    def _note_queue_way(self, name: str, shard: Shard, max_size: int) -> None:
        if not self._keeps_ways:
            return
        if len(self._queue_ways) >= MAX_WAYS:
            self._queue_ways.clear()  # clients choose the names
        self._queue_ways[name] = self._shards.durable[0], shard, max_size

    def _queue_shard(self, name: str) -> Shard | None:
        way = self._queue_ways.get(name)
        if way is not None:
            return way[1]
        settings = self._structures.queue_settings(name)
        return None if settings is None else self._queues.shard(name, settings.persistent)

    def _note_arrivals(self, shard: Shard, names: set[str]) -> None:
        for name in names:
            polls = self._polls.get(name)
            if polls is not None:
                polls.serve(shard)

    def _serve_soon(self) -> None:
        """Have polls that wait look again, once the shards have told all that happened."""
        if self._loop is not None:
            self._loop.call_soon(self._serve_polls)

    def _serve_polls(self) -> None:
        for polls in list(self._polls.values()):
            polls.serve_again()

    def _forget_idle_polls(self) -> None:
        if len(self._polls) < MAX_IDLE_QUEUES:
            return
        for name in [name for name, polls in self._polls.items() if polls.idle]:
            del self._polls[name]

    def _state_changed(self) -> None:
        if self.cluster_state is ClusterState.PASSIVE:
            for polls in list(self._polls.values()):
                polls.finish_waiting(self._end_of_polls())

    def _end_of_polls(self) -> Refused | None:
        """Return what polls that wait are answered when they need not wait on."""
        # A transient state is the begin of a shutdown, which polls end with as with any stop.
        lasting = self._shards.durable[0].state.restart_state is ClusterState.PASSIVE
        return PASSIVE if lasting and self._refusal is None else None

    def _lose_patience(self, within_s: float) -> None:
        for shard in self.shards:
            shard.lose_patience(within_s)

    async def _settle(self) -> None:
        while any(shard.busy for shard in self.shards):
            for shard in self.shards:
                await shard.settle()
