"""The engine: maps, queues and the cluster state over logs, for one event loop.

A structure lives in one lane, that is one state machine over one log: durable structures in the
lane of their shard, the others, when there is a directory at all, in a lane in memory, so that
they neither wait for a disk nor come back after a restart.
"""

from __future__ import annotations

import asyncio
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from grid_member.engine.answers import StateChange
from grid_member.engine.api import (
    ClusterState,
    Done,
    EngineError,
    Entry,
    Item,
    MapSettings,
    QueueSettings,
    Reason,
    Refused,
    Structures,
)
from grid_member.engine.expiry import ExpiryRounds
from grid_member.engine.landing import Landings
from grid_member.engine.lane import Lane
from grid_member.engine.lmdb_log import LmdbLog
from grid_member.engine.log import Clock, Log, MemoryLog, wall_clock_ms
from grid_member.engine.operations import (
    ClusterStateChange,
    MapClear,
    MapPut,
    MapPutBounded,
    MapRemove,
    Operation,
    QueueClear,
    QueueConfirm,
    QueueOffer,
    QueueReturn,
)
from grid_member.engine.polls import QueuePoll, QueuePolls
from grid_member.engine.store import Store, open_store

MAX_IDLE_QUEUES: Final = 1024
"""Queues whose polls are remembered before those that have none are forgotten."""
T = TypeVar("T")

LogOpener: TypeAlias = Callable[[Path, int, Clock], Log]
"""Opens the log in a directory of the store: path, shard, clock."""

_CLOSING: Final = Refused(Reason.CLOSING, "the member is stopping")
_NOT_STARTED: Final = Refused(Reason.CLOSING, "the member has not started")


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
    return LocalEngine(structures, directory, shards=shards, clock=clock, open_log=open_log)


