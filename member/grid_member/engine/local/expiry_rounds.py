"""Removes what has expired from memory and log; readers find it absent before that.

Tombstones of replicated maps go by the same looks when their retention is over.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.local.purge_rounds import PurgeRounds
from grid_member.engine.local.system import ignore
from grid_member.engine.state.operations import SystemExpire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import MapExpire, MapExpireIdle

EXPIRY_PERIOD_S: Final = 1.0
"""Seconds between two looks for expired entries."""
EXPIRY_BATCH: Final = 1000
"""Keys of a shard that are looked at at a time."""
_MORE_PERIOD_S: Final = 0.01
"""Seconds until the next look when there was more than a batch."""


class ExpiryRounds:
    """Looks for expired entries in all shards, again and again."""

    def __init__(
        self,
        shards: Sequence[Shard],
        now_of: Callable[[Shard], int],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Look at nothing yet; now_of is the time that a shard's entries live by."""
        self._shards = shards
        self._now_of = now_of
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._purges: dict[Shard, PurgeRounds] = {}

    def start(self) -> None:
        """Look for the first time after a period."""
        self._timer = self._loop.call_later(EXPIRY_PERIOD_S, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        more = False
        try:
            more = self._look_once()
        finally:
            # Whatever went wrong is reported and must not be the end of all expiry.
            period_s = _MORE_PERIOD_S if more else EXPIRY_PERIOD_S
            self._timer = self._loop.call_later(period_s, self._look)

    def _look_once(self) -> bool:
        """Look at a batch of each shard; tell whether there is more."""
        more = False
        for shard in self._shards:
            if not shard.answering:
                continue  # it would refuse each of them at once, which is no reason to hurry
            shard.reads.send_urgent()
            maps = shard.state.maps
            now_ms = self._now_of(shard)
            for expiry in maps.due(now_ms, EXPIRY_BATCH):
                shard.propose(expiry, partial(_postpone, shard, expiry), len(expiry.key))
            if shard.state.system.overdue(now_ms):
                shard.propose_system(SystemExpire(), ignore)
            purges = self._purges.get(shard)
            if purges is None:
                purges = self._purges[shard] = PurgeRounds(shard)
            purged = purges.look(self._loop.time(), now_ms)
            more = more or purged or maps.overdue(now_ms)
        return more


def _postpone(shard: Shard, expiry: MapExpire | MapExpireIdle, _: object) -> None:
    """Put an entry back into the index, whatever became of its removal: to be looked at again."""
    shard.state.maps.postpone(expiry)
