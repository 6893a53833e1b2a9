"""What the CP subsystem is to be after a change: pure decisions over who is there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.cluster.cp.records import CpGroup, CpMember, CpRecords
from grid_member.cluster.cp.subsystem import DEFAULT_GROUP, CpConflictError
from grid_member.engine.nats.admin.server_records import LEAVING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.cluster.membership.member_table import MemberRecord
    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.values.system_store import Put

MAX_GROUP_MEMBERS: Final = 5
"""Copies of a stream that servers make."""
FIRST_NUMBER: Final = 8
"""Of the first own group; those of maps and queues have smaller ones."""


class Plan(NamedTuple):
    """What is to be."""

    members: Sequence[CpMember]
    """All CP members."""
    groups: Sequence[CpGroup]
    """The groups whose members change."""
    puts: Sequence[Put]
    """What keeps it."""


class CpPlans:
    """The decisions of one member."""

    def __init__(self, membership: Membership, count: int, new_uuid: Callable[[], str]) -> None:
        """Take the number of CP members that there are to be at first as count."""
        self._membership = membership
        self._store = membership.engine
        self._records = CpRecords(self._store)
        self._count = count
        self._new_uuid = new_uuid

    @property
    def founding_due(self) -> bool:
        """Whether the first CP members can be made."""
        return not self._records.members() and len(self._data_members()) >= self._count

    @property
    def replacement_due(self) -> bool:
        """Whether a CP member leaves for good, or another member is at the place of one."""
        return bool(self._heirs() or self._leaving_members())

    def foundation(self) -> Plan | None:
        """Return the first CP members and their group, None when that is not due."""
        if not self.founding_due:
            return None
        return self._foundation_of([one.uuid for one in self._data_members()])

    def reset(self) -> Plan:
        """Return other CP members and groups in place of all that there are.

        Raises:
            CpConflictError: fewer members hold data than there are to be CP members.
        """
        holders = self._data_members()
        if len(holders) < self._count:
            raise CpConflictError(
                f"cp-member-count is {self._count}, and {len(holders)} members hold data: start "
                "more"
            )
        begun = self._foundation_of([self._new_uuid() for _ in holders])
        removals = [record.removal() for record in self._records.members()]
        return begun._replace(puts=[*removals, *begun.puts])

    def promotion(self) -> Plan:
        """Return the plan in which this member is one.

        Raises:
            CpConflictError: it holds no data.
        """
        own = self._membership.engine.member_uuid
        holder = next((one for one in self._data_members() if one.uuid == own), None)
        if holder is None:
            raise CpConflictError("a lite member holds no data: it cannot be a CP member")
        records = self._records.members()
        if not records or any(record.member == own for record in records):
            return Plan(records, (), ())
        new = _member(self._new_uuid(), holder, records[-1].order + 1)
        groups = [
            group.with_members((*group.members, new.uuid))
            for group in self._active_groups()
            if len(group.members) < self._group_size
        ]
        return Plan([*records, new], groups, [new.put(), *(group.put() for group in groups)])

    def removal(self, uuid: str) -> Plan:
        """Return the plan in which a CP member is none.

        Raises:
            CpConflictError: there are no CP members yet, or too few would remain.
        """
        records = self._records.members()
        if not records:
            raise CpConflictError(self._missing_foundation())
        remaining = [record for record in records if record.uuid != uuid]
        least = _majority(self._count)
        if len(remaining) < least:
            raise CpConflictError(
                f"only {len(remaining)} CP members would remain, {least} are needed: promote "
                "another member first"
            )
        groups = [
            self._smaller_group(group, uuid, records)
            for group in self._active_groups()
            if uuid in group.members
        ]
        gone = next(record for record in records if record.uuid == uuid)
        return Plan(remaining, groups, [gone.removal(), *(group.put() for group in groups)])

    def replacement(self) -> Plan:
        """Return the plan in which others have the places of CP members that are gone for good."""
        heirs = self._heirs()
        if heirs:
            records = [record for record in self._records.members() if record.uuid in heirs]
            changed = [_hand_to(record, heirs[record.uuid]) for record in records]
            return Plan(changed, (), [record.put() for record in changed])
        leaving = self._leaving_members()
        return self._handover(leaving[0]) if leaving else Plan((), (), ())

    def _handover(self, leaving: CpMember) -> Plan:
        """Return the plan without a member that leaves; one that was none is in its place."""
        records = self._records.members()
        known = {record.member for record in records}
        free = [one for one in self._staying_members() if one.uuid not in known]
        new = [_member(self._new_uuid(), one, records[-1].order + 1) for one in free[:1]]
        members = [record for record in records if record is not leaving] + new
        groups = [
            group.with_members(_group_without(group, leaving.uuid, [one.uuid for one in members]))
            for group in self._active_groups()
            if leaving.uuid in group.members
        ]
        puts = [*(one.put() for one in new), *(group.put() for group in groups)]
        return Plan(members, groups, [leaving.removal(), *puts])

    def _missing_foundation(self) -> str:
        """Return why there are no CP members yet."""
        oldest, here = self._membership.members()[0], self._count
        if oldest.cp_member_count not in {None, here}:
            return (
                f"cp-member-count is {here} here and {oldest.cp_member_count} on the oldest member "
                f"{oldest.address}, which founds the CP subsystem: make it the same on all members"
            )
        held = len(self._data_members())
        return f"the CP subsystem waits until {here} members hold data: {held} do"

    @property
    def _group_size(self) -> int:
        return min(self._count, MAX_GROUP_MEMBERS)

    def _staying_members(self) -> list[MemberRecord]:
        going = {key.removeprefix(LEAVING) for key, _ in self._store.system_items(LEAVING)}
        return [one for one in self._data_members() if one.server not in going]

    def _leaving_members(self) -> list[CpMember]:
        going = {key.removeprefix(LEAVING) for key, _ in self._store.system_items(LEAVING)}
        found = [record for record in self._records.members() if record.server in going]
        # The last one stays one: a group is somewhere.
        return found if len(self._records.members()) > 1 or self._staying_members() else []

    def _data_members(self) -> list[MemberRecord]:
        return [one for one in self._membership.members() if not one.lite]

    def _active_groups(self) -> list[CpGroup]:
        return [group for group in self._records.groups() if group.active]

    def _foundation_of(self, uuids: Sequence[str]) -> Plan:
        holders = self._data_members()[: self._count]
        members = [
            _member(uuid, holder, order)
            for order, (uuid, holder) in enumerate(zip(uuids, holders, strict=False), 1)
        ]
        numbers = [group.number for group in self._records.groups()]
        places = tuple(member.uuid for member in members[: self._group_size])
        group = CpGroup(DEFAULT_GROUP, max(numbers, default=FIRST_NUMBER - 1) + 1, places)
        return Plan(members, [group], [*(one.put() for one in members), group.put()])

    def _smaller_group(self, group: CpGroup, uuid: str, records: Sequence[CpMember]) -> CpGroup:
        """Return the group without a member; one that is not in it takes the place."""
        present = {one.uuid for one in self._membership.members()}
        there = [record.uuid for record in records if record.member in present]
        members = _group_without(group, uuid, there)
        # The servers change a group by a majority of what it was, and it goes on by one of what
        # it is then.
        for voters in (group.members, members):
            alive = sum(one in there for one in voters)
            if alive < _majority(len(voters)):
                raise CpConflictError(
                    f"only {alive} of {len(voters)} members of group {group.name} are there, which "
                    "is no majority: wait for the others, or reset the CP subsystem"
                )
        return group.with_members(members)

    def _heirs(self) -> dict[str, MemberRecord]:
        """Return who is in the place of a CP member, by its UUID: itself elsewhere, or another."""
        records = self._records.members()
        holders = {one.uuid: one for one in self._data_members()}
        taken = {record.member for record in records}
        free = {one.address: one for one in holders.values() if one.uuid not in taken}
        found = {
            record.uuid: holders.get(record.member) or free.get(record.address)
            for record in records
        }
        return {
            record.uuid: heir
            for record in records
            if (heir := found[record.uuid]) and _hand_to(record, heir) != record
        }


def _hand_to(record: CpMember, heir: MemberRecord) -> CpMember:
    """Return the CP member with the heir in its place."""
    return replace(record, member=heir.uuid, address=heir.address, server=heir.server)


def _member(uuid: str, holder: MemberRecord, order: int) -> CpMember:
    return CpMember(uuid, holder.uuid, holder.address, holder.server, order)


def _group_without(group: CpGroup, uuid: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return a group's members without one; of the others, one that is none takes its place."""
    spare = [one for one in others if one not in group.members]
    return (*(one for one in group.members if one != uuid), *spare[:1])


def _majority(members: int) -> int:
    return members // 2 + 1
