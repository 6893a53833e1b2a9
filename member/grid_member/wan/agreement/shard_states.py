"""What the shards are to know that members do for publishers, and do not know yet.

A member that a call gave a state has that one, any other member on the list the one that the
publisher begins with. A member that left for good is REPLICATING as soon as any member with data
is: it sends nothing itself, and the others send what it took in.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, TypeAlias

from grid_member.engine.wan.agreement import PublisherName, PublisherState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from grid_member.engine.shard.shard import Shard
    from grid_member.wan.agreement.shards import WanShards
    from grid_member.wan.agreement.store import WanStore

WantedState: TypeAlias = tuple[PublisherName, str, PublisherState]
"""A publisher, a member's UUID, and what that member does for the publisher."""


class ShardStates:
    """Compares the states that the shards of this member have with those that they are to have."""

    def __init__(self, stored: WanStore, shards: WanShards) -> None:
        self._stored = stored
        self._shards = shards
        self._missing: frozenset[WantedState] = frozenset()
        """The states that any shard had otherwise at the last look."""

    def look(self, with_data: Collection[str], others: Collection[str]) -> list[WantedState]:
        """Return the states that any shard had otherwise at this look and at the one before.

        At the first look a call that sets another state may have reached the shard, and not this
        member's copy of the store.

        Args:
            with_data: UUIDs of the members on the list that have data.
            others: UUIDs of the other members on the list, and of those that may come back.
        """
        wanted = {*self._kept(), *self._begun(with_data, others), *self._left(with_data, others)}
        missing = frozenset(each for each in wanted if self._is_missing(*each))
        found = sorted(missing & self._missing, key=str)
        self._missing = missing
        return found

    def forget(self) -> None:
        """Let the next look be the first one."""
        self._missing = frozenset()

    def _kept(self) -> Iterator[WantedState]:
        for (publisher, member), state in self._stored.states().items():
            yield publisher, member, state

    def _begun(self, with_data: Collection[str], others: Collection[str]) -> Iterator[WantedState]:
        """Yield the states of members that no call has set.

        A shard has another one when a call set it whose record is not there (any more).
        """
        states = self._stored.states()
        for publisher, initial in self._publishers():
            for member in (*with_data, *others):
                if (publisher, member) not in states:
                    yield publisher, member, initial

    def _left(self, with_data: Collection[str], others: Collection[str]) -> Iterator[WantedState]:
        """Yield the states of members that are gone for good and have left a queue.

        No call can reach such a member. The others send its queue, as soon as any of them sends.
        """
        states = self._stored.states()
        present = {*with_data, *others, *self._stored.members()}
        for publisher, initial in self._publishers():
            found = {states.get((publisher, member), initial) for member in with_data}
            if PublisherState.REPLICATING in found:
                for member in self._shards.queued(publisher).keys() - present:
                    yield publisher, member, PublisherState.REPLICATING

    def _publishers(self) -> Iterator[tuple[PublisherName, PublisherState]]:
        """Yield the publishers and what they begin with, but for those that a restore paused."""
        agreed = self._stored.config
        for name, config in () if agreed is None else agreed.section.publishers():
            if not self._stored.paused_by_restore(name):
                yield name, PublisherState(config.initial_publisher_state)

    def _is_missing(self, publisher: PublisherName, member: str, state: PublisherState) -> bool:
        member_bytes = uuid.UUID(member).bytes
        found = (_state(each, publisher, member_bytes) for each in self._shards.with_data())
        return any(each not in (state, None) for each in found)


def _state(shard: Shard, publisher: PublisherName, member: bytes) -> PublisherState | None:
    try:
        return shard.state.wan.member_state(publisher, member)
    except KeyError:
        return None
