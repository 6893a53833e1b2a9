"""A cut over the shards of a cluster: one moment of all that they hold, although each has its log.

    take():        a marker into every shard ─▶ each state is copied at its marker
    every member:  what comes back behind a marker is not answered before all markers were seen

What is in the cut was asked for before the last marker came into its shard, and what is not in it
was answered after that. So nothing is in the cut that was asked for after the answer of something
that is not. Who cannot wait takes the markers away first, and `take` sees that: such a cut is none.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.api import EngineError
from grid_member.engine.local.system import ignore, outcome_of
from grid_member.engine.state.operations import SystemPut, SystemRemove

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    from grid_member.engine.api import Refused
    from grid_member.engine.replicated.replicated_shard import ReplicatedShard
    from grid_member.engine.state.snapshot import Snapshot

MARKER: Final = "cut/"
"""Begins the keys of markers in the system store of each shard."""
MARKER_MS: Final = 60_000
"""After that a marker goes by itself, should nobody be left to take it away."""
PATIENCE_S: Final = 2.0
"""How long answers wait for the other shards' markers; one without a leader gets none."""
GIVE_UP_LOOKS: Final = 5
"""Times that patience is lost until those who wait are told that nobody knows: ten seconds."""
ATTEMPTS: Final = 5
RETRY_S: Final = 1.0
"""Between two attempts: a new leader takes some seconds."""
REMEMBERED: Final = 64
"""Cuts that are over and whose late markers are no reason to wait."""
NO_CUT: Final = (
    "no moment could be had that all members agree on: a part of the data has no leader now, or a "
    "member lagged behind: try again"
)


class MarkerListener(Protocol):
    """Is called when markers came into a shard or went."""

    def __call__(self, *, at_record: bool = True) -> None:
        """Hear of it; at_record tells whether the state is the one right behind the record."""


def ignore_markers(*, at_record: bool = True) -> None:
    """Hear of markers where nobody takes cuts."""


def is_marker(key: str) -> bool:
    """Tell whether a key of the system store is that of a marker."""
    return key.startswith(MARKER)


class ConsistentCuts:
    """The cuts that are under way, as one member sees them. For the thread of the event loop."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._whole = False
        self._shards: Sequence[ReplicatedShard] = ()
        self._markers: list[frozenset[str]] = []
        """Of each shard, when it was looked at last."""
        self._over: deque[str] = deque(maxlen=REMEMBERED)
        self._snapshots: dict[str, dict[int, Snapshot]] = {}
        """Snapshots of the cuts that this member takes, by shard."""
        self._patience: dict[str, asyncio.TimerHandle] = {}

    def begin(self, shards: Sequence[ReplicatedShard], *, whole: bool = True) -> None:
        """Watch these durable shards from now on, and no others; a cut may be under way.

        Args:
            shards: those that this member has.
            whole: whether these are all; else it sees that a cut is over when its marker is
                removed.
        """
        for former in self._shards:
            if former not in shards:
                former.on_markers = ignore_markers
                former.release()
        self._shards, self._whole = shards, whole
        self._markers = [frozenset()] * len(shards)
        for shard in shards:
            shard.on_markers = self.look
        self.look(at_record=False)

    def end(self) -> None:
        """Watch no more."""
        for timer in self._patience.values():
            timer.cancel()

    def look(self, *, at_record: bool = True) -> None:
        """Hear that markers came or went.

        Args:
            at_record: whether the shard's state is the one right behind the marker.
        """
        former = self._markers
        self._markers = [_markers_of(shard) for shard in self._shards]
        for place, (before, now) in enumerate(zip(former, self._markers, strict=True)):
            self._over.extend(name for name in before - now if name not in self._over)
            for name in now - before:
                if at_record and name in self._snapshots:
                    self._snapshots[name][place] = self._shards[place].state.snapshot()
        whole = frozenset.intersection(*self._markers) if self._whole else frozenset()
        self._over.extend(name for name in whole if name not in self._over)
        under_way = frozenset.union(*self._markers).difference(self._over)
        self._watch(under_way)
        for shard, markers in zip(self._shards, self._markers, strict=True):
            if not markers & under_way:
                shard.release()
            elif shard.held_records is None:
                shard.held_records = []

    async def take(self) -> list[Snapshot]:
        """Return a snapshot of each shard, all of one moment.

        Raises:
            EngineError: that could not be had.
        """
        for _ in range(ATTEMPTS):
            snapshots = await self._try(MARKER + uuid.uuid4().hex)
            if snapshots is not None:
                return snapshots
            await asyncio.sleep(RETRY_S)
        raise EngineError(NO_CUT)

    async def _try(self, name: str) -> list[Snapshot] | None:
        snapshots = self._snapshots[name] = {}
        try:
            if any(await asyncio.gather(*self._put_markers(name))):
                return None
            # Who answered before all markers were there has taken one away first: that is known
            # now.
            barriers = [outcome_of(shard.read_when_current) for shard in self._shards]
            if any(await asyncio.gather(*barriers)):
                return None
            whole = all(name in shard.state.system.by_key for shard in self._shards)
            if whole and len(snapshots) == len(self._shards):
                return [snapshots[place] for place in range(len(snapshots))]
            return None
        finally:
            del self._snapshots[name]
            for shard in self._shards:
                shard.propose_system(SystemRemove(name), ignore)

    def _put_markers(self, name: str) -> Iterable[Awaitable[Refused | None]]:
        """Put a marker into each shard; the outcomes come when all of them were seen."""
        put = SystemPut(name, b"", MARKER_MS)
        return [outcome_of(partial(shard.propose_system, put)) for shard in self._shards]

    def _watch(self, under_way: frozenset[str]) -> None:
        for name in [name for name in self._patience if name not in under_way]:
            self._patience.pop(name).cancel()
        for name in under_way.difference(self._patience):
            self._wait(name, 1)

    def _wait(self, name: str, looks: int) -> None:
        loop = asyncio.get_running_loop()
        self._patience[name] = loop.call_later(PATIENCE_S, self._lose_patience, name, looks)

    def _lose_patience(self, name: str, looks: int) -> None:
        """Let the shards go on, which they do when the log has taken that."""
        for shard, markers in zip(self._shards, self._markers, strict=True):
            if name in markers:
                shard.propose_system(SystemRemove(name), ignore)
            if looks >= GIVE_UP_LOOKS:
                shard.refuse_held()
        self._wait(name, looks + 1)


def _markers_of(shard: ReplicatedShard) -> frozenset[str]:
    return frozenset(key for key, _ in shard.state.system.items(MARKER, 0))
