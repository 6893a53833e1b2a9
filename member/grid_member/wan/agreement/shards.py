"""The shards of this member, as far as they hold data: what they know of WAN replication."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from grid_member.engine.api import DataOrigin, Refused
from grid_member.engine.state.machine import State
from grid_member.engine.state.operation_table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import Operation
    from grid_member.engine.wan.agreement import PublisherName


Beyond: TypeAlias = "Callable[[Operation, Callable[[object], None]], None]"
"""Has a member that has all shards tell them; it calls back as `WanShards.propose` does."""


class WanShards:
    """Asks and tells all shards that this member has the data of."""

    def __init__(
        self, shards: Callable[[], Sequence[Shard]], origin: Callable[[], DataOrigin]
    ) -> None:
        """Ask nothing yet.

        Args:
            shards: returns all shards of the engine.
            origin: tells where their data came from.
        """
        self._shards = shards
        self._origin = origin
        self.beyond: Callable[[], Beyond | None] = lambda: None
        """Returns what tells all shards, on a member that lacks some; else None."""

    @property
    def began_as_backup(self) -> bool:
        """Whether the data came from a backup, whatever the backup says of WAN replication."""
        return self._origin() is not DataOrigin.OWN

    def with_data(self) -> list[Shard]:
        """Return the shards whose data is here; a member without data has none."""
        return [shard for shard in self._shards() if type(shard.state) is State]

    @property
    def number(self) -> int:
        """How many shards this member knows, with data or without; a lite member lacks some."""
        return len(self._shards())

    @property
    def has_all(self) -> bool:
        """Whether the data of all shards is here."""
        return bool(self.with_data()) and self.beyond() is None

    def holds(self, name: str) -> bool:
        """Tell whether a shard holds anything of a replicated map."""
        return any(name in shard.state.wan.maps for shard in self.with_data())

    def replicated(self, publisher: PublisherName) -> bool:
        """Tell whether there is any map that a publisher sends."""
        found = (each for shard in self.with_data() for each in shard.state.wan.maps.values())
        return any(publisher in each.queues for each in found)

    def propose(self, operation: Operation, done: Callable[[object], None]) -> None:
        """Tell every shard; done is called with the first refusal, or None when all have it."""
        beyond = self.beyond()
        if beyond is None:
            tell(self.with_data(), operation, done)
        else:
            beyond(operation, done)

    def queued(self, publisher: PublisherName) -> Counter[str]:
        """Return how many keys wait for a publisher, by the UUID of the member."""
        found: Counter[str] = Counter()
        for shard in self.with_data():
            for (_, member), count in shard.state.wan.queue_sizes(publisher).items():
                found[str(uuid.UUID(bytes=member))] += count
        return found

    def unsynced(self, publisher: PublisherName) -> list[str]:
        """Return the maps of which the target may miss changes that are in no queue."""
        found = [shard.state.wan.unsynced(publisher) for shard in self.with_data()]
        return sorted(set().union(*found))

    def comparing(self, publisher: PublisherName) -> list[str]:
        """Return the maps of which nothing is queued, since a queue was full."""
        found = [shard.state.wan.comparing(publisher) for shard in self.with_data()]
        return sorted(set().union(*found))


def tell(shards: Sequence[Shard], operation: Operation, done: Callable[[object], None]) -> None:
    """Propose an operation to shards; done is called once, with the first refusal or None."""
    outcomes: list[object] = []

    def note(outcome: object) -> None:
        outcomes.append(outcome)
        if len(outcomes) == len(shards):
            done(next((each for each in outcomes if isinstance(each, Refused)), None))

    if not shards:
        done(None)
    for shard in shards:
        shard.propose(operation, note, OPERATIONS.taken_bytes(operation))
