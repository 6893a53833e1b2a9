"""Where a structure lives: in the shard of its settings, but not away from its data.

A change of the configuration, at run time or between two starts, may give a structure another
shard. As long as its data, or an operation that brings some, is in the one before, everything goes
on there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from grid_member.engine.api import MapSettings, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Collection

    from grid_member.engine.api import Done, Refused
    from grid_member.engine.local.usage import StructureKind
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.shard.shards import Shards

MAX_WARNINGS: Final = 20
"""Structures of a kind that a start names because their data is not where their settings say."""
T = TypeVar("T")
_log = logging.getLogger("grid_member.engine.placement")

SettingsOf: TypeAlias = Callable[[str], MapSettings | QueueSettings | None]


class _StrayOperations:
    """Operations on their way to a shard that need not be the one of the structure's settings."""

    __slots__ = ("number", "shard")

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.number = 0


class Placement:
    """The shards of maps, or of queues."""

    def __init__(self, shards: Shards, names: Callable[[Shard], Collection[str]]) -> None:
        """Place everything by its settings first; names returns what holds anything in a shard."""
        self._shards = shards
        self._names = names
        self._strays: dict[str, _StrayOperations] = {}
        self.changed = False
        """Whether settings changed, now or since the data was stored: else nothing is elsewhere,
        and nothing that is on its way has to be counted."""
        self._former: SettingsOf | None = None
        self._bounds: list[tuple[Shard, int]] = []

    def shard(self, name: str, persistent: bool) -> Shard:
        """Return the shard of the structure called name."""
        shards = self._shards
        volatile = shards.volatile
        if volatile is not None and not persistent and not self.changed:
            return volatile
        durable = shards.only or shards.durable_of(name)
        if volatile is None or not self.changed:
            return durable
        home, other = (durable, volatile) if persistent else (volatile, durable)
        if self._strays or self._former is not None:
            return self._unsettled_shard(name, persistent, home, other)
        return other if name in self._names(other) else home

    def counting(self, name: str, shard: Shard, persistent: bool, done: Done[T]) -> Done[T]:
        """Return the callback of an operation that brings data to a shard that `shard` returned."""
        volatile = self._shards.volatile
        if volatile is None or not self.changed:
            return done
        if self._former is None and (shard is not volatile) is persistent:
            return done
        strays = self._strays.setdefault(name, _StrayOperations(shard))
        strays.number += 1

        def counted(outcome: T | Refused) -> None:
            strays.number -= 1
            if not strays.number:
                del self._strays[name]
            done(outcome)

        return counted

    def away(self, name: str, persistent: bool) -> bool:
        """Tell whether the structure is in a shard that this member does not have."""
        return False

    def begin(self, kind: StructureKind, settings_of: SettingsOf) -> None:
        """Hear with which settings a start finds the data that there is.

        What is on disk stays there, though its settings say that it is not kept any more: they may
        be a mistake, or meant for one start.
        """
        if self._shards.volatile is None:
            return
        stay: list[str] = []
        for shard in self._shards.durable:
            for name in self._names(shard):
                settings = settings_of(name)
                if settings is not None and not settings.persistent:
                    stay.append(name)
        self.changed = bool(stay)
        for name in stay[:MAX_WARNINGS]:
            _log.warning(
                "the %s %s has data on disk but data-persistence is off: "
                "it stays on disk until it is empty", kind, name,
            )  # fmt: skip
        if len(stay) > MAX_WARNINGS:
            _log.warning("the same with %d more", len(stay) - MAX_WARNINGS)

    def change(self, former: SettingsOf) -> None:
        """Hear that settings changed: what is on its way and not counted went by the former ones.

        Until that has its outcome everything is counted, so that further changes need no more.
        """
        if self._changing():
            return
        self.changed = True
        self._former = former
        self._bounds = [(shard, shard.bound()) for shard in self._shards.all]

    def _changing(self) -> bool:
        if self._former is not None and all(
            shard.is_passed(bound) for shard, bound in self._bounds
        ):
            self._former = None
        return self._former is not None

    def _unsettled_shard(self, name: str, persistent: bool, home: Shard, other: Shard) -> Shard:
        strays = self._strays.get(name)
        if strays is not None:
            return strays.shard
        if name in self._names(other):
            return other
        if not self._changing() or self._former is None or name in self._names(home):
            return home
        settings = self._former(name)
        return home if settings is None or settings.persistent is persistent else other
