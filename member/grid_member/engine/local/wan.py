"""WAN replication of a member's engine: changes of other clusters in, queued changes out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from grid_member.engine.api import Refused
from grid_member.engine.local.wan_jobs import JobShard
from grid_member.engine.local.wan_map import ComparedMap
from grid_member.engine.state.operations import WanAcknowledge, WanMerge
from grid_member.engine.wan.agreement import MergePolicy, PublisherState
from grid_member.engine.wan.changes import ChangeKind
from grid_member.engine.wan.stamps import stamp_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from grid_member.engine.api import Done
    from grid_member.engine.local.engine import LocalEngine
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


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What an engine of several members adds; by default that of a member that is alone."""

    whole: Callable[[], bool] = lambda: True
    """Tells whether this member has all shards, with their data."""
    is_held: Callable[[Shard], bool] = lambda _: False
    """Tells whether what a shard applied may not be shown yet, as a consistent cut goes on."""
    in_memory: Callable[[Shard], bool] = lambda shard: shard.ground is None
    """Tells whether a shard ends with the processes of the cluster: its log is in no directory."""
    agreed: Callable[[], Agreement | None] = lambda: None
    """Returns what the members agreed on, for a member that holds no data."""


ALONE: Final = ClusterView()


class WanSide:
    """What an engine does for WAN replication."""

    def __init__(self, engine: LocalEngine, view: ClusterView = ALONE) -> None:
        self._engine = engine
        self._view = view
        self._shards: dict[Shard, WanShard] = {}

    @property
    def ready(self) -> bool:
        """Whether changes are taken, and queues can be read."""
        return self._engine.ready

    @property
    def whole(self) -> bool:
        """Whether this member has all shards, with their data."""
        return self._view.whole()

    @property
    def agreement(self) -> Agreement | None:
        """What the members agreed on; None before they have."""
        if not self._engine.ready:
            return None
        return self._engine.shards[0].state.wan.agreement or self._view.agreed()

    def shards(self) -> list[WanShard]:
        """Return each shard's part, in the order of the shards; none unless all are here."""
        if not (self._engine.ready and self.whole):
            return []
        known = self._shards
        self._shards = {
            shard: known.get(shard) or WanShard(shard, self._engine.now_of, self._view.is_held)
            for shard in self._engine.shards
        }
        return list(self._shards.values())

    def job_shards(self) -> list[JobShard]:
        """Return each shard's part as jobs see it, in the order of the shards."""
        return [
            JobShard(shard, partial(self._engine.now_of, shard), self._view.is_held)
            for shard in self._engine.shards
        ]

    def look(self, publisher: PublisherName) -> PublisherLook | None:
        """Return how far a publisher is; None when the members have agreed on no such.

        A member that lacks shards does not know it either.
        """
        agreement = self.agreement if self.whole else None
        if agreement is None or all(each.name != publisher for each in agreement.publishers):
            return None
        own = UUID(self._engine.member_uuid).bytes
        states = [shard.state for shard in self._engine.shards]
        queues = [(each, each.wan.queue_sizes(publisher)) for each in states]
        oldest = [
            stamp_time_ms(first.change.stamp)
            for state, sizes in queues
            for name, member in sizes
            for first in state.wan.read_queue(publisher, name, member, 0, 1, 0, state.timestamp_ms)
        ]
        now_ms = max(map(self._engine.now_of, self._engine.shards))
        return PublisherLook(
            state=states[0].wan.member_state(publisher, own),
            queued=sum(n for _, sizes in queues for (_, who), n in sizes.items() if who == own),
            queued_by_all=sum(sum(sizes.values()) for _, sizes in queues),
            lag_ms=max(0, now_ms - min(oldest)) if oldest else 0,
        )

    def queued_in_memory(self) -> int:
        """Return how many keys wait for any publisher in shards that end with this process."""
        agreement = self.agreement
        if agreement is None:
            return 0
        return sum(
            sum(shard.state.wan.queue_sizes(publisher.name).values())
            for shard in self._engine.shards
            if self._view.in_memory(shard)
            for publisher in agreement.publishers
        )

    def tombstones(self) -> int:
        """Return how many removed keys are remembered."""
        if not self._engine.ready:
            return 0
        found = (each for shard in self._engine.shards for each in shard.state.wan.maps.values())
        return sum(len(each.tombstones) for each in found)

    def compared(self, name: str) -> ComparedMap:
        """Return a map as a comparison reads it, from the shard that has anything of it."""
        shards = self._engine.shards
        holding = [each for each in shards if name in each.state.maps.by_name]
        known = [each for each in shards if name in each.state.wan.maps]
        shard = (holding or known or shards)[0]
        return ComparedMap(shard, name, partial(self._engine.now_of, shard))

    def merge(self, change: Change, policy: MergePolicy, done: Done[MergeResult]) -> None:
        """Merge a change of another cluster."""
        found = self._engine.growing_way(change.name, done)
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

    def __init__(
        self,
        shard: Shard,
        now_of: Callable[[Shard], int],
        is_held: Callable[[Shard], bool],
    ) -> None:
        self._shard = shard
        self._now_of = now_of
        self._is_held = is_held
        self._seen = -1
        self._state = shard.state
        self._epoch = 0

    def epoch(self) -> int:
        """Return a number that changes when the log was read anew.

        It may be another log then: one in memory that its servers lost begins again.
        """
        if self._shard.state is not self._state:
            self._state = self._shard.state
            self._epoch += 1
        return self._epoch

    def state_of(self, publisher: PublisherName, member: bytes) -> PublisherState | None:
        """Return what a member does for a publisher; None when there is no such publisher."""
        try:
            return self._shard.state.wan.member_state(publisher, member)
        except KeyError:
            return None

    def queued_maps(self, publisher: PublisherName) -> Collection[str]:
        """Return the maps of which anything waits, also if it may not be sent now."""
        return self._shard.state.wan.queued_maps(publisher)

    def sendable(self, publisher: PublisherName) -> dict[tuple[str, bytes], int]:
        """Return the number of keys in each queue whose member lets the publisher send."""
        if self._is_held(self._shard):
            return {}  # a backup that is made now may not have what waits
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
        if self._is_held(self._shard):
            return []  # the cut began after the sender had looked at what may be sent
        now_ms = self._now_of(self._shard)
        return self._shard.state.wan.read_queue(publisher, *queue, after, limit, most, now_ms)

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
        self.epoch()  # a state that was replaced is not kept
        sequence = self._shard.state.sequence
        former, self._seen = self._seen, sequence
        return sequence != former
