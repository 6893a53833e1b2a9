"""The shards of a member: durable ones, each with a directory, and one in memory.

The durable ones are over logs in the store's directory. Without a directory there are only they,
over logs in memory; with one, the shard in memory has what need not survive a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from grid_member.engine.api import DataOrigin
from grid_member.engine.io.files import taken_on_disk
from grid_member.engine.log.log import Clock, Log, MemoryLog
from grid_member.engine.shard.shard import Shard
from grid_member.engine.state.sharding import shard_of

if TYPE_CHECKING:
    from grid_member.engine.state.snapshot import Snapshot
    from grid_member.engine.storage.store import CrashMarker, Store

LogOpener: TypeAlias = Callable[[Path, int, Clock], Log]
"""Opens the log in a directory of the store: path, shard, clock."""
ArrivalCallback: TypeAlias = Callable[["Shard", set[str]], None]


class Shards:
    """The shards, none before `open`."""

    def __init__(
        self,
        directory: Path | None,
        shards: int,
        clock: Clock,
        open_log: LogOpener | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            directory: where the store is; None keeps everything in memory.
            shards: how many durable shards there are.
            clock: milliseconds since the epoch.
            open_log: opens a log inside the store; None opens one of LMDB.
        """
        self.member = uuid.uuid4()
        self.durable: list[Shard] = []
        self.only: Shard | None = None
        """The durable shard where there is but one, which spares its search."""
        self.volatile: Shard | None = None
        self.origin = DataOrigin.OWN
        """Where the data came from; what `restore` does before a begin counts as an earlier one."""
        self._directory = directory
        self._shards = shards
        self._clock = clock
        self._open_log = open_log
        self._store: Store | None = None
        self._opening: CrashMarker | None = None
        self._paths: list[Path] = []

    @property
    def all(self) -> list[Shard]:
        """The durable shards, then the one in memory, if any."""
        return self.durable if self.volatile is None else [*self.durable, self.volatile]

    @property
    def directory_lost(self) -> str | None:
        """Why nothing that is written now lasts, as the directory is not there any more."""
        grounds = (shard.ground for shard in self.durable)
        return next((ground.loss for ground in grounds if ground and ground.loss), None)

    def durable_of(self, name: str) -> Shard:
        """Return the durable shard of a structure."""
        shards = self.durable
        return shards[shard_of(name, len(shards))]

    async def begin(self, on_arrival: ArrivalCallback) -> None:
        """Open the store and replay the logs.

        Raises:
            EngineError: the directory is locked, foreign, of a newer format or damaged.
        """
        await asyncio.get_running_loop().run_in_executor(None, self.open, on_arrival)

    def open(self, on_arrival: ArrivalCallback) -> None:
        """Open the store and replay the logs. Blocks; may run on another thread.

        Raises:
            EngineError: the directory is locked, foreign, of a newer format or damaged.
        """
        if self._directory is None:
            self.durable = [
                self._make_shard(MemoryLog(self._clock, shard), on_arrival)
                for shard in range(self._shards)
            ]
        else:
            self._open_store(self._directory, on_arrival)
        if len(self.durable) == 1:
            self.only = self.durable[0]

    async def note_open(self) -> None:
        """Hear that the logs were replayed and took their first records."""
        if self._opening is not None:
            opening, self._opening = self._opening, None
            # A disk that does not answer must not hold the event loop, which has a stop to bound.
            await asyncio.to_thread(opening.end)

    async def close(self) -> None:
        """Close logs and store; what the shards hold can still be read."""
        for shard in self.all:
            await shard.close()
        await self.note_open()  # else the next start would believe that this one died
        if self._store is not None:
            self._store.close()
            self._store = None

    async def abandon(self) -> None:
        """Close everything after a start that failed."""
        await self.close()
        self.durable, self.only, self.volatile = [], None, None

    def snapshots(self) -> list[Snapshot]:
        """Return a snapshot of each durable shard, all of the same moment."""
        return [shard.state.snapshot() for shard in self.durable]

    def disk_bytes(self) -> int | None:
        """Return what the logs take on the disk, None without a directory."""
        if self._directory is None:
            return None
        return sum(tree_bytes(path) for path in self._paths)

    def _open_store(self, directory: Path, on_arrival: ArrivalCallback) -> None:
        # A member that keeps its data in memory need not load what keeps it on a disk.
        from grid_member.engine.lmdb.log import LmdbLog
        from grid_member.engine.storage.exchange import STORE
        from grid_member.engine.storage.store import CrashMarker, open_store

        open_log = self._open_log or LmdbLog
        self._store = open_store(directory, self._shards)
        self.member = self._store.member
        self.origin = self._store.origin
        self._paths = self._store.shards
        opening = CrashMarker(directory / STORE)
        try:
            opening.begin(self._paths)
            self._opening = opening
            for number, path in enumerate(self._paths):
                shard = self._make_shard(open_log(path, number, self._clock), on_arrival)
                self.durable.append(shard)
                shard.replay()
        except BaseException:
            asyncio.run(self.abandon())
            raise
        self.volatile = self._make_shard(MemoryLog(self._clock), on_arrival)

    def _make_shard(self, log: Log, on_arrival: ArrivalCallback) -> Shard:
        return Shard(log, self.member.bytes, self._clock, on_arrival)


def tree_bytes(directory: Path) -> int:
    """Return what a directory takes on disk. Blocks."""
    total = 0
    # A nats-server removes directories at any time; what `walk` cannot read it leaves out.
    for place, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += taken_on_disk(Path(place, name).lstat())
    return total
