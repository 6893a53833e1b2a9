"""The engine: maps, queues and the cluster state over logs, for one event loop.

A structure lives in one lane, that is one state machine over one log: durable structures in the
lane of their shard, the others, when there is a directory at all, in a lane in memory, so that
they neither wait for a disk nor come back after a restart.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, get_running_loop
from typing import TYPE_CHECKING, Final, TypeVar

from grid_member.engine.api import (
    ClusterState,
    Done,
    EngineError,
    Entry,
    Item,
    Poll,
    Reason,
    Refused,
    Structures,
)
from grid_member.engine.expiry import ExpiryRounds
from grid_member.engine.landing import Landings
from grid_member.engine.lanes import Lanes, LogOpener
from grid_member.engine.lmdb_log import LmdbLog
from grid_member.engine.log import Clock, wall_clock_ms
from grid_member.engine.operations import (
    MapClear,
    MapPut,
    MapPutBounded,
    MapRemove,
    Operation,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
)
from grid_member.engine.placement import Placement
from grid_member.engine.polls import NoPoll, QueuePolls
from grid_member.engine.stored import shared
from grid_member.engine.system_side import NOT_STARTED, SystemSide

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.engine.lane import Lane
    from grid_member.engine.stored import Stored

MAX_IDLE_QUEUES: Final = 1024
"""Queues whose polls are remembered before those that have none are forgotten."""
UNKNOWN_GRACE_S: Final = 5.0
"""Seconds that a stop waits for a disk to tell what became of a commit that failed."""
T = TypeVar("T")

_made: Final = tuple.__new__
"""Makes a named tuple as calling its class does, in half the time: for those of every request."""
_CLOSING: Final = Refused(Reason.CLOSING, "the member is stopping")


def open_engine(
    structures: Structures,
    directory: Path | None = None,
    *,
    shards: int = 1,
    clock: Clock = wall_clock_ms,
    open_log: LogOpener = LmdbLog,
) -> LocalEngine:
    """Return an engine for one member, to be started.

    Args:
        structures: finds the settings of maps and queues.
        directory: where data is kept; None keeps it in memory only.
        shards: logs that the structures are spread over; fixed when the directory is made.
        clock: milliseconds since the epoch, for time to live.
        open_log: opens a log inside the directory.
    """
    return LocalEngine(structures, Lanes(directory, shards, clock, open_log), clock)


class LocalEngine(SystemSide):
    """The `Engine` of a cluster of one member."""

    def __init__(self, structures: Structures, lanes: Lanes, clock: Clock) -> None:
        super().__init__(lanes, clock)
        self._structures = structures
        self._maps = Placement(lanes, lambda lane: lane.state.maps.found)
        self._queues = Placement(lanes, lambda lane: lane.state.queues.found)
        self._polls: dict[str, QueuePolls] = {}
        self._landings = Landings(self._queue_lane)
        self._loop: AbstractEventLoop | None = None
        self._expiry: ExpiryRounds | None = None

    # Life

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
            await self._lanes.begin(self._arrived)
        except BaseException:
            self._loop = None  # a store that was recovered meanwhile may be opened
            raise
        self._replayed = True
        try:
            if replayed is not None:
                replayed()
        except BaseException:
            self._replayed = False
            await self._lanes.abandon()
            raise
        for lane in self.lanes:
            lane.start(self._loop)
        await self._begin()
        self._maps.begin("map", self._structures.map_settings)
        self._queues.begin("queue", self._structures.queue_settings)
        for lane in self.lanes:
            await lane.settle()
        await self._lanes.opened()
        self._refusal = None
        self._begin_expiry()

    async def stop(self) -> None:
        """Refuse what is new, end waiting polls with None, finish what was begun, close."""
        if self._refusal is _CLOSING or self._loop is None:
            return
        self._refusal = _CLOSING
        if self._expiry is not None:
            self._expiry.stop()
        for lane in self.lanes:
            lane.reads.send_all()
        for polls in list(self._polls.values()):
            polls.finish_waiting(None)
        self._lose_patience(UNKNOWN_GRACE_S)
        await self._settle()
        await self._landings.drain()
        await self._settle()
        self._drained()
        await self._lanes.close()

    def hurry(self) -> None:
        """Wait no more for a disk that does not tell what became of a commit: for a stop."""
        self._lose_patience(0)

    def use_structures(self, structures: Structures) -> None:
        """Find settings there from now on.

        What holds data stays where that is until it is empty, whatever the new settings say.
        """
        former, self._structures = self._structures, structures
        if self._refusal is NOT_STARTED:
            return  # the start looks where everything is
        self._maps.change(former.map_settings)
        self._queues.change(former.queue_settings)
        for name, polls in list(self._polls.items()):
            if structures.queue_settings(name) is None:
                polls.finish_waiting(_not_configured("queue"))

    # Maps

    def map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        """Create or replace an entry."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(_not_configured("map"))
            return
        refused = self._write_refusal()
        if refused is not None:
            done(refused)  # before the start there is no lane
            return
        lane = self._maps.lane(name, settings.persistent)
        if self._maps.changed:
            done = self._maps.counted(name, lane, settings.persistent, done)
        if content_type is not None:
            content_type = shared(content_type)  # a few, of millions of entries
        fields = name, key, value, content_type, settings.time_to_live_s * 1000
        operation: MapPut | MapPutBounded
        if settings.max_idle_s or settings.eviction is not None:
            operation = MapPutBounded(*fields, settings.max_idle_s * 1000, settings.eviction)
            # What was read before this put must not be evicted by it first.
            lane.reads.send(name)
        else:
            operation = _made(MapPut, fields)
        lane.propose(operation, done, len(key) + len(value))

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(_not_configured("map"))
        elif self._refusal is not None:
            done(self._refusal)
        else:
            lane = self._maps.lane(name, settings.persistent)
            found = lane.state.maps.found.get(name)
            if found is None:
                done(None)
            elif found.plain:
                stored = found.entries.get(key)
                if isinstance(stored, bytes):
                    done(Entry(stored, None))  # as `as_entry`, for most reads
                else:
                    done(None if stored is None else Entry(*stored))
            else:
                lane.reads.read(found, name, key, settings, done)

    def map_peek(self, name: str, key: str) -> Stored | None:
        """Return what a plain map stores, if it is there and can be had at once.

        None says nothing: `map_get` tells the rest.
        """
        settings = self._structures.map_settings(name)
        if settings is None or self._refusal is not None:
            return None
        found = self._maps.lane(name, settings.persistent).state.maps.found.get(name)
        return found.entries.get(key) if found is not None and found.plain else None

    def map_remove(self, name: str, key: str, done: Done[None]) -> None:
        """Remove an entry; the same outcome when there was none."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(_not_configured("map"))
        elif self._refusal is not None:
            done(self._refusal)
        else:
            lane = self._maps.lane(name, settings.persistent)
            self._propose(lane, MapRemove(name, key), done, len(key))

    def map_clear(self, name: str, done: Done[None]) -> None:
        """Remove all entries of the map atomically."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(_not_configured("map"))
        elif self._refusal is not None:
            done(self._refusal)
        else:
            self._propose(self._maps.lane(name, settings.persistent), MapClear(name), done, 0)

    # Queues

    def queue_offer(
        self, name: str, value: bytes, content_type: str | None, done: Done[bool]
    ) -> None:
        """Append an item; False when the queue is full."""
        settings = self._structures.queue_settings(name)
        if settings is None:
            done(_not_configured("queue"))
            return
        refused = self._write_refusal()
        if refused is not None:
            done(refused)
            return
        lane = self._queues.lane(name, settings.persistent)
        if self._queues.changed:
            done = self._queues.counted(name, lane, settings.persistent, done)
        if content_type is not None:
            content_type = shared(content_type)
        operation = _made(QueueOffer, (name, value, content_type, settings.max_size))
        lane.propose(operation, done, len(value))

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""
        settings = self._structures.queue_settings(name)
        refused = _not_configured("queue") if settings is None else self._write_refusal()
        if settings is None or refused is not None or self._loop is None:
            done(refused)
            return NoPoll()
        polls = self._polls.get(name)
        if polls is None:
            self._forget_idle_polls()
            polls = self._make_polls(name, self._loop)
            self._polls[name] = polls
        return polls.poll(self._queues.lane(name, settings.persistent), timeout_s, done)

    def queue_confirm(self, item: Item) -> None:
        """The item's whole response was handed to the kernel: it is gone for good."""
        self._landings.land(_made(QueueConfirm, (item.queue, item.item_id, item.take_id)))

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""
        self._landings.land(QueueReturn(item.queue, item.item_id, item.take_id))

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""
        settings = self._structures.queue_settings(name)
        if settings is None:
            done(_not_configured("queue"))
        elif self._refusal is not None:
            done(self._refusal)
        else:
            lane = self._queues.lane(name, settings.persistent)
            done(lane.state.queue_size(name))

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
        """Look for what expires in the lanes that there are now."""
        if self._expiry is not None:
            self._expiry.stop()
        if self._loop is not None:
            self._expiry = ExpiryRounds(self.lanes, self._now_of, self._loop)
            self._expiry.start()

    def _drained(self) -> None:
        """Hear that a stop has finished what was begun; the logs are closed next."""

    def _write_refusal(self) -> Refused | None:
        if self._refusal is None and self._lanes.durable[0].state.passive:
            return _PASSIVE
        return self._refusal

    def _propose(self, lane: Lane, operation: Operation, done: Done[T], size_bytes: int) -> None:
        refused = self._write_refusal()
        if refused is not None:
            done(refused)
        else:
            lane.propose(operation, done, size_bytes)

    def _make_polls(self, name: str, loop: AbstractEventLoop) -> QueuePolls:
        return QueuePolls(name, loop, self.queue_return, self._landings.taken)

    def _queue_lane(self, name: str) -> Lane | None:
        settings = self._structures.queue_settings(name)
        return None if settings is None else self._queues.lane(name, settings.persistent)

    def _arrived(self, lane: Lane, names: set[str]) -> None:
        for name in names:
            polls = self._polls.get(name)
            if polls is not None:
                polls.serve(lane)

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
        lasting = self._lanes.durable[0].state.restart_state is ClusterState.PASSIVE
        return _PASSIVE if lasting and self._refusal is None else None

    def _lose_patience(self, within_s: float) -> None:
        for lane in self.lanes:
            lane.lose_patience(within_s)

    async def _settle(self) -> None:
        while any(lane.busy for lane in self.lanes):
            for lane in self.lanes:
                await lane.settle()


_PASSIVE: Final = Refused(Reason.PASSIVE, "the cluster state is PASSIVE: writes are refused")


def _not_configured(kind: str) -> Refused:
    return Refused(Reason.NOT_CONFIGURED, f"no {kind} configuration matches the name")
