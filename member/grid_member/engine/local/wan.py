"""WAN replication of a member's engine: changes of other clusters in, queued changes out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from grid_member.engine.api import Refused
from grid_member.engine.local.wan_jobs import JobShard
from grid_member.engine.local.wan_map import ComparedMap
from grid_member.engine.state.operations import WanAcknowledge, WanMerge
from grid_member.engine.wan.agreement import MergePolicy, PublisherState
from grid_member.engine.wan.changes import ChangeKind
from grid_member.engine.wan.stamps import stamp_time_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.api import Done
    from grid_member.engine.local.maps import MapSide
    from grid_member.engine.log.log import Clock
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import AcknowledgedPlace
    from grid_member.engine.wan.agreement import Agreement, PublisherName
    from grid_member.engine.wan.changes import Change, MergeResult, QueuedChange


@dataclass(frozen=True, slots=True)
class PublisherLook:
    """How far a publisher is, as the state has it now."""

    state: PublisherState
    """Of this member."""
    queued: int
    """Keys that this member took in and the target has not got."""
    queued_by_all: int
    """The same of all members."""
    lag_ms: int
    """The age of the oldest of those changes; 0 when there is none."""
    unsynced: int
    """Maps of which the target may miss changes that are in no queue."""


class WanSide:
    """What an engine does for WAN replication."""

    def __init__(self, maps: MapSide, clock: Clock) -> None:
        self._maps = maps
        self._clock = clock

    @property
    def ready(self) -> bool:
        """Whether changes are taken, and queues can be read."""
        return self._maps.ready

    @property
    def agreement(self) -> Agreement | None:
        """What the members agreed on; None before they have."""
        return self._maps.shards[0].state.wan.agreement if self._maps.ready else None

    def shards(self) -> list[WanShard]:
        """Return each shard's part, in the order of the shards."""
        return [WanShard(shard, self._clock) for shard in self._maps.shards]

    def job_shards(self) -> list[JobShard]:
        """Return each shard's part as jobs see it, in the order of the shards."""
        return [JobShard(shard, self._clock) for shard in self._maps.shards]

    def look(self, publisher: PublisherName) -> PublisherLook | None:
        """Return how far a publisher is; None when the members have agreed on no such."""
        agreement = self.agreement
        if agreement is None or all(each.name != publisher for each in agreement.publishers):
            return None
        own = UUID(self._maps.member_uuid).bytes
        states = [shard.state for shard in self._maps.shards]
        queues = [(each, each.wan.queue_sizes(publisher)) for each in states]
        oldest = [
            stamp_time_ms(first.change.stamp)
            for state, sizes in queues
            for name, member in sizes
            for first in state.wan.read_queue(publisher, name, member, 0, 1, 0, state.timestamp_ms)
        ]
        return PublisherLook(
            state=states[0].wan.member_state(publisher, own),
            queued=sum(n for _, sizes in queues for (_, who), n in sizes.items() if who == own),
            queued_by_all=sum(sum(sizes.values()) for _, sizes in queues),
            lag_ms=max(0, self._clock() - min(oldest)) if oldest else 0,
            unsynced=sum(len(state.wan.unsynced(publisher)) for state in states),
        )

    def queued_in_memory(self) -> int:
        """Return how many keys wait for any publisher in shards that end with this process."""
        agreement = self.agreement
        if agreement is None:
            return 0
        return sum(
            sum(shard.state.wan.queue_sizes(publisher.name).values())
            for shard in self._maps.shards
            if shard.ground is None  # its log stands on no directory
            for publisher in agreement.publishers
        )

    def tombstones(self) -> int:
        """Return how many removed keys are remembered."""
        if not self._maps.ready:
            return 0
        found = (each for shard in self._maps.shards for each in shard.state.wan.maps.values())
        return sum(len(each.tombstones) for each in found)

    def compared(self, name: str) -> ComparedMap:
        """Return a map as a comparison reads it, from the shard that has anything of it."""
        shards = self._maps.shards
        holding = [each for each in shards if name in each.state.maps.by_name]
        known = [each for each in shards if name in each.state.wan.maps]
        return ComparedMap((holding or known or shards)[0], name, self._clock)

    def merge(self, change: Change, policy: MergePolicy, done: Done[MergeResult]) -> None:
        """Merge a change of another cluster."""
        found = self._maps.growing_way(change.name, done)
        if found is None:
            return
        settings, shard, done = found
        if not change.idle_ms and change.kind is ChangeKind.PUT:
            change = change._replace(idle_ms=settings.max_idle_s * 1000)
        if settings.max_idle_s or settings.eviction is not None:
            shard.reads.send(change.name)  # as before a put
        operation = WanMerge(change, policy, settings.eviction)
        shard.propose(operation, done, len(change.key) + len(change.value))


class WanShard:
    """The queues of one shard, as senders need them. It holds no state, which may be replaced."""

    def __init__(self, shard: Shard, clock: Clock) -> None:
        self._shard = shard
        self._clock = clock
        self._seen = -1

    def sendable(self, publisher: PublisherName) -> dict[tuple[str, bytes], int]:
        """Return the number of keys in each queue whose member lets the publisher send."""
        wan = self._shard.state.wan
        return {
            (name, member): size
            for (name, member), size in wan.queue_sizes(publisher).items()
            if wan.member_state(publisher, member) is PublisherState.REPLICATING
        }

    def read(
        self, publisher: PublisherName, queue: tuple[str, bytes], after: int, limit: int, most: int
    ) -> list[QueuedChange]:
        """Return up to so many changes of a queue, and about so many bytes, behind a place."""
        state = self._shard.state
        now_ms = max(self._clock(), state.timestamp_ms)
        return state.wan.read_queue(publisher, *queue, after, limit, most, now_ms)

    def unread(
        self, publisher: PublisherName, queue: tuple[str, bytes], after: int, most: int
    ) -> int:
        """Count the changes of a queue behind a place, up to so many."""
        return self._shard.state.wan.unread(publisher, *queue, after, most)

    def policy(self, name: str) -> MergePolicy:
        """Return the merge policy of a map."""
        found = self._shard.state.wan.maps.get(name)
        reference = None if found is None else found.reference
        return MergePolicy.LATEST_UPDATE if reference is None else reference.policy

    async def acknowledge(
        self, publisher: PublisherName, places: Iterable[AcknowledgedPlace]
    ) -> bool:
        """Take from the queues what the target has; False when the log does not take it now."""
        outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def note(result: object) -> None:
            if not outcome.done():
                outcome.set_result(result)

        self._shard.propose(WanAcknowledge(publisher, tuple(places)), note, 0)
        return not isinstance(await outcome, Refused)

    def changed(self) -> bool:
        """Tell whether anything was applied since this was asked last.

        The clock of the stamps does not tell: it stays when another cluster sends an older change,
        and when a publisher is resumed.
        """
        sequence = self._shard.state.sequence
        former, self._seen = self._seen, sequence
        return sequence != former
