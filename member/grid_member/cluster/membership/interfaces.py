"""What the membership of one of several members needs of the engine and of the member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from grid_member.engine.state.system import SystemStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.cluster.values.system_store import Put
    from grid_member.engine.api import ClusterState, Done
    from grid_member.engine.replication import Replication, Taker


class ReplicatedEngine(SystemStore, Protocol):
    """The engine of one of several members, as its membership sees it."""

    @property
    def member_uuid(self) -> str:
        """This member's UUID."""

    @property
    def cluster_state(self) -> ClusterState:
        """The cluster state, as applied here."""

    @property
    def restart_state(self) -> ClusterState:
        """The cluster state without transient changes."""

    def change_cluster_state(
        self, state: ClusterState, done: Done[bool], *, transient: bool = False
    ) -> None:
        """Set the cluster state; False when it was that already."""

    def prepare_cluster_state(self, state: ClusterState, done: Done[bool]) -> None:
        """Set the cluster state in all shards but the first, which decides and is changed next."""

    @property
    def agreed(self) -> bool:
        """Whether all shards have the same cluster state, as far as is known here."""

    def takers(self) -> set[Taker]:
        """Return the incarnations of other members with items in flight, as far as known here."""

    def end_incarnation(self, taker: Taker) -> None:
        """Give back what was taken in that incarnation, as far as the log takes that now."""

    def lease(self, until_s: float, *, ended: bool) -> None:
        """Hear until when the others leave this member what it takes out of queues.

        Args:
            until_s: by the membership's clock; -inf before there is a lease.
            ended: whether there was one that they ended, so that they may be ending incarnations.
        """

    def replication(self) -> Replication:
        """Return how well the data is replicated."""

    async def moving(self) -> bool:
        """Tell whether copies are moved now, by a look at all of them."""

    async def current(self) -> bool:
        """Wait until all that was answered before, on any member, is applied here.

        False when no majority answers in time.
        """


class Entrance(Protocol):
    """The member that joins, asked while it does."""

    address: str

    def admit(self) -> None:
        """Go by what the cluster agreed on.

        Raises:
            EngineError: this member cannot be part of it.
        """

    def entry_puts(self) -> Iterable[Put]:
        """Return what is to be kept together with the join."""

    @property
    def ending(self) -> bool:
        """Whether the member is to stop."""
