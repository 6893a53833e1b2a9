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
    """Which change of a key counts at the target."""

    LATEST_UPDATE = "LatestUpdateMergePolicy"
    PASS_THROUGH = "PassThroughMergePolicy"  # noqa: S105 - the name of a merge policy
    PUT_IF_ABSENT = "PutIfAbsentMergePolicy"


class PublisherName(NamedTuple):
    """Names a publisher in its cluster."""

    replication: str
    publisher: str


class MapReference(NamedTuple):
    """The `wan-replication-ref` of one map configuration."""

    replication: str
    policy: MergePolicy
    republishing: bool
    """Whether changes that came by WAN are published again."""
    include: tuple[str, ...]
    """Patterns of keys, each with one `*` at most; empty includes every key."""
    exclude: tuple[str, ...]


class AgreedPublisher(NamedTuple):
    """What the state machine must know of a publisher."""

    name: PublisherName
    cluster_name: str
    """Of the target."""
    queue_capacity: int
    """Keys of one map that were changed by one member."""
    when_full: WhenQueueFull
    initial_state: PublisherState


class Agreement(NamedTuple):
    """All that is agreed on; a greater revision replaces a smaller one."""

    revision: int
    cluster_id: bytes
    """16 random bytes that name this cluster's data; a restored copy has others."""
    maps: tuple[tuple[str, MapReference | None], ...]
    """Every configured map name and wildcard, sorted; None is one that is not replicated. All are
    here since a map goes by the configuration that fits its name best."""
    publishers: tuple[AgreedPublisher, ...]
    tombstone_retention_ms: int
    max_tombstones: int
    """Of one map."""
    max_clock_ahead_ms: int
