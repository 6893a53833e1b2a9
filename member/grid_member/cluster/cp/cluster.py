"""The CP subsystem of several members.

Until `count` members hold data every one of them counts as a CP member, and there is no own group.
Then the oldest of them are the first CP members, and `default` is made on their servers:

    METADATA        all servers that vote on where streams are      shown only
    default         a stream of its own on the CP members' servers  promote, remove, reset
    shard-0, …      the streams of the maps and queues              shown only

A change is made by the servers first and kept in the system store then, under a lock of the
cluster. What is kept counts: the oldest member brings the servers back to it (`CpKeeper`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from grid_member.cluster.cp.records import CpRecords
from grid_member.cluster.cp.subsystem import (
    METADATA,
    METADATA_NUMBER,
    NO_GROUP,
    NO_MEMBER,
    CpConflictError,
    CpMemberDocument,
    CpReplicatedGroupDocument,
    CpUnavailableError,
    CpUnknownError,
    bracket,
    check_session,
    member_uuid,
    read_only,
    refuse_metadata_removal,
    refuse_metadata_sessions,
)
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from collections.abc import Set as AbstractSet

    from grid_member.cluster.cp.plans import CpPlans, Plan
    from grid_member.cluster.cp.records import CpGroup, CpMember
    from grid_member.cluster.cp.sessions import CpSessions
    from grid_member.cluster.cp.subsystem import CpChange, CpGroupId, CpSessionDocument
    from grid_member.cluster.membership.membership import Membership
    from grid_member.engine.nats.admin.groups import ServerGroup

STEP_S: Final = 0.2
"""How often it is looked how far the servers are with a change."""
STEPS_S: Final = 30.0
"""How long a change waits for the servers."""


class Groups(Protocol):
    """The groups of the servers: `ServerGroups`."""

    @property
    def data(self) -> tuple[str, ...]:
        """The streams that hold maps and queues."""

    async def meta(self) -> ServerGroup:
        """Return the group of all servers."""

    async def group(self, stream: str) -> ServerGroup | None:
        """Return a stream's group, None when there is no such stream."""

    async def step(self, stream: str, servers: AbstractSet[str]) -> bool:
        """Bring a group nearer to being on the servers; True when it is."""

    async def remove(self, stream: str) -> bool:
        """Remove a group; True when it is not there any more."""


class _Candidate(NamedTuple):
    """Who is shown in place of a server."""

    server: str
    document: CpMemberDocument


