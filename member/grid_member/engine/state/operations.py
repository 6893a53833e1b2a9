"""What can be proposed to the state machine: operations, and records that pack them.

An operation is data. Named tuples, because several are made for every request and they are
built in one step and hash and compare as values.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from grid_member.engine.api import ClusterState, Eviction, Item, Refused

# Compiled named tuples look up the types of their fields when the module is loaded.
from grid_member.engine.wan.agreement import (  # noqa: TC001
    Agreement,
    MergePolicy,
    PublisherName,
    PublisherState,
)
from grid_member.engine.wan.changes import Change, MergeResult

made: Final = tuple.__new__
"""Makes a named tuple as calling its class does, in half the time: for those of every request."""
MAX_OPERATIONS_PER_RECORD: Final = 4096
"""Operations on data; more of one tick travel in several records. Item identifiers rely on it."""


class MapPut(NamedTuple):
    """Create or replace an entry that lives ttl_ms from the record's timestamp, 0 for ever."""

    name: str
    key: str
    value: bytes
    content_type: str | None
    ttl_ms: int


class MapPutBounded(NamedTuple):
    """As `MapPut`, in a map whose entries go when they are idle or too many.

    The settings travel with the operation, so that whoever applies it decides alike.
    """

    name: str
    key: str
    value: bytes
    content_type: str | None
    ttl_ms: int
    idle_ms: int
    """The entry goes when it was not accessed for so long; 0 is never."""
    eviction: Eviction | None
    """What the map may hold, and which other entries go when this one makes it hold more."""


class Access(NamedTuple):
    """Reads of one key since the last time the log was told."""

    key: str
    accessed_ms: int
    """When the last of them was."""
    hits: int
    """How many count for the order of eviction."""


class MapTouch(NamedTuple):
    """Note reads of a map's entries, in the order of each key's last; a missing one is skipped."""

    name: str
    accesses: tuple[Access, ...]


class MapRemove(NamedTuple):
    """Remove an entry; nothing happens when there is none."""

    name: str
    key: str


class MapExpire(NamedTuple):
    """Remove an entry whose deadline is at or before the record's timestamp."""

    name: str
    key: str


class MapExpireIdle(NamedTuple):
    """Remove an idle entry, unless it was written or touched since the log said accessed_ms."""

    name: str
    key: str
    accessed_ms: int


class MapClear(NamedTuple):
    """Remove all entries of a map at once."""

    name: str


class QueueOffer(NamedTuple):
    """Append an item unless the queue holds max_size items, those in flight counted."""

    name: str
    value: bytes
    content_type: str | None
    max_size: int


class QueueTake(NamedTuple):
    """Move the head into flight for the record's member; the outcome is the item or None."""

    name: str


class QueueConfirm(NamedTuple):
    """Forget an item that was taken; nothing happens when that delivery is over."""

    name: str
    item_id: int
    take_id: int
    """Which delivery of it is meant; 0 is any, as in records that did not name one yet."""


class QueueReturn(NamedTuple):
    """Put a taken item back where it stood, before every item offered after it.

    Nothing happens when that delivery is over.
    """

    name: str
    item_id: int
    take_id: int
    """As in `QueueConfirm`."""


class ClusterStateChange(NamedTuple):
    """Set the cluster state; the outcome is False when it was that already."""

    state: ClusterState


class TransientStateChange(NamedTuple):
    """The same, but a restart begins with the state that was set otherwise."""

    state: ClusterState


class SystemPut(NamedTuple):
    """Set a system value that lives ttl_ms from the record's timestamp, 0 for ever.

    The outcome is None, or a `Refused` when the system store would hold too much.
    """

    key: str
    value: bytes
    ttl_ms: int


class SystemRemove(NamedTuple):
    """Remove a system value; nothing happens when there is none."""

    key: str


class SystemExpire(NamedTuple):
    """Remove the system values whose deadline is at or before the record's timestamp."""


class MemberGone(NamedTuple):
    """End a member's incarnation: what it has in flight returns, what else it sent is refused.

    Nothing happens when it is in another incarnation already.
    """

    member: bytes
    incarnation: int


class WanAgree(NamedTuple):
    """Go by what the members agreed on about WAN replication, unless the state's is as new.

    The outcome is False when it is.
    """

    agreement: Agreement


class WanMerge(NamedTuple):
    """Merge a change that another cluster sent.

    The outcome is a `MergeResult`, or a `Refused` when the stamp is too far ahead of the log's
    time, or the members have not agreed on anything yet.
    """

    change: Change
    policy: MergePolicy
    eviction: Eviction | None
    """As of `MapPutBounded`, by this cluster's configuration of the map."""


AcknowledgedPlace: TypeAlias = tuple[str, bytes, int]
"""A map, a member, and the place up to which the target has what waits in the member's queue."""


class WanAcknowledge(NamedTuple):
    """Take what the target has from queues; a key that changed since then stays."""

    publisher: PublisherName
    places: tuple[AcknowledgedPlace, ...]


class WanMemberState(NamedTuple):
    """Set what a member does with the changes that it takes in for a publisher.

    The outcome is False when there is no such publisher.
    """

    publisher: PublisherName
    member: bytes
    state: PublisherState


class WanDropQueue(NamedTuple):
    """Drop what waits in a member's queues for a publisher; those maps need a sync then."""

    publisher: PublisherName
    member: bytes


class WanCompare(NamedTuple):
    """Note that a compare or sync of a map begins, from which on changes are queued, or ends.

    An end counts only for the job that began last: it closes no gap of which a later job takes
    care. A job that begins twice has begun once.
    """

    publisher: PublisherName
    name: str
    job: bytes
    """The UUID of the job, 16 bytes."""
    begin: bool


class WanPurge(NamedTuple):
    """Forget the oldest tombstones of a map, but those that wait in a queue.

    A source may still send an older change of such a key: the map remembers up to which stamp that
    is ambiguous. A map's part that holds nothing any more goes as well.
    """

    name: str
    through: int
    """The newest stamp of a tombstone that goes."""
    most: int
    """How many tombstones are looked at; those that wait are not looked at again before the others.
    0 looks at all of them, as members asked for once."""


Operation: TypeAlias = (
    MapPut
    | MapPutBounded
    | MapTouch
    | MapRemove
    | MapExpire
    | MapExpireIdle
    | MapClear
    | QueueOffer
    | QueueTake
    | QueueConfirm
    | QueueReturn
    | ClusterStateChange
    | TransientStateChange
    | SystemPut
    | SystemRemove
    | SystemExpire
    | MemberGone
    | WanAgree
    | WanMerge
    | WanAcknowledge
    | WanMemberState
    | WanDropQueue
    | WanCompare
    | WanPurge
)
Outcome: TypeAlias = bool | Item | MergeResult | Refused | None


class Record(NamedTuple):
    """Operations of one event loop tick of one member; no operation at all is a barrier.

    (member, incarnation, counter) names the record: the state machine applies it once, however
    often the log holds it.
    """

    member: bytes
    """The member's UUID, 16 bytes."""
    incarnation: int
    """Counts the starts of the member on its data."""
    counter: int
    """Counts the records of one incarnation, from 1."""
    operations: tuple[Operation, ...]


class Committed(NamedTuple):
    """A record with the place and the time that the log gave it."""

    sequence: int
    timestamp_ms: int
    record: Record
