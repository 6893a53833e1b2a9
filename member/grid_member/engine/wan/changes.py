"""A change of a replicated map, as it travels from cluster to cluster."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

CLUSTER_ID_BYTES: Final = 16
"""Of the random number that names a cluster's data."""
MAX_PASSED: Final = 16
"""Clusters that a change says it has passed; of more it names the last ones."""


class ChangeKind(enum.IntEnum):
    """What happened; the numbers stand in batches and records."""

    PUT = 1
    REMOVAL = 2
    CLEAR = 3


class Received(enum.IntEnum):
    """What other clusters ever sent of a map; the numbers stand in snapshots."""

    NOTHING = 0
    CHANGES = 1
    OVERRULING = 2
    """Some by PassThrough, which overrules changes of this cluster's clients and no later change of
    another cluster: the map remembers which changes are of whom."""


class MergeResult(enum.Enum):
    """What became of a change that came from another cluster."""

    TAKEN = "taken"
    UNCHANGED = "unchanged"
    """The cluster has it already."""
    OLDER = "older"
    """What the cluster has counts by the map's merge policy."""
    AMBIGUOUS = "ambiguous"
    """It was taken, though it may be older than a removal whose tombstone was purged by time or
    number: the map counts it."""
    LOOPED = "looped"
    """The change has passed this cluster before."""


class Change(NamedTuple):
    """One change. A removal has no value, a clear no key either."""

    name: str
    """The map's name."""
    kind: ChangeKind
    key: str
    """Empty for a clear."""
    stamp: int
    """When the cluster that made the change applied it, as `stamps.py` makes stamps; above 0."""
    value: bytes
    content_type: str | None
    """As the client gave it with the value; None when the client gave none."""
    deadline_ms: int
    """When the entry ends by the source's log time, milliseconds since 1970; 0 is never."""
    idle_ms: int
    """How long the entry may be idle, milliseconds; 0 is for ever."""
    passed: tuple[bytes, ...]
    """The ids of the clusters that the change has passed, 16 bytes each, at most 16 of them. The
    cluster that sends the change is the last one; a change of a client has passed none."""


class QueuedChange(NamedTuple):
    """A change that waits for a publisher, and its place in the queue of the member."""

    place: int
    """The place in the log of the operation that queued the change: the record's sequence times
    65,536 and the number of the operation in the record. Above 0, and greater for later changes."""
    change: Change
