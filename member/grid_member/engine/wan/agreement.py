"""What the members of a cluster have agreed on about WAN replication.

The state machine goes by the agreement alone, never by one member's configuration: two states that
applied the same records hold the same stamps and queues.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

WAN_CLUSTER_VERSION: Final = (0, 2)
"""Major and minor number of the cluster version from which on members may propose an operation of
WAN replication: members of an older one cannot read the record."""


class PublisherState(enum.Enum):
    """What one member does with the changes that it takes in for a publisher."""

    REPLICATING = "REPLICATING"
    """It queues changes, and a sender sends them."""
    PAUSED = "PAUSED"
    """It queues changes, which wait."""
    STOPPED = "STOPPED"
    """It queues nothing more: the maps need a sync."""


class WhenQueueFull(enum.Enum):
    """What becomes of a change of a key that a full queue has no place for."""

    DISCARD_AFTER_MUTATION = "DISCARD_AFTER_MUTATION"
    """The change is stored, and the publisher compares the map with the target later."""
    THROW_EXCEPTION = "THROW_EXCEPTION"
    """The write is refused."""
    THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE = "THROW_EXCEPTION_ONLY_IF_REPLICATION_ACTIVE"
    """The write is refused while the member's state is REPLICATING; else as the first."""


class MergePolicy(enum.Enum):
    """Which change of a key counts at the target; `merging.py` has the rules."""

    LATEST_UPDATE = "LatestUpdateMergePolicy"
    """The change with the greater stamp."""
    PASS_THROUGH = "PassThroughMergePolicy"  # noqa: S105 - the name of a merge policy
    """The change that comes, unless a newer one of another cluster is there."""
    PUT_IF_ABSENT = "PutIfAbsentMergePolicy"
    """The change that comes, if the key is neither there nor removed."""


class PublisherName(NamedTuple):
    """Names a publisher in its cluster."""

    replication: str
    """The name of the `wan-replication`."""
    publisher: str
    """The `publisher-id`, or what stands in its place."""


class MapReference(NamedTuple):
    """The `wan-replication-ref` of one map configuration."""

    replication: str
    """The name of the `wan-replication` whose publishers send the map's changes."""
    policy: MergePolicy
    """Travels with the changes: the target goes by it."""
    republishing: bool
    """Whether changes that came by WAN are published again."""
    include: tuple[str, ...]
    """Patterns of keys, each with one `*` at most; empty includes every key."""
    exclude: tuple[str, ...]
    """Patterns of keys of the same form that are not replicated, though `include` has them."""


class AgreedPublisher(NamedTuple):
    """What the state machine must know of a publisher."""

    name: PublisherName
    cluster_name: str
    """Of the target."""
    queue_capacity: int
    """Keys of one map that were changed by one member."""
    when_full: WhenQueueFull
    """What becomes of a change of a key that a full queue has no place for."""
    initial_state: PublisherState
    """What a member does until a call says something else to it."""


class Agreement(NamedTuple):
    """All that is agreed on; a greater revision replaces a smaller one."""

    revision: int
    """Counts the agreements of a cluster id, from 1 on."""
    cluster_id: bytes
    """16 random bytes that name this cluster's data; a restored copy has others."""
    maps: tuple[tuple[str, MapReference | None], ...]
    """Every configured map name and wildcard, sorted; None is one that is not replicated. All are
    here since a map goes by the configuration that fits its name best."""
    publishers: tuple[AgreedPublisher, ...]
    """Sorted by name."""
    tombstone_retention_ms: int
    """How long a tombstone stays that waits in no queue."""
    max_tombstones: int
    """Of one map."""
    max_clock_ahead_ms: int
    """How far ahead of the log's time the stamp of another cluster's change may be."""
