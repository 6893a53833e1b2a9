"""What the clusters of the tests agree on, and the members that they have."""

from __future__ import annotations

from typing import Final

from grid_member.engine.wan.agreement import (
    AgreedPublisher,
    Agreement,
    MapReference,
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)

MAP: Final = "m"
MEMBERS: Final = (b"A" * 16, b"B" * 16)
OWN: Final = b"o" * 16
"""The id of the cluster that a test is about."""
LONDON: Final = PublisherName("r", "london")


def publisher(
    target: str = LONDON.publisher,
    capacity: int = 2,
    when_full: WhenQueueFull = WhenQueueFull.DISCARD_AFTER_MUTATION,
) -> AgreedPublisher:
    """Return a publisher that has the name of its target."""
    name = PublisherName(LONDON.replication, target)
    return AgreedPublisher(name, target, capacity, when_full, PublisherState.REPLICATING)


TO_LONDON: Final = (publisher(),)


def agreement(
    publishers: tuple[AgreedPublisher, ...] = TO_LONDON,
    *,
    revision: int = 1,
    cluster_id: bytes = OWN,
    policy: MergePolicy = MergePolicy.LATEST_UPDATE,
    republishing: bool = True,
    exclude: tuple[str, ...] = (),
    max_tombstones: int = 1000,
    maps: tuple[str, ...] = (MAP,),
) -> Agreement:
    """Return an agreement by which these maps are replicated."""
    reference = MapReference(LONDON.replication, policy, republishing, (), exclude)
    return Agreement(
        *(revision, cluster_id, tuple((name, reference) for name in maps), publishers),
        *(600_000, max_tombstones, 60_000),
    )
