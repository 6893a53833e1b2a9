"""What a synchronisation or a check needs of one shard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.engine.api import Refused
from grid_member.engine.local.wan_map import ComparedMap
from grid_member.engine.state.operations import WanCompare
from grid_member.engine.wan.agreement import PublisherState
from grid_member.engine.wan.changes import Change, ChangeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.log.log import Clock
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.wan.agreement import MapReference, PublisherName
    from grid_member.engine.wan.publisher_queue import PublisherQueue


class JobShard:
    """Reads a shard as it is at the moment of each call, and notes which maps are compared."""

    def __init__(
        self, shard: Shard, clock: Clock, is_held: Callable[[Shard], bool] = lambda _: False
    ) -> None:
        self._shard = shard
        self._clock = clock
        self._is_held = is_held

    @property
    def held(self) -> bool:
        """Whether nothing may be sent now: a backup that is made may not have what changed."""
        return self._is_held(self._shard)

    def maps(self, publisher: PublisherName) -> list[str]:
        """Return the maps that the publisher sends, in order."""
        found = self._shard.state.wan.maps
        return sorted(name for name, each in found.items() if publisher in each.queues)

    def compared(self, name: str) -> ComparedMap:
        """Return a map as a comparison reads it."""
        return ComparedMap(self._shard, name, self._clock)

    def entries(self, name: str) -> int:
        """Return how many entries a map has."""
        found = self._shard.state.maps.by_name.get(name)
        return 0 if found is None else len(found.entries)

    def reference(self, name: str) -> MapReference | None:
        """Return how a map is replicated; None when it is not, or not any more."""
        return self._shard.state.wan.reference(name)

    def stamp(self) -> int:
        """Return the newest stamp of all changes."""
        return self._shard.state.wan.clock

    def change(self, name: str, key: str) -> Change | None:
        """Return the last change of a key as it is now; None when nothing is known of the key."""
        state = self._shard.state
        return state.wan.change(name, key, max(self._clock(), state.timestamp_ms))

    def clear_change(self, name: str) -> Change | None:
        """Return the last clear of a map; None without one."""
        found = self._shard.state.wan.maps.get(name)
        if found is None or not found.cleared:
            return None
        return self._shard.state.wan.clear_change(name)

    def removal(self, name: str, key: str, stamp: int) -> Change | None:
        """Return a removal of a key that this cluster does not know; None when it knows the key."""
        agreement = self._shard.state.wan.agreement
        if agreement is None or self.change(name, key) is not None:
            return None
        passed = (agreement.cluster_id,)
        return Change(name, ChangeKind.REMOVAL, key, stamp, b"", None, 0, 0, passed)

    def waits(self, publisher: PublisherName, name: str, key: str) -> bool:
        """Tell whether a change of the key waits for the publisher."""
        queue = self._queue(publisher, name)
        return queue is not None and queue.has(key)

    def busy(self, publisher: PublisherName) -> bool:
        """Tell whether any change waits that may be sent now."""
        wan = self._shard.state.wan
        return any(
            wan.member_state(publisher, member) is PublisherState.REPLICATING
            for _, member in wan.queue_sizes(publisher)
        )

    def job(self, publisher: PublisherName, name: str) -> bytes:
        """Return the job that takes care of the gaps of a map; empty without one."""
        queue = self._queue(publisher, name)
        return b"" if queue is None else queue.job

    async def compare(
        self, publisher: PublisherName, name: str, job: bytes, *, begin: bool
    ) -> bool:
        """Note that the job begins to take care of a map, or has done so; False: not now."""
        outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def note(result: object) -> None:
            if not outcome.done():
                outcome.set_result(result)

        self._shard.propose(WanCompare(publisher, name, job, begin), note, 0)
        return not isinstance(await outcome, Refused)

    def _queue(self, publisher: PublisherName, name: str) -> PublisherQueue | None:
        found = self._shard.state.wan.maps.get(name)
        return None if found is None else found.queues.get(publisher)
