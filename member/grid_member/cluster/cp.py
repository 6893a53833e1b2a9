"""The CP subsystem as far as it is shown: two groups, on the logs that the members have.

`METADATA` holds the system state, `default` the maps and queues. So both are shown and neither can
be removed or reset; no call here reads or writes a map or a queue.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

METADATA: Final = "METADATA"
DEFAULT_GROUP: Final = "default"
_IDS: Final = {METADATA: 0, DEFAULT_GROUP: 1}


class CpGroupId(TypedDict):
    """A group's name and number."""

    name: str
    id: int


class CpMemberDocument(TypedDict):
    """A member of the subsystem; the address is `[host]:port`."""

    uuid: str
    address: str


class CpGroupDocument(TypedDict):
    """One group; only an ACTIVE one is found."""

    id: CpGroupId
    status: str
    members: list[CpMemberDocument]


class CpSessionDocument(TypedDict):
    """A session of a client or member with a group."""

    id: int
    creationTime: int
    expirationTime: int
    version: int
    endpoint: str
    endpointType: str
    endpointName: str | None


class CpUnknownError(LookupError):
    """No such group, member or session."""


class CpInvalidError(ValueError):
    """The call can never work: it names something that is no identifier, or METADATA."""


class CpConflictError(Exception):
    """The present state does not allow the call; the message says why."""


@dataclass(frozen=True, slots=True)
class CpSubsystem:
    """The subsystem, of which every member that holds data is one."""

    own_uuid: Callable[[], str]
    everybody: Callable[[], list[CpMemberDocument]]

    def groups(self) -> list[CpGroupId]:
        """Return the groups, METADATA first, then default."""
        return [{"name": name, "id": number} for name, number in _IDS.items()]

    def group(self, name: str) -> CpGroupDocument:
        """Return a group by its exact name.

        Raises:
            CpUnknownError: there is none.
        """
        number = _number(name)
        return {
            "id": {"name": name, "id": number},
            "status": "ACTIVE",
            "members": self.members(),
        }

    def members(self) -> list[CpMemberDocument]:
        """Return the members."""
        return self.everybody()

    def local(self) -> CpMemberDocument:
        """Return this member.

        Raises:
            CpUnknownError: it is none of the subsystem.
        """
        own = self.own_uuid()
        for member in self.members():
            if member["uuid"] == own:
                return member
        raise CpUnknownError("this member holds no data, so it is no CP member")

    def promote(self) -> None:
        """Let this member be one of the subsystem, which it is if it can.

        Raises:
            CpConflictError: it holds no data.
        """
        own = self.own_uuid()
        if all(member["uuid"] != own for member in self.members()):
            raise CpConflictError("a lite member holds no data: it cannot be a CP member")

    def sessions(self, group: str) -> list[CpSessionDocument]:
        """Return the sessions of a group: there are none, as nothing here opens one.

        Raises:
            CpUnknownError: there is no such group.
            CpConflictError: METADATA has no sessions.
        """
        _number(group)
        if group == METADATA:
            raise CpConflictError("group METADATA has no sessions")
        return []

    def remove_group(self, name: str) -> NoReturn:
        """Refuse to remove a group.

        Raises:
            CpInvalidError: METADATA, in any case, is never removed.
            CpUnknownError: there is no such group.
            CpConflictError: it holds maps and queues.
        """
        if name.upper() == METADATA:
            raise CpInvalidError("group METADATA cannot be removed")
        _number(name)
        raise CpConflictError(_READ_ONLY)

    def remove_session(self, group: str, session: str) -> NoReturn:
        """Refuse to end a session: there is none.

        Raises:
            CpInvalidError: the identifier is no number.
            CpUnknownError: there is no such group or session.
        """
        if not (session.isascii() and session.isdecimal()):
            raise CpInvalidError("the session identifier is no number")
        _number(group)
        raise CpUnknownError("no such session")

    def remove_member(self, identifier: str) -> NoReturn:
        """Refuse to remove a member: there is one only, or it holds maps and queues.

        Raises:
            CpInvalidError: the identifier is no UUID.
            CpUnknownError: no member has it.
            CpConflictError: it is the last member, or holds maps and queues.
        """
        try:
            wanted = uuid.UUID(identifier)
        except ValueError:
            raise CpInvalidError("the member identifier is no UUID") from None
        members = self.members()
        if all(uuid.UUID(member["uuid"]) != wanted for member in members):
            raise CpUnknownError("no such CP member")
        if len(members) == 1:
            raise CpConflictError("the last CP member cannot be removed")
        raise CpConflictError("the CP member holds maps and queues: shut it down instead")

    def reset(self) -> NoReturn:
        """Refuse to wipe the groups.

        Raises:
            CpConflictError: they hold maps and queues.
        """
        raise CpConflictError(_READ_ONLY)


_READ_ONLY: Final = "group default holds maps and queues: it is shown only"


def _number(group: str) -> int:
    number = _IDS.get(group)
    if number is None:
        raise CpUnknownError("no such CP group")
    return number
