"""How the members of a cluster share out the sending: which lanes are this member's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from grid_member.engine.wan.agreement import PublisherState
from grid_member.wan.members.assignment import SendingMember, sender_of
from grid_member.wan.members.reports import UNKNOWN, SenderReports, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from grid_member.cluster.membership.member_table import MemberRecord
    from grid_member.engine.state.system import SystemStore
    from grid_member.engine.wan.agreement import PublisherName
    from grid_member.wan.members.reports import SenderReport


class MemberStates(Protocol):
    """A shard, as far as it knows the members' states."""

    def state_of(self, publisher: PublisherName, member: bytes) -> PublisherState | None:
        """Return what a member does for a publisher; None when there is no such publisher."""


class Sharing(Protocol):
    """Decides what this member sends, and hears how that goes."""

    def look(self, publishers: Collection[PublisherName]) -> None:
        """Look which members are there; the publishers are those that were agreed on."""

    def lanes(
        self, publisher: PublisherName, shards: Sequence[MemberStates], *, able: bool
    ) -> frozenset[int]:
        """Return the numbers of the shards that this member sends; able: whether it can."""

    def waits(self, publisher: PublisherName) -> bool:
        """Tell whether no member sends queues, as the cluster began as a backup."""

    def report(self, publisher: PublisherName, report: SenderReport) -> None:
        """Hear how this member sends for a publisher."""


class Alone:
    """A member that is alone in its cluster sends everything."""

    def look(self, publishers: Collection[PublisherName]) -> None:
        """Look at nobody."""

    def lanes(
        self, publisher: PublisherName, shards: Sequence[MemberStates], *, able: bool
    ) -> frozenset[int]:
        """Return the numbers of all shards."""
        return frozenset(range(len(shards))) if able else frozenset()

    def waits(self, publisher: PublisherName) -> bool:
        """Tell of nothing to wait for: the states of the member itself say all."""
        return False

    def report(self, publisher: PublisherName, report: SenderReport) -> None:
        """Tell nobody."""


class Shared:
    """One of several members sends what falls to it."""

    def __init__(
        self,
        store: SystemStore,
        members: Callable[[], Sequence[MemberRecord]],
        own: Callable[[], str],
        waits: Callable[[PublisherName], bool],
    ) -> None:
        """Know nobody yet.

        Args:
            store: keeps the reports of all members.
            members: returns the members on the list, oldest first.
            own: returns the UUID of this member, once it has one.
            waits: tells whether a publisher waits on all members, as the cluster began as a backup.
        """
        self._reports = SenderReports(store)
        self._list = members
        self._own = own
        self.waits = waits
        self._members: list[str] = []
        """Those with data."""

    def look(self, publishers: Collection[PublisherName]) -> None:
        """Look which members are there; the oldest one with data removes what is out of date."""
        self._members = [member.uuid for member in self._list() if not member.lite]
        if self._members[:1] == [self._own()]:
            self._reports.tidy(publishers, self._members)

    def lanes(
        self, publisher: PublisherName, shards: Sequence[MemberStates], *, able: bool
    ) -> frozenset[int]:
        """Return the numbers of the shards that fall to this member."""
        own, reports = self._own(), self._reports.of(publisher)
        ables = {
            uuid: able if uuid == own else reports.get(uuid, UNKNOWN).able for uuid in self._members
        }
        mine: set[int] = set()
        for lane, shard in enumerate(shards if able else ()):
            members = [
                SendingMember(uuid, can, _replicates(shard, publisher, uuid))
                for uuid, can in ables.items()
            ]
            if sender_of(publisher, lane, members) == own:
                mine.add(lane)
        return frozenset(mine)

    def report(self, publisher: PublisherName, report: SenderReport) -> None:
        """Tell the others, if anything changed."""
        if self._own() in self._members:
            self._reports.tell(publisher, self._own(), report)

    def merged(self, publisher: PublisherName) -> SenderReport:
        """Return how the publisher is, by what all members on the list have told."""
        present = {member.uuid for member in self._list()}
        reports = self._reports.of(publisher)
        return merged(report for uuid, report in sorted(reports.items()) if uuid in present)


def _replicates(shard: MemberStates, publisher: PublisherName, uuid: str) -> bool:
    return shard.state_of(publisher, UUID(uuid).bytes) is PublisherState.REPLICATING