class CpCluster:
    """The subsystem as one of several members sees and changes it."""

    def __init__(
        self,
        membership: Membership,
        plans: CpPlans,
        groups: Callable[[], Groups],
        sessions: CpSessions,
        clock_s: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the parts; `groups` returns the groups of the servers once the member has joined."""
        self._membership = membership
        self._records = CpRecords(membership.engine)
        self._plans = plans
        self._groups = groups
        self._sessions = sessions
        self._clock_s = clock_s
        self._sleep = sleep

    # What is shown

    async def groups(self) -> list[CpGroupId]:
        """Return the groups: METADATA, default, those of maps and queues."""
        own: list[CpGroupId] = [
            {"name": group.name, "id": group.number}
            for group in self._records.groups()
            if group.active
        ]
        data: list[CpGroupId] = [
            {"name": name, "id": number} for number, name in enumerate(self._groups().data, 1)
        ]
        return [{"name": METADATA, "id": METADATA_NUMBER}, *own, *data]

    async def group(self, name: str) -> CpReplicatedGroupDocument:
        """Return a group by its exact name.

        Raises:
            CpUnknownError: there is none.
            CpUnavailableError: nobody can tell who is in it now.
        """
        number = await self._number(name)
        own = self._own_group(name)
        if name == METADATA:
            found: ServerGroup | None = await self._groups().meta()
        else:
            found = await self._groups().group(name if own is None else own.stream)
        shown = self._candidates()
        if found is not None and found.leader is not None:
            present = [one for one in shown if one.server in found.servers]
        elif own is not None:
            servers = _servers(own, self._records.members())
            present = [one for one in shown if one.server in servers]
        else:
            raise CpUnavailableError(f"nobody leads group {name} now")
        leader, current, index = _status_of(found, present)
        return {
            "id": {"name": name, "id": number},
            "status": "ACTIVE",
            "members": [one.document for one in present],
            "leader": leader,
            "current": current,
            "logIndex": index,
        }

    async def members(self) -> list[CpMemberDocument]:
        """Return the CP members; before there are such, the members that hold data."""
        records = self._records.members()
        if not records:
            return [one.document for one in self._candidates()]
        return [_member_document(record) for record in records]

    async def local(self) -> CpMemberDocument:
        """Return this member.

        Raises:
            CpUnknownError: it is none of the subsystem.
        """
        own = self._membership.engine.member_uuid
        records = self._records.members()
        for record in records:
            if record.member == own:
                return _member_document(record)
        for document in [] if records else await self.members():
            if document["uuid"] == own:
                return document
        raise CpUnknownError("this member is no CP member")

    async def sessions(self, group: str) -> list[CpSessionDocument]:
        """Return the sessions of a group: the leases of the members.

        Raises:
            CpUnknownError: there is no such group.
            CpConflictError: METADATA has no sessions.
        """
        await self._number(group)
        refuse_metadata_sessions(group)
        return self._sessions.documents()

    # What is changed

    async def promote(self) -> CpChange:
        """Make this member one of the subsystem, and of its groups when they have room.

        Raises:
            CpConflictError: it holds no data.
            CpUnavailableError: the servers did not do it in time.
        """
        return await self._carry_out(self._plans.promotion())

    async def remove_member(self, identifier: str) -> CpChange:
        """Remove a member; another one takes its places in the groups, if there is one.

        Raises:
            CpInvalidError: the identifier is no UUID.
            CpUnknownError: no member has it.
            CpConflictError: too few members would remain.
            CpUnavailableError: the servers did not do it in time.
        """
        wanted = member_uuid(identifier)
        if all(member_uuid(one["uuid"]) != wanted for one in await self.members()):
            raise CpUnknownError(NO_MEMBER)
        return await self._carry_out(self._plans.removal(str(wanted)))

    async def remove_group(self, name: str) -> CpChange:
        """Remove an own group; one that was removed is removed.

        Raises:
            CpInvalidError: METADATA, in any case, is never removed.
            CpUnknownError: there was no such group ever.
            CpConflictError: it holds maps and queues.
            CpUnavailableError: the servers did not do it in time.
        """
        refuse_metadata_removal(name)
        group = next((one for one in self._records.groups() if one.name == name), None)
        if group is None:
            await self._number(name)
            raise CpConflictError(read_only(name))
        if not group.active:
            return ()
        await self._remove(group)
        return (group.with_members(()).put(),)

    async def remove_session(self, group: str, session: str) -> CpChange:
        """Refuse to end a session.

        Raises:
            CpInvalidError: the identifier is no number.
            CpUnknownError: there is no such group or session.
            CpConflictError: it is the lease of a member.
        """
        check_session(session)
        await self._number(group)
        if group == METADATA or not self._sessions.has_session(session):
            raise CpUnknownError("no such session")
        raise CpConflictError(
            "the session is the lease of a member: it ends with the member, shut that down instead"
        )

    async def reset(self) -> CpChange:
        """Make the own groups and their members anew.

        Raises:
            CpConflictError: fewer members hold data than there are to be CP members.
            CpUnavailableError: the servers did not do it in time.
        """
        plan = self._plans.reset()
        for group in self._records.groups():
            await self._remove(group)
        return await self._carry_out(plan)

    # What the keeper does

    async def establish(self) -> CpChange:
        """Make the first CP members and groups, if that is due."""
        plan = self._plans.foundation()
        return () if plan is None else await self._carry_out(plan)

    async def replace(self) -> CpChange:
        """Let others have the places of CP members that are gone for good."""
        return await self._carry_out(self._plans.replacement())

    async def restore(self) -> CpChange:
        """Bring the groups nearer to what is kept; others may change them in between."""
        for group in await self.stray_groups():
            with contextlib.suppress(NatsError):
                await self._groups().step(group.stream, _servers(group, self._records.members()))
        return ()

    async def count_missing(self) -> int:
        """Return how many copies of the groups' logs are missing, behind or out of reach."""
        missing = 0
        for group in self._records.groups():
            if group.active:
                wanted = _servers(group, self._records.members())
                found = await self._groups().group(group.stream)
                missing += len(wanted - found.current if found else wanted)
        return missing

    async def stray_groups(self) -> list[CpGroup]:
        """Return the groups that are not on the servers that they are to be on but could be."""
        there = (await self._groups().meta()).current
        found = []
        for group in self._records.groups():
            wanted = _servers(group, self._records.members())
            if not group.active or not wanted <= there:
                continue
            present = await self._groups().group(group.stream)
            if present is None or (present.leader and present.servers != wanted):
                found.append(group)
        return found

    # Inside

    async def _carry_out(self, plan: Plan) -> CpChange:
        for group in plan.groups:
            await self._place(group, _servers(group, plan.members))
        return plan.puts

    async def _place(self, group: CpGroup, servers: frozenset[str]) -> None:
        await self._retry_until(
            lambda: self._groups().step(group.stream, servers),
            f"the servers did not change group {group.name} in time",
        )

    async def _remove(self, group: CpGroup) -> None:
        await self._retry_until(
            lambda: self._groups().remove(group.stream),
            f"the servers did not remove group {group.name} in time",
        )

    async def _retry_until(self, attempt: Callable[[], Awaitable[bool]], otherwise: str) -> None:
        until_s = self._clock_s() + STEPS_S
        reason = ""
        while True:
            try:
                if await attempt():
                    return
            except NatsError as error:
                reason = f": {error}"
            if self._clock_s() >= until_s:
                raise CpUnavailableError(otherwise + reason)
            await self._sleep(STEP_S)

    def _own_group(self, name: str) -> CpGroup | None:
        groups = self._records.groups()
        return next((one for one in groups if one.active and one.name == name), None)

    async def _number(self, name: str) -> int:
        for group in await self.groups():
            if group["name"] == name:
                return group["id"]
        raise CpUnknownError(NO_GROUP)

    def _candidates(self) -> list[_Candidate]:
        """Return the CP members and the other members that hold data."""
        records = self._records.members()
        known = {record.member for record in records}
        others = (
            one for one in self._membership.members() if not one.lite and one.uuid not in known
        )
        return [
            *(_Candidate(peer_id(record.server), _member_document(record)) for record in records),
            *(
                _Candidate(peer_id(one.server), {"uuid": one.uuid, "address": bracket(one.address)})
                for one in others
            ),
        ]


def _status_of(
    found: ServerGroup | None, present: Iterable[_Candidate]
) -> tuple[str | None, list[str], int | None]:
    if found is None:
        return None, [], None
    by_server = {one.server: one.document["uuid"] for one in present}
    leader = None if found.leader is None else by_server.get(found.leader)
    current = [uuid for server, uuid in by_server.items() if server in found.current]
    return leader, current, found.log_index


def _servers(group: CpGroup, members: Iterable[CpMember]) -> frozenset[str]:
    """Return the ids of the servers that a group is to be on."""
    return frozenset(peer_id(one.server) for one in members if one.uuid in group.members)


def _member_document(record: CpMember) -> CpMemberDocument:
    return {"uuid": record.uuid, "address": bracket(record.address)}
