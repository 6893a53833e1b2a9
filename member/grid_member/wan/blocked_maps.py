"""The maps whose changes the target refuses: each waits, and is tried again after a rest."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from grid_member.engine.wan.agreement import PublisherName
    from grid_member.wan.figures import PublisherFigures

BLOCKED_S: Final = 30.0
"""Until a map that the target refused is tried again."""
_log: Final = logging.getLogger("grid.wan")


class BlockedMaps:
    """The blocked maps of one sender. The publisher's figures name those of all its senders."""

    def __init__(
        self, name: PublisherName, figures: PublisherFigures, clock: Callable[[], float]
    ) -> None:
        """Know none; the clock is in seconds."""
        self._name = name
        self._figures = figures
        self._clock = clock
        self._until: dict[str, float] = {}
        """When maps are tried again that rest now."""
        self._told: set[str] = set()
        """What the figures name because of this sender."""

    def __contains__(self, name: str) -> bool:
        """Tell whether a map rests."""
        return name in self._until

    def moments(self) -> Collection[float]:
        """Return when maps are tried again, in seconds of the clock."""
        return self._until.values()

    def look(self, queued: Collection[str]) -> None:
        """Have maps tried again whose rest is over, and forget those of which nothing waits."""
        now_s = self._clock()
        for name in [name for name, until in self._until.items() if until <= now_s]:
            del self._until[name]
        for name in [name for name in self._told if name not in queued]:
            self._until.pop(name, None)
            self._forget(name)

    def block(self, name: str, reason: str) -> None:
        """Let a map rest that the target refused."""
        self._until[name] = self._clock() + BLOCKED_S
        self._told.add(name)
        if self._figures.blocked.get(name) != reason:
            self._figures.blocked[name] = reason
            event(_log, logging.WARNING, "blocked", **self._name._asdict(), map=name, why=reason)

    def unblock(self, name: str) -> None:
        """Note that the target took changes of a map, unless they were sent before it rested."""
        if name not in self._until:
            self._forget(name)

    def close(self) -> None:
        """Name none any more: another member may send the shard from now on."""
        for name in self._told:
            self._figures.blocked.pop(name, None)
        self._told.clear()

    def _forget(self, name: str) -> None:
        self._told.discard(name)
        if self._figures.blocked.pop(name, None) is not None:
            event(_log, logging.INFO, "no longer blocked", **self._name._asdict(), map=name)
