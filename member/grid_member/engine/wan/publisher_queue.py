"""The keys of one map that wait for one publisher.

Each member has a queue of the keys that it took in, in the order of the log. A key is in the queue
of the member that changed it last, and in no other. What does not fit turns into a gap: a compare
of the map with the target finds what is missing, so nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.engine.api import Reason, Refused
from grid_member.engine.wan.agreement import PublisherState, WhenQueueFull

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_member.engine.wan.agreement import AgreedPublisher

QUEUED_OVERHEAD_BYTES: Final = 64
"""What a queued key costs in a snapshot beyond the key, about."""
MAX_TOMBSTONES: Final = 1_000_000
"""Of one map, until something else is agreed on."""
NEEDS_SYNC: Final = 1
"""A gap: changes were not queued, since their member was STOPPED or its queue was dropped."""
NEEDS_COMPARE: Final = 2
"""A gap: a queue was full. Nothing is queued until a compare begins."""
COMPARING: Final = 4
"""A gap: a sync or compare is under way, which closes the gaps there were when it began."""
_NO_KEYS: Final[dict[str, int]] = {}
_STOPPED: Final = PublisherState.STOPPED


class Shared:
    """What the replicated maps of a state share."""

    __slots__ = ("live_bytes", "max_tombstones")

    def __init__(self) -> None:
        self.live_bytes = 0
        """Of stamps, tombstones and queues, as in a snapshot, about."""
        self.max_tombstones = MAX_TOMBSTONES
        """Of one map."""


class Target:
    """A publisher as the maps of a state know it."""

    __slots__ = (
        "agreed",
        "capacity",
        "gapped",
        "initial_state",
        "may_refuse",
        "refusal",
        "states",
        "waiting",
    )  # fmt: skip

    def __init__(self, agreed: AgreedPublisher) -> None:
        """Make a publisher, all members of which are in its initial state."""
        self.agreed = agreed
        self.capacity = agreed.queue_capacity
        self.initial_state = agreed.initial_state
        self.may_refuse = agreed.when_full is not WhenQueueFull.DISCARD_AFTER_MUTATION
        """Whether a full queue refuses writes in any state of a member."""
        self.states: dict[bytes, PublisherState] = {}
        """What was set, by the member's 16 bytes; other members are in the initial state."""
        self.waiting: dict[str, PublisherQueue] = {}
        """By map, the queues in which anything waits: a sender looks at no others."""
        self.gapped: dict[str, PublisherQueue] = {}
        """By map, the queues that have gaps."""
        name = agreed.name
        self.refusal = Refused(
            Reason.OVERLOADED,
            f"WAN replication {name.replication}/{name.publisher} is full: nothing was stored",
        )

    def follow(self, former: Target) -> None:
        """Keep what the publisher was before it was agreed on anew."""
        self.states = former.states
        self.waiting = former.waiting
        self.gapped = former.gapped

    def state(self, member: bytes) -> PublisherState:
        """Return the state of a member's publisher."""
        return self.states.get(member, self.initial_state)

    def refuses(self, member: bytes) -> bool:
        """Tell whether a member's full queue refuses writes."""
        if not self.may_refuse:
            return False
        state = self.state(member)
        if self.agreed.when_full is WhenQueueFull.THROW_EXCEPTION:
            return state is not _STOPPED
        return state is PublisherState.REPLICATING


