"""The side of the engine that is not about this map or that queue: cluster state, system store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from grid_member.engine.api import ClusterState, EngineError, Reason, Refused
from grid_member.engine.local.usage import held_structures, structure_usage
from grid_member.engine.shard.answers import StateChange
from grid_member.engine.state.operations import (
    ClusterStateChange,
    SystemPut,
    SystemRemove,
    TransientStateChange,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import DataOrigin, Done
    from grid_member.engine.local.usage import StructureKind, StructureUsage
    from grid_member.engine.log.log import Clock
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.shard.shards import Shards
    from grid_member.engine.state.machine import State
    from grid_member.engine.state.snapshot import Snapshot
    from grid_member.engine.state.system import SystemValues

T = TypeVar("T")
NOT_STARTED: Final = Refused(Reason.CLOSING, "the member has not started")


class SystemSide:
    """What every shard and the first shard's system store tell, and how they are changed."""

    def __init__(self, shards: Shards, clock: Clock) -> None:
        self._shards = shards
        self._clock = clock
        self._refusal: Refused | None = NOT_STARTED
        self._replayed = False

    @property
    def shards(self) -> list[Shard]:
        """The durable shards, then the one in memory, if any."""
        return self._shards.all

    @property
    def ready(self) -> bool:
        """True between the end of start() and the begin of stop()."""
        return self._refusal is None

    @property
    def directory_lost(self) -> str | None:
        """Why nothing that is written now lasts; None while the directory is there."""
        return self._shards.directory_lost

    @property
    def _started(self) -> bool:
        """True from the end of start() on."""
        return self._refusal is not NOT_STARTED

    @property
    def member_uuid(self) -> str:
        """This member's UUID; the same after a restart on the same directory."""
        return str(self._shards.member)

    @property
    def origin(self) -> DataOrigin:
        """Where the stored data came from."""
        return self._shards.origin

    # The cluster state

    @property
    def cluster_state(self) -> ClusterState:
        """The present cluster state, as applied; ACTIVE before there is one."""
        if not self._replayed:
            return ClusterState.ACTIVE
        return self._shards.durable[0].state.cluster_state

    @property
    def agreed(self) -> bool:
        """Whether all shards have the same cluster state, as applied."""
        return len({shard.state.cluster_state for shard in self.shards}) <= 1

    def prepare_cluster_state(self, state: ClusterState, done: Done[bool]) -> None:
        """Set the cluster state in all shards but the first, which decides and is changed next."""
        if self._refusal is not None:
            done(self._refusal)
        elif len(self.shards) == 1:
            done(False)
        else:
            StateChange(self.shards[1:], ClusterStateChange(state), nothing, done).send()

    def change_cluster_state(
        self, state: ClusterState, done: Done[bool], *, transient: bool = False
    ) -> None:
        """Set the cluster state; False when it was that already.

        It survives restarts, unless it is transient: those begin with the one set before.
        """
        if self._refusal is not None:
            done(self._refusal)
        else:
            operation = TransientStateChange(state) if transient else ClusterStateChange(state)
            StateChange(self.shards, operation, self._state_changed, done).send()

    # The system store

    def system_get(self, key: str) -> bytes | None:
        """Return a value of the system store, None when there is none or its time is over."""
        return self._system.get(key, self._now_ms) if self._replayed else None

    def system_items(self, prefix: str) -> list[tuple[str, bytes]]:
        """Return the keys that begin with prefix and their values, ordered by key."""
        return self._system.items(prefix, self._now_ms) if self._replayed else []

    def system_put(
        self, key: str, value: bytes | None, done: Done[None], *, time_to_live_s: int = 0
    ) -> None:
        """Set a value; None removes it, 0 seconds are for ever."""
        refused = self._refusal
        if refused is None and value is not None:
            refused = self._system.refusal(key, value, self._now_ms)
        if refused is not None:
            done(refused)
        elif value is None:
            self._shards.durable[0].propose_system(SystemRemove(key), done, len(key))
        else:
            operation = SystemPut(key, value, time_to_live_s * 1000)
            self._shards.durable[0].propose_system(operation, done, len(key) + len(value))

    # What it holds

    def held_structures(self) -> list[tuple[StructureKind, str]]:
        """Return kind and name of every structure that holds anything."""
        return list(held_structures(self.shards))

    def structure_usage(self) -> list[StructureUsage]:
        """Return what every structure holds that holds anything."""
        return list(structure_usage(self.shards))

    async def cluster_usage(self) -> list[StructureUsage] | Refused:
        """Return `structure_usage()`; where nothing is held, that of a member that holds all."""
        return self.structure_usage()

    def store_bytes(self) -> int | None:
        """Return what the data takes on disk, None when it is in memory only. Blocks.

        May run on another thread.
        """
        return self._shards.disk_bytes()

    def snapshot(self) -> list[Snapshot]:
        """Return a snapshot of each shard, all of this moment: every write answered so far is in.

        What is written later does not touch them. Structures that are not persistent are left out
        when the engine has a directory.

        Raises:
            EngineError: the engine has not started.
        """
        if not self._replayed:
            raise EngineError("the engine has not started: there is no data yet")
        return self._shards.snapshots()

    async def moment(self) -> list[Snapshot]:
        """Return `snapshot()`; with several members theirs is agreed on, which takes a moment.

        Raises:
            EngineError: there is no such moment now.
        """
        return self.snapshot()

    # Inside

    @property
    def _system(self) -> SystemValues:
        return self._shards.durable[0].state.system

    @property
    def _now_ms(self) -> int:
        return self.now_of(self._shards.durable[0])

    def now_of(self, shard: Shard) -> int:
        """Return the time that a shard's values live by, in milliseconds since the epoch."""
        # What was over stays so when the clock is set back.
        return max(self._clock(), shard.state.timestamp_ms)

    def _begin_state(self) -> None:
        """Begin with the cluster state that outlives a restart, the same in all shards."""
        state = self._shards.durable[0].state.restart_state
        for shard in self.shards:
            if shard.state.cluster_state is not state:
                shard.propose_system(ClusterStateChange(state), ignore)

    def _state_changed(self) -> None:
        """Hear that the cluster state is another one in all shards."""


async def accept_log(created: str, read: State, current: Callable[[], State]) -> None:
    """Find nothing wrong with a log that was read."""


async def always() -> None:
    """Wait for nothing."""


def nothing() -> None:
    """Hear of a change that is of no matter."""


def ignore(outcome: object) -> None:
    """Take an outcome that changes nothing: what was refused is tried again at the next start."""


def outcome_of(begin: Callable[[Callable[[T], None]], object]) -> asyncio.Future[T]:
    """Begin something that calls back once; return what it calls back with."""
    outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def set_outcome(found: T) -> None:
        if not outcome.done():  # else nobody waits for it any more
            outcome.set_result(found)

    begin(set_outcome)
    return outcome