class LocalEngine:
    """The `Engine` of a cluster of one member."""

    def __init__(
        self,
        structures: Structures,
        directory: Path | None,
        *,
        shards: int,
        clock: Clock,
        open_log: LogOpener,
    ) -> None:
        self._structures = structures
        self._directory = directory
        self._shards = shards
        self._clock = clock
        self._open_log = open_log
        self._store: Store | None = None
        self._member = uuid.uuid4()
        self._lanes: list[Lane] = []
        self._volatile: Lane | None = None
        self._polls: dict[str, QueuePolls] = {}
        self._landings = Landings(self._queue_lane)
        self._refusal: Refused | None = _NOT_STARTED
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expiry: ExpiryRounds | None = None

    # Life

    async def start(self) -> None:
        """Open the logs and replay them; serve from then on.

        Raises:
            EngineError: the directory is locked, foreign, of a newer format or damaged.
        """
        if self._loop is not None:
            raise EngineError("an engine starts once: make a new one")
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(None, self._open)
        for lane in self.lanes:
            lane.start(self._loop)
        if self._volatile is not None:
            self._volatile.propose_always(ClusterStateChange(self.cluster_state), _ignore)
            self._forget_volatile()
        for lane in self.lanes:
            await lane.settle()
        self._refusal = None
        self._expiry = ExpiryRounds(self.lanes, self._clock, self._loop)
        self._expiry.start()

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
        await self._settle()
        await self._landings.drain()
        await self._settle()
        for lane in self.lanes:
            await lane.close()
        if self._store is not None:
            self._store.close()

    @property
    def ready(self) -> bool:
        """True between the end of start() and the begin of stop()."""
        return self._refusal is None

    @property
    def member_uuid(self) -> str:
        """This member's UUID; the same after a restart on the same directory."""
        return str(self._member)

    # Maps

    def map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        """Create or replace an entry."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(_not_configured("map"))
            return
        lane = self._lane(name, settings)
        entry, ttl_ms = Entry(value, content_type), settings.time_to_live_s * 1000
        operation: MapPut | MapPutBounded
        if settings.max_idle_s or settings.eviction is not None:
            idle_ms, eviction = settings.max_idle_s * 1000, settings.eviction
            operation = MapPutBounded(name, key, entry, ttl_ms, idle_ms, eviction)
            if self._refusal is None:
                # What was read before this put must not be evicted by it first.
                lane.reads.send(name)
        else:
            operation = MapPut(name, key, entry, ttl_ms)
        self._propose(lane, operation, done, len(key) + len(value))

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read an entry; None when there is no mapping or it has expired."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(_not_configured("map"))
        elif self._refusal is not None:
            done(self._refusal)
        else:
            lane = self._lane(name, settings)
            found = lane.state.maps.found.get(name)
            if found is None:
                done(None)
            elif found.plain:
                done(found.entries.get(key))
            else:
                done(lane.reads.read(found, name, key, settings))

    def map_remove(self, name: str, key: str, done: Done[None]) -> None:
        """Remove an entry; the same outcome when there was none."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(_not_configured("map"))
        else:
            self._propose(self._lane(name, settings), MapRemove(name, key), done, len(key))

    def map_clear(self, name: str, done: Done[None]) -> None:
        """Remove all entries of the map atomically."""
        settings = self._structures.map_settings(name)
        if settings is None:
            done(_not_configured("map"))
        else:
            self._propose(self._lane(name, settings), MapClear(name), done, 0)

    # Queues

    def queue_offer(
        self, name: str, value: bytes, content_type: str | None, done: Done[bool]
    ) -> None:
        """Append an item; False when the queue is full."""
        settings = self._structures.queue_settings(name)
        if settings is None:
            done(_not_configured("queue"))
            return
        operation = QueueOffer(name, value, content_type, settings.max_size)
        self._propose(self._lane(name, settings), operation, done, len(value))

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> QueuePoll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""
        settings = self._structures.queue_settings(name)
        refused = _not_configured("queue") if settings is None else self._write_refusal()
        if settings is None or refused is not None or self._loop is None:
            poll = QueuePoll(done, 0)
            poll.finish(refused)
            return poll
        polls = self._polls.get(name)
        if polls is None:
            self._forget_idle_polls()
            lane = self._lane(name, settings)
            polls = QueuePolls(lane, name, self._loop, self.queue_return, self._landings.taken)
            self._polls[name] = polls
        return polls.poll(timeout_s, done)

    def queue_confirm(self, item: Item) -> None:
        """The item's whole response was handed to the kernel: it is gone for good."""
        self._landings.land(QueueConfirm(item.queue, item.item_id))

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""
        self._landings.land(QueueReturn(item.queue, item.item_id))

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count the items, those in flight left out."""
        settings = self._structures.queue_settings(name)
        if settings is None:
            done(_not_configured("queue"))
        elif self._refusal is not None:
            done(self._refusal)
        else:
            done(self._lane(name, settings).state.queue_size(name))

    # System

    @property
    def cluster_state(self) -> ClusterState:
        """The present cluster state, as applied."""
        return self._lanes[0].state.cluster_state if self._lanes else ClusterState.ACTIVE

    def change_cluster_state(self, state: ClusterState, done: Done[bool]) -> None:
        """Set the cluster state; False when it was that already. It survives restarts."""
        if self._refusal is not None:
            done(self._refusal)
        else:
            StateChange(self.lanes, state, self._state_changed, done).send()

    # Inside

    def _open(self) -> None:
        if self._directory is None:
            self._lanes = [
                Lane(MemoryLog(self._clock, shard), self._member.bytes, self._clock, self._arrived)
                for shard in range(self._shards)
            ]
            return
        self._store = open_store(self._directory, self._shards)
        self._member = self._store.member
        try:
            for shard, path in enumerate(self._store.shards):
                log = self._open_log(path, shard, self._clock)
                lane = Lane(log, self._member.bytes, self._clock, self._arrived)
                self._lanes.append(lane)
                lane.replay()
        except BaseException:
            for lane in self._lanes:
                asyncio.run(lane.close())
            self._lanes = []
            self._store.close()
            raise
        self._volatile = Lane(
            MemoryLog(self._clock), self._member.bytes, self._clock, self._arrived
        )

    def _forget_volatile(self) -> None:
        """Remove what the log kept of structures that are not persistent any more."""
        for lane in self._lanes:
            for name in list(lane.state.maps.found):
                of_map = self._structures.map_settings(name)
                if of_map is not None and not of_map.persistent:
                    lane.propose_always(MapClear(name), _ignore)
            for name in list(lane.state.queues.found):
                of_queue = self._structures.queue_settings(name)
                if of_queue is not None and not of_queue.persistent:
                    lane.propose_always(QueueClear(name), _ignore)

    @property
    def lanes(self) -> list[Lane]:
        """A durable lane for each shard, then the one in memory, if any."""
        return self._lanes if self._volatile is None else [*self._lanes, self._volatile]

    def _lane(self, name: str, settings: MapSettings | QueueSettings) -> Lane:
        if self._volatile is not None and not settings.persistent:
            return self._volatile
        lanes = self._lanes
        if len(lanes) == 1:
            return lanes[0]
        return lanes[zlib.crc32(name.encode("utf-8", "surrogatepass")) % len(lanes)]

    def _write_refusal(self) -> Refused | None:
        if self._refusal is None and self.cluster_state is ClusterState.PASSIVE:
            return _PASSIVE
        return self._refusal

    def _propose(self, lane: Lane, operation: Operation, done: Done[T], size_bytes: int) -> None:
        refused = self._write_refusal()
        if refused is not None:
            done(refused)
        else:
            lane.propose(operation, done, size_bytes)

    def _queue_lane(self, name: str) -> Lane | None:
        settings = self._structures.queue_settings(name)
        return None if settings is None else self._lane(name, settings)

    def _arrived(self, lane: Lane, names: set[str]) -> None:
        for name in names:
            polls = self._polls.get(name)
            if polls is not None:
                polls.serve()

    def _forget_idle_polls(self) -> None:
        if len(self._polls) < MAX_IDLE_QUEUES:
            return
        for name in [name for name, polls in self._polls.items() if polls.idle]:
            del self._polls[name]

    def _state_changed(self) -> None:
        if self.cluster_state is ClusterState.PASSIVE:
            for polls in list(self._polls.values()):
                polls.finish_waiting(_PASSIVE)

    async def _settle(self) -> None:
        while any(lane.busy for lane in self.lanes):
            for lane in self.lanes:
                await lane.settle()


_PASSIVE: Final = Refused(Reason.PASSIVE, "the cluster state is PASSIVE: writes are refused")


def _not_configured(kind: str) -> Refused:
    return Refused(Reason.NOT_CONFIGURED, f"no {kind} configuration matches the name")


def _ignore(outcome: object) -> None:
    """Take an outcome that changes nothing: what was refused is tried again at the next start."""