class PublisherQueue:
    """What waits of one map for one publisher."""

    __slots__ = (
        "_shared",
        "by_member",
        "clear_member",
        "clear_place",
        "gaps",
        "job",
        "name",
        "target",
    )  # fmt: skip

    def __init__(self, name: str, target: Target, shared: Shared) -> None:
        """Make an empty queue.

        Args:
            name: the map's.
            target: the publisher; the queue notes there whether anything waits in it.
            shared: counts the bytes.
        """
        self.name = name
        self.target = target
        self._shared = shared
        self.by_member: dict[bytes, dict[str, int]] = {}
        """By member (16 bytes), the place of each key in the log, in the order of places. No
        dictionary is empty."""
        self.clear_member = b""
        """The member whose queue has a clear of the map; empty when no clear waits."""
        self.clear_place = 0
        """The place of that clear in the log; 0 when no clear waits."""
        self.gaps = 0
        """Flags: `NEEDS_SYNC`, `NEEDS_COMPARE` and `COMPARING`, or 0; `set_gaps` changes them."""
        self.job = b""
        """The sync or compare that is under way; empty without one."""

    def has(self, key: str) -> bool:
        """Tell whether the key waits."""
        return any(key in keys for keys in self.by_member.values())

    def refusal(self, key: str, member: bytes) -> Refused | None:
        """Return why a change of the key that the member takes in cannot be stored."""
        keys = self.by_member.get(member)
        target = self.target
        if keys is None or len(keys) < target.capacity or key in keys:
            return None
        if self.gaps & NEEDS_COMPARE or not target.refuses(member):
            return None
        return target.refusal

    def queue(self, key: str, member: bytes, place: int) -> None:
        """Let the key wait in the member's queue alone, behind all others.

        Args:
            key: an entry's or tombstone's.
            member: 16 bytes, the UUID of the member that took the change in.
            place: of the change in the log, as of `QueuedChange.place`: above all before.
        """
        by_member, target = self.by_member, self.target
        own = by_member.get(member)
        # As Target.state says: every put comes here.
        stopped = target.states.get(member, target.initial_state) is _STOPPED
        if own is not None and key in own and not stopped:
            del own[key]
            own[key] = place
            return
        if own is None or stopped or len(by_member) > 1:
            self.forget(key)
        if stopped:
            self.set_gaps(self.gaps | NEEDS_SYNC)
            return
        if self.gaps & NEEDS_COMPARE:
            return
        if own is None:
            own = by_member[member] = {}
            target.waiting[self.name] = self
        elif len(own) >= target.capacity:
            self.empty()
            self.set_gaps(self.gaps | NEEDS_COMPARE)
            return
        own[key] = place
        self._shared.live_bytes += QUEUED_OVERHEAD_BYTES + len(key)

    def queue_clear(self, member: bytes, place: int) -> None:
        """Let a clear of the map wait in the member's queue; no key waits any more."""
        self.empty()
        if self.target.state(member) is PublisherState.STOPPED:
            self.set_gaps(self.gaps | NEEDS_SYNC)
        elif not self.gaps & NEEDS_COMPARE:
            self.set_clear(member, place)

    def load(self, key: str, member: bytes, place: int) -> None:
        """Add a queued key of a snapshot."""
        self.by_member.setdefault(member, {})[key] = place
        self.target.waiting[self.name] = self
        self._shared.live_bytes += QUEUED_OVERHEAD_BYTES + len(key)

    def forget(self, key: str) -> None:
        """Let the key wait in no queue."""
        for member, keys in self.by_member.items():
            if keys.pop(key, 0):
                self._shared.live_bytes -= QUEUED_OVERHEAD_BYTES + len(key)
                if not keys:
                    del self.by_member[member]
                    self._note_waiting()
                return

    def acknowledge(self, member: bytes, place: int) -> list[str]:
        """Take what waits in the member's queue up to a place; return the keys.

        A key that changed since then has a later place and stays.
        """
        if self.clear_member == member and self.clear_place <= place:
            self.set_clear(b"", 0)
        keys = self.by_member.get(member)
        if keys is None:
            return []
        taken: list[str] = []
        for key, at in keys.items():
            if at > place:
                break
            taken.append(key)
        self._drop(member, taken)
        return taken

    def drop_queue(self, member: bytes) -> list[str]:
        """Drop all that waits in the member's queue; return the keys."""
        taken = list(self.by_member.get(member, ()))
        if taken or self.clear_member == member:
            self.set_gaps(self.gaps | NEEDS_SYNC)
        self._drop(member, taken)
        if self.clear_member == member:
            self.set_clear(b"", 0)
        return taken

    def empty(self) -> None:
        """Drop the queues of all members."""
        for keys in self.by_member.values():
            self._shared.live_bytes -= QUEUED_OVERHEAD_BYTES * len(keys) + sum(map(len, keys))
        self.by_member.clear()
        self.set_clear(b"", 0)

    def close(self) -> None:
        """Drop everything: the publisher or the map is no more."""
        self.empty()
        self.set_gaps(0)

    def set_gaps(self, gaps: int) -> None:
        """Have these gaps, flags as of `gaps`, and no others."""
        self.gaps = gaps
        if gaps:
            self.target.gapped[self.name] = self
        else:
            self.target.gapped.pop(self.name, None)

    def set_clear(self, member: bytes, place: int) -> None:
        """Let a clear wait in a member's queue, or none: an empty member and place 0."""
        self.clear_member, self.clear_place = member, place
        self._note_waiting()

    def compare(self, job: bytes, *, begin: bool) -> None:
        """Hear that a compare or sync of the map begins, or that it has ended.

        One that is not told to have ended leaves its gap open until another one has ended.
        """
        if begin and self.job != job:
            self.job = job
            self.set_gaps(COMPARING)
        elif not begin and self.job == job:
            self.job = b""
            self.set_gaps(self.gaps & ~COMPARING)

    def size(self, member: bytes) -> int:
        """Count the keys that wait in the member's queue; a clear counts as one."""
        return len(self.by_member.get(member, ())) + (self.clear_member == member)

    def count(self) -> int:
        """Count the keys that wait in the queues of all members."""
        return sum(map(len, self.by_member.values()))

    def members(self) -> list[bytes]:
        """Return the members in whose queues anything waits, in order."""
        found = set(self.by_member)
        if self.clear_member:
            found.add(self.clear_member)
        return sorted(found)

    def count_after(self, member: bytes, place: int, most: int) -> int:
        """Count what waits in the member's queue behind a place, up to so many."""
        count = int(self.clear_member == member and self.clear_place > place)
        # From the end: what was read is at the begin, and may be much.
        for at in reversed(self.by_member.get(member, _NO_KEYS).values()):
            if at <= place or count >= most:
                break
            count += 1
        return count

    def after(self, member: bytes, place: int) -> Iterator[tuple[str, int]]:
        """Yield keys and places of what waits in the member's queue behind a place, in order."""
        for key, at in self.by_member.get(member, {}).items():
            if at > place:
                yield key, at

    def _note_waiting(self) -> None:
        if self.by_member or self.clear_member:
            self.target.waiting[self.name] = self
        else:
            self.target.waiting.pop(self.name, None)

    def _drop(self, member: bytes, taken: list[str]) -> None:
        if not taken:
            return
        keys = self.by_member[member]
        for key in taken:
            del keys[key]
            self._shared.live_bytes -= QUEUED_OVERHEAD_BYTES + len(key)
        if not keys:
            del self.by_member[member]
            self._note_waiting()
