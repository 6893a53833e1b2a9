"""How well the data of a cluster is replicated, as one member sees it, and who the others are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

NO_MAJORITY: Final = "no majority of the members answers"
NOTHING_TO_RESCUE: Final = (
    "this member does not wait for the others: when those that are gone are lost for good, restart "
    "it and ask again"
)


class Replication(NamedTuple):
    """What the member's last look at the streams and its own records told."""

    in_contact: bool
    """Whether a quorum took a record of this member within the last seconds."""
    replicas: int
    """Copies of all streams that there should be."""
    not_current: int
    """How many of them are missing, behind or offline; what is not known counts as that."""
    offline: tuple[str, ...]
    """Names of the servers that hold a copy and are not reachable, ordered."""
    copied: bool = True
    """Whether this member's own copies were made or caught up since it was started."""
    moving: bool = False
    """Whether copies are being moved, made or given up: which servers have them changes."""
    trouble: str | None = None
    """What keeps servers from storing, and what to do; None: nothing is known."""
    answering: bool = True
    """Whether nothing that was asked of this member waited in vain lately. While a leader is
    elected it waits, and is not in contact."""
    leased: bool = True
    """Whether this member could hand out items of every queue since it refused anything."""
    absent: str | None = None
    """Who or what copies are missing for, as of the last look; None: nothing is known."""
    twins: str | None = None
    """Which two processes were the same member lately; None: of none that is known."""

    @property
    def shortage(self) -> str:
        """How many copies are not current, and why, for people."""
        why = ", or a member is not there" if self.absent is None else f": {self.absent}"
        return f"{self.not_current} copies of the data are missing, behind or out of reach{why}"


NOT_REPLICATED = Replication(
    in_contact=False, replicas=0, not_current=1, offline=(), copied=False, answering=False
)
"""Before the first look: what is not known is not safe."""


class Taker(NamedTuple):
    """An incarnation of a member that has items in flight."""

    shard: int
    """The shard's number: incarnations of shards differ."""
    member: str
    """Its UUID."""
    incarnation: int


class LockedOutError(Exception):
    """Another member has the cluster's lock, or there is nobody to take it from."""


class Colleagues(Protocol):
    """The members of the cluster, for what the engine does with their servers."""

    def servers(self) -> frozenset[str]:
        """Return the names of the servers of all members that send heartbeats."""

    def lite(self) -> int:
        """Return how many of those members hold no data."""

    def lock_cluster(self, purpose: str) -> AbstractAsyncContextManager[None]:
        """Let nobody else change the cluster meanwhile; raises `LockedOutError`."""
