"""Removes tombstones of replicated maps whose retention is over, a slice at a time."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import Refused

if TYPE_CHECKING:
    from grid_member.engine.shard.shard import Shard

PURGE_PERIOD_S: Final = 60.0
"""Between two rounds through all maps of a shard."""
MAPS: Final = 500
"""Maps of a shard that are asked in one look."""
LOOKS: Final = 4096
"""Tombstones of a shard that one look and the record that it proposes may come to, some 4 ms."""


class PurgeRounds:
    """Goes through the maps of one shard once a minute."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._names: deque[str] = deque()
        """Maps to be asked in this round."""
        self._under_way = 0
        """Purges that were proposed and have no outcome yet."""
        self._next_s = 0.0

    def look(self, now_s: float, now_ms: int) -> bool:
        """Propose to forget what is overdue of some maps; tell whether there is more to do soon.

        Args:
            now_s: seconds of the loop's clock.
            now_ms: the time that the shard lives by, milliseconds since 1970.
        """
        if self._under_way:
            return True  # several looks would share a record
        wan, names = self._shard.state.wan, self._names
        if not names and now_s >= self._next_s:
            self._next_s = now_s + PURGE_PERIOD_S
            names.extend(wan.maps)
        looks = LOOKS
        for _ in range(min(MAPS, len(names))):
            if looks <= 0:
                break
            name = names.popleft()
            found = wan.maps.get(name)
            if found is None:
                continue
            purge = wan.purge_due(name, now_ms, looks)
            looks -= len(found.tombstones)
            if purge is not None:
                self._under_way += 1
                self._shard.propose(purge, partial(self._note, name), len(name))
        return bool(names or self._under_way)

    def _note(self, name: str, outcome: object) -> None:
        """Ask a map again of which a slice has gone, unless the log takes nothing now."""
        self._under_way -= 1
        found = self._shard.state.wan.maps.get(name)
        if found is not None and found.tombstones and not isinstance(outcome, Refused):
            self._names.append(name)
