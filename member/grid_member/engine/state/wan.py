"""WAN replication in a state machine: what clients and other clusters change, and what waits.

`Registry` has the stamps, tombstones and queues of all maps; the entries are in `Maps`. Here the
changes of other clusters meet the entries, and a sender reads what a publisher has not sent yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.engine.api import Reason, Refused
from grid_member.engine.state.operations import WanPurge, made
from grid_member.engine.state.snapshot import (
    ForgottenPart,
    Idleness,
    QueuedPart,
    SnapshotError,
    StampPart,
    TombstonePart,
    WanMapPart,
    WanMapSnapshot,
    WanPart,
    WanSnapshot,
)
from grid_member.engine.wan.agreement import MergePolicy, PublisherName, PublisherState
from grid_member.engine.wan.changes import (
    MAX_PASSED,
    Change,
    ChangeKind,
    MergeResult,
    QueuedChange,
)
from grid_member.engine.wan.merging import known_entry, known_removal, merge_result
from grid_member.engine.wan.publisher_queue import NEEDS_COMPARE, NEEDS_SYNC
from grid_member.engine.wan.stamps import last_stamp

if TYPE_CHECKING:
    from collections.abc import Collection

    from grid_member.engine.state.maps import Maps
    from grid_member.engine.state.operations import (
        WanAcknowledge,
        WanAgree,
        WanCompare,
        WanDropQueue,
        WanMemberState,
        WanMerge,
    )
    from grid_member.engine.state.stored import StoredEntry
    from grid_member.engine.wan.agreement import Agreement, MapReference
    from grid_member.engine.wan.map_wan import MapWan
    from grid_member.engine.wan.merging import Known
    from grid_member.engine.wan.registry import Registry

_NOT_AGREED = Refused(
    Reason.UNAVAILABLE, "the members have not agreed on WAN replication yet: try again"
)
_AHEAD = Refused(
    Reason.CLOCK_AHEAD,
    "the change is from a clock further ahead than wan.max-clock-ahead-seconds: set the clocks",
)
_UNKNOWN_NAME: Final = (
    "the snapshot is damaged: a part of WAN replication names a map or publisher that it does not "
    "hold. Restore a backup"
)


class Wan:
    """The part of a state that WAN replication is about."""

    def __init__(self, registry: Registry, maps: Maps) -> None:
        self._registry = registry
        self._maps = maps

    # Reads

    @property
    def agreement(self) -> Agreement | None:
        """What the members agreed on; None before they have."""
        return self._registry.agreement

    @property
    def clock(self) -> int:
        """The greatest stamp of all changes that were applied."""
        return self._registry.clock

    @property
    def live_bytes(self) -> int:
        """What stamps, tombstones and queues take in a snapshot, about."""
        return self._registry.shared.live_bytes

    @property
    def maps(self) -> dict[str, MapWan]:
        """The replicated maps, with or without entries."""
        return self._registry.maps

    @property
    def forgotten(self) -> int:
        """The newest stamp at which parts of maps that held nothing any more were purged."""
        return self._registry.forgotten

    def member_state(self, publisher: PublisherName, member: bytes) -> PublisherState:
        """Return what a member does with the changes that it takes in for a publisher.

        Raises:
            KeyError: the members have not agreed on the publisher.
        """
        return self._registry.targets[publisher].state(member)

    def reference(self, map_name: str) -> MapReference | None:
        """Return how maps of a name are replicated, None when they are not."""
        return self._registry.reference(map_name)

    def queued_maps(self, publisher: PublisherName) -> Collection[str]:
        """Return the maps of which anything waits in any member's queue."""
        target = self._registry.targets.get(publisher)
        return () if target is None else target.waiting.keys()

    def queue_sizes(self, publisher: PublisherName) -> dict[tuple[str, bytes], int]:
        """Return how many keys wait, by map and member; the clear of a map counts as one."""
        target = self._registry.targets.get(publisher)
        return {
            (name, member): queue.size(member)
            for name, queue in ({} if target is None else target.waiting).items()
            for member in queue.members()
        }

    def comparing(self, publisher: PublisherName) -> set[str]:
        """Return the maps of which nothing is queued, since a queue was full.

        They have to be compared with the target; `WanCompare` begins that.
        """
        return self._with_gap(publisher, NEEDS_COMPARE)

    def unsynced(self, publisher: PublisherName) -> set[str]:
        """Return the maps of which the target may miss changes that are in no queue.

        They are those of `comparing`, those that need a sync, and those of which one is under way.
        """
        return self._with_gap(publisher, -1)

    def purge_due(self, name: str, now_ms: int, looks: int) -> WanPurge | None:
        """Return what forgets something of a map now, None when nothing of it may go.

        The map has tombstones older than their retention, or holds nothing any more.

        Args:
            name: the map's.
            now_ms: the log's time, milliseconds since 1970.
            looks: how many tombstones are looked at, here and by the purge.
        """
        found, through = self.maps.get(name), self._retained_from(now_ms)
        if found is None:
            return None
        spent = name not in self._maps.by_name and found.is_spent(through)
        return WanPurge(name, through, looks) if spent or found.overdue(through, looks) else None

    def unread(
        self, publisher: PublisherName, map_name: str, member: bytes, after_place: int, most: int
    ) -> int:
        """Count what waits in a member's queue behind a place, up to so many."""
        found = self._registry.maps.get(map_name)
        queue = None if found is None else found.queues.get(publisher)
        return 0 if queue is None else queue.count_after(member, after_place, most)

    def read_queue(
        self,
        publisher: PublisherName,
        map_name: str,
        member: bytes,
        after_place: int,
        limit: int,
        max_bytes: int,
        now_ms: int,
    ) -> list[QueuedChange]:
        """Return changes that wait in a member's queue, as they are now, in the order of places.

        Args:
            publisher: sends them.
            map_name: their map.
            member: took them in.
            after_place: those up to this place are left out; 0 leaves out none.
            limit: changes at most.
            max_bytes: bytes of keys and values after which there is no further one.
            now_ms: the log's time; what has ended by then is a removal.
        """
        found = self._registry.maps.get(map_name)
        queue = None if found is None else found.queues.get(publisher)
        if found is None or queue is None:
            return []
        changes: list[QueuedChange] = []
        size_bytes = 0
        clear_place = queue.clear_place if queue.clear_member == member else 0
        of_map = self._maps.by_name.get(map_name)
        plain = of_map.entries if of_map is not None and of_map.plain else {}
        own, passed = self._passed_here(()), found.passed
        for key, place in queue.after(member, after_place):
            if len(changes) >= limit or (changes and size_bytes >= max_bytes):
                return changes
            if after_place < clear_place < place:
                changes.append(QueuedChange(clear_place, self.clear_change(map_name)))
                clear_place = 0
                if len(changes) >= limit:
                    return changes
            stored = plain.get(key)
            change: Change | None
            if stored is None or key in passed:
                change = self.change(map_name, key, now_ms)
            else:
                change = _plain_put(map_name, key, found.stamp(key), stored, own)
            if change is not None:
                size_bytes += len(key) + len(change.value)
                changes.append(made(QueuedChange, (place, change)))
        if clear_place > after_place and len(changes) < limit:
            changes.append(QueuedChange(clear_place, self.clear_change(map_name)))
        return changes

    def change(self, map_name: str, key: str, now_ms: int) -> Change | None:
        """Return the last change of a key of a replicated map, None when nothing is known of it."""
        found = self._registry.maps.get(map_name)
        if found is None:
            return None
        passed = self._passed_here(found.passed.get(key, ()))
        of_map = self._maps.by_name.get(map_name)
        stored = None if of_map is None else of_map.entries.get(key)
        if of_map is None or stored is None:
            stamp = found.tombstones.get(key, 0)
            if not stamp:
                return None
            return Change(map_name, ChangeKind.REMOVAL, key, stamp, b"", None, 0, 0, passed)
        stamp = found.stamp(key)
        deadline_ms = of_map.deadlines.get(key, 0)
        if deadline_ms and deadline_ms <= now_ms:
            return Change(map_name, ChangeKind.REMOVAL, key, stamp, b"", None, 0, 0, passed)
        value, content_type = (stored, None) if isinstance(stored, bytes) else stored
        idleness = of_map.idle.get(key)
        idle_ms = 0 if idleness is None else idleness.idle_ms
        return Change(
            map_name, ChangeKind.PUT, key, stamp, value, content_type, deadline_ms, idle_ms, passed
        )

    def clear_change(self, map_name: str) -> Change:
        """Return the last clear of a replicated map; its stamp is 0 when there was none.

        Raises:
            KeyError: the map is not replicated.
        """
        found = self._registry.maps[map_name]
        passed = self._passed_here(found.cleared_passed)
        return Change(map_name, ChangeKind.CLEAR, "", found.cleared, b"", None, 0, 0, passed)

    # Snapshots

    def snapshot(self) -> WanSnapshot:
        """Return copies of everything that a snapshot keeps."""
        registry = self._registry
        states = tuple(
            (name, member, target.states[member])
            for name, target in registry.targets.items()
            for member in sorted(target.states)
        )
        whole = WanPart(registry.clock, registry.agreement, states)
        maps = {name: _copy(name, of) for name, of in registry.maps.items()}
        return WanSnapshot(whole, maps, registry.forgotten)

    def load(
        self, part: WanPart | ForgottenPart | WanMapPart | StampPart | TombstonePart | QueuedPart
    ) -> None:
        """Add a part of a snapshot.

        Raises:
            SnapshotError: the part names a map or publisher that no part before it has.
        """
        try:
            self._load(part)
        except KeyError:
            raise SnapshotError(_UNKNOWN_NAME) from None

    def _load(
        self, part: WanPart | ForgottenPart | WanMapPart | StampPart | TombstonePart | QueuedPart
    ) -> None:
        registry = self._registry
        if isinstance(part, StampPart):
            registry.maps[part.name].load_stamp(part.key, part.stamp, part.passed)
        elif isinstance(part, TombstonePart):
            registry.maps[part.name].load_tombstone(part.key, part.stamp, part.passed)
        elif isinstance(part, QueuedPart):
            queue = registry.maps[part.name].queues[part.publisher]
            queue.load(part.key, part.member, part.place)
        elif isinstance(part, WanPart):
            registry.restore(*part)
        elif isinstance(part, ForgottenPart):
            registry.forgotten = part.stamp
        else:
            found = registry.begin(part.name)
            found.floor, found.cleared, found.cleared_passed = part[1:4]
            found.purged, found.ambiguous, found.received = part[4:7]
            for queue in found.queues.values():
                # Of a merged snapshot: another shard knew of the publisher already.
                queue.set_gaps(NEEDS_SYNC)
            for publisher, member, place, gaps, job in part.queues:
                queue = found.queues[publisher]
                queue.set_clear(member, place)
                queue.set_gaps(gaps)
                queue.job = job

    # Applying: operation, member, place, now_ms

    def agree(self, operation: WanAgree, member: bytes, place: int, now_ms: int) -> bool:
        """Go by an agreement, unless it is no newer."""
        maps = self._maps.by_name
        if not self._registry.agree(operation.agreement, maps.keys(), now_ms):
            return False
        for name, found in maps.items():
            found.replicate(self._registry.maps.get(name))
        return True

    def set_member_state(
        self, operation: WanMemberState, member: bytes, place: int, now_ms: int
    ) -> bool:
        """Set a member's state, if there is such a publisher."""
        target = self._registry.targets.get(operation.publisher)
        if target is None:
            return False
        target.states[operation.member] = operation.state
        return True

    def acknowledge(
        self, operation: WanAcknowledge, member: bytes, place: int, now_ms: int
    ) -> None:
        """Take what the target has from queues.

        A place behind that of the operation itself is one of another log: a log in memory that its
        servers lost begins again, and places with it.
        """
        for name, of, up_to in operation.places:
            found = self._registry.maps.get(name)
            if found is not None and up_to < place:
                found.acknowledge(operation.publisher, of, up_to)

    def drop_queue(self, operation: WanDropQueue, member: bytes, place: int, now_ms: int) -> None:
        """Drop a member's queues."""
        registry = self._registry
        target = registry.targets.get(operation.publisher)
        for name in [] if target is None else list(target.waiting):
            registry.maps[name].drop_queue(operation.publisher, operation.member)

    def compare(self, operation: WanCompare, member: bytes, place: int, now_ms: int) -> None:
        """Begin or end a compare, if the map and the publisher are there."""
        found = self._registry.maps.get(operation.name)
        queue = None if found is None else found.queues.get(operation.publisher)
        if queue is not None:
            queue.compare(operation.job, begin=operation.begin)

    def purge(self, operation: WanPurge, member: bytes, place: int, now_ms: int) -> None:
        """Forget tombstones, and the map's part when it has held nothing for their retention.

        Clients choose names of maps: a part that stayed would fill the memory.
        """
        name, through, most = operation
        found = self._registry.maps.get(name)
        if found is None:
            return
        found.purge(through, most)
        spent = found.is_spent(min(through, self._retained_from(now_ms)))
        if spent and name not in self._maps.by_name:
            self._registry.forget(name)

    def merge(
        self, operation: WanMerge, member: bytes, place: int, now_ms: int
    ) -> MergeResult | Refused:
        """Take a change of another cluster, unless what the map has counts."""
        change, policy, _ = operation
        registry, agreement = self._registry, self._registry.agreement
        if agreement is None:
            return _NOT_AGREED
        if agreement.cluster_id in change.passed:
            return MergeResult.LOOPED
        if change.stamp > last_stamp(now_ms + agreement.max_clock_ahead_ms):
            return _AHEAD
        found = registry.of(change.name) or self._begin(change.name, now_ms)
        found.note_received(policy)
        registry.clock = max(registry.clock, change.stamp)
        if change.kind is ChangeKind.CLEAR:
            return self._merge_clear(change, policy, found, member, place)
        if change.kind is ChangeKind.PUT and 0 < change.deadline_ms <= now_ms:
            change = change._replace(kind=ChangeKind.REMOVAL, value=b"", content_type=None)
        return self._merge_key(operation._replace(change=change), found, member, place, now_ms)

    def _merge_key(
        self, operation: WanMerge, found: MapWan, member: bytes, place: int, now_ms: int
    ) -> MergeResult:
        change, policy, eviction = operation
        name, kind, key, stamp = change.name, change.kind, change.key, change.stamp
        if stamp <= _cleared(found, policy):
            return MergeResult.OLDER
        known = self._known(name, key, found)
        result = merge_result(change, policy, known)
        if result is not MergeResult.TAKEN:
            return result
        if kind is ChangeKind.REMOVAL:
            found.remove(key, stamp, member, place, change.passed)
            self._maps.drop(name, key)
            return result
        found.put(key, stamp, member, place, change.passed)
        entry = name, key, change.value, change.content_type, change.deadline_ms
        idleness = Idleness(change.idle_ms, now_ms) if change.idle_ms else None
        self._maps.store_bounded(entry, idleness, eviction, place)
        if known is None and found.counts_as_ambiguous(stamp):
            found.ambiguous += 1
            return MergeResult.AMBIGUOUS
        return result

    def _merge_clear(
        self, change: Change, policy: MergePolicy, found: MapWan, member: bytes, place: int
    ) -> MergeResult:
        name, stamp, cleared = change.name, change.stamp, _cleared(found, policy)
        if stamp <= cleared:
            return MergeResult.UNCHANGED if stamp == cleared else MergeResult.OLDER
        if policy is MergePolicy.PUT_IF_ABSENT:
            return MergeResult.OLDER
        of_map = self._maps.by_name.get(name)
        if of_map is not None:
            old = [
                key
                for key in of_map.entries
                if found.filter.includes(key)
                and (
                    found.stamp(key) <= stamp
                    or (policy is MergePolicy.PASS_THROUGH and key not in found.passed)
                )
            ]
            if len(old) == len(of_map.entries):
                self._maps.drop_all(name)
            else:
                for key in old:
                    found.entry_cleared(key)
                    self._maps.drop(name, key)
        found.clear(stamp, member, place, change.passed)
        return MergeResult.TAKEN

    def _begin(self, name: str, now_ms: int) -> MapWan:
        """Begin to replicate a map that no reference names: another cluster sends its changes."""
        self._registry.tick(now_ms)
        found = self._registry.begin(name)
        of_map = self._maps.by_name.get(name)
        if of_map is not None:
            of_map.replicate(found)
        return found

    def _known(self, name: str, key: str, found: MapWan) -> Known | None:
        of_map = self._maps.by_name.get(name)
        stored = None if of_map is None else of_map.entries.get(key)
        by_wan = key in found.passed
        if of_map is not None and stored is not None:
            value, content_type = (stored, None) if isinstance(stored, bytes) else stored
            deadline_ms = of_map.deadlines.get(key, 0)
            return known_entry(found.stamp(key), value, content_type, deadline_ms, by_wan=by_wan)
        stamp = found.tombstones.get(key, 0)
        return known_removal(stamp, by_wan=by_wan) if stamp else None

    def _passed_here(self, passed: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Return the clusters that a change has passed when it leaves this one."""
        agreement = self._registry.agreement
        own = () if agreement is None else (agreement.cluster_id,)
        return (*passed, *own)[-MAX_PASSED:]

    def _retained_from(self, now_ms: int) -> int:
        """Return the newest stamp that is older than the retention of tombstones; 0 is none."""
        agreement = self._registry.agreement
        return 0 if agreement is None else last_stamp(now_ms - agreement.tombstone_retention_ms)

    def _with_gap(self, publisher: PublisherName, gap: int) -> set[str]:
        target = self._registry.targets.get(publisher)
        gapped = {} if target is None else target.gapped
        return {name for name, queue in gapped.items() if queue.gaps & gap}


def _plain_put(
    name: str, key: str, stamp: int, stored: StoredEntry, passed: tuple[bytes, ...]
) -> Change:
    """Return the put of an entry that has no end, as most have, with few look-ups."""
    value, content_type = (stored, None) if isinstance(stored, bytes) else stored
    return made(Change, (name, ChangeKind.PUT, key, stamp, value, content_type, 0, 0, passed))


def _cleared(found: MapWan, policy: MergePolicy) -> int:
    """Return the stamp up to which changes of other clusters are over by the policy."""
    return found.cleared_for_all if policy is MergePolicy.PASS_THROUGH else found.cleared


def _copy(name: str, found: MapWan) -> WanMapSnapshot:
    marks = tuple(
        (publisher, queue.clear_member, queue.clear_place, queue.gaps, queue.job)
        for publisher, queue in found.queues.items()
    )
    return WanMapSnapshot(
        WanMapPart(
            name, found.floor, found.cleared, found.cleared_passed, found.purged, found.ambiguous,
            found.received, marks,
        ),
        found.stamps.copy(),
        found.tombstones.copy(),
        found.passed.copy(),
        {
            publisher: {member: keys.copy() for member, keys in queue.by_member.items()}
            for publisher, queue in found.queues.items()
        },
    )  # fmt: skip
