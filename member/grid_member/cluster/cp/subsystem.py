"""The CP subsystem: what its calls answer, and what it is on a member that is alone.

Alone, `METADATA` holds the system state and `default` the maps and queues. So both are shown and
neither can be removed or reset; no call here reads or writes a map or a queue.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, TypedDict

from grid_member.cluster.values.system_store import Put

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.cp.cluster import CpCluster

LOCK: Final = "cp"
"""The lock of the cluster that whoever changes the subsystem has."""
METADATA: Final = "METADATA"
METADATA_NUMBER: Final = 0
DEFAULT_GROUP: Final = "default"
_IDS: Final = {METADATA: METADATA_NUMBER, DEFAULT_GROUP: 1}


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


class CpReplicatedGroupDocument(CpGroupDocument):
    """One group of several members, as its leader tells of it; only an ACTIVE one is found."""

    leader: str | None
    current: list[str]
    logIndex: int | None


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


class CpUnavailableError(Exception):
    """It cannot be done or told now; the message says why."""


CpChange: TypeAlias = Sequence[Put]
"""What is to be kept of a change that the servers have carried out; empty: it was so already."""
CpCalls: TypeAlias = "CpSubsystem | CpCluster"
"""What the calls go to. Changes are made under a lock of the cluster."""


@dataclass(frozen=True, slots=True)
class CpSubsystem:
    """The subsystem of a member that is alone; its methods raise what those of `CpCluster` do."""

    alone: Callable[[], CpMemberDocument]

    async def groups(self) -> list[CpGroupId]:
        """Return the groups, METADATA first, then default."""
        return [{"name": name, "id": number} for name, number in _IDS.items()]

    async def group(self, name: str) -> CpGroupDocument:
        """Return a group by its exact name."""
        number = _number(name)
        return {"id": {"name": name, "id": number}, "status": "ACTIVE", "members": [self.alone()]}

    async def members(self) -> list[CpMemberDocument]:
        """Return the one member."""
        return [self.alone()]

    async def local(self) -> CpMemberDocument:
        """Return the one member."""
        return self.alone()

    async def promote(self) -> CpChange:
        """Change nothing: the one member is one of the subsystem."""
        return ()

    async def sessions(self, group: str) -> list[CpSessionDocument]:
        """Return the sessions of a group: there are none, as nothing here opens one."""
        _number(group)
        refuse_metadata_sessions(group)
        return []

    async def remove_group(self, name: str) -> NoReturn:
        """Refuse to remove a group: the one that is not METADATA holds maps and queues."""
        refuse_metadata_removal(name)
        _number(name)
        raise CpConflictError(read_only(DEFAULT_GROUP))

    async def remove_session(self, group: str, session: str) -> NoReturn:
        """Refuse to end a session: there is none."""
        check_session(session)
        _number(group)
        raise CpUnknownError("no such session")

    async def remove_member(self, identifier: str) -> NoReturn:
        """Refuse to remove a member: there is one only."""
        if member_uuid(identifier) != uuid.UUID(self.alone()["uuid"]):
            raise CpUnknownError(NO_MEMBER)
        raise CpConflictError("the last CP member cannot be removed")

    async def reset(self) -> NoReturn:
        """Refuse to wipe the groups: they hold maps and queues."""
        raise CpConflictError(read_only(DEFAULT_GROUP))


NO_GROUP: Final = "no such CP group"
NO_MEMBER: Final = "no such CP member"


def bracket(address: str) -> str:
    """Return `[host]:port` for `host:port` or `[IPv6]:port`."""
    host, colon, port = address.rpartition(":")
    return address if host.startswith("[") else f"[{host}]{colon}{port}"


def read_only(group: str) -> str:
    """Return why a group that holds data is not changed."""
    return f"group {group} holds maps and queues: it is shown only"


def refuse_metadata_sessions(group: str) -> None:
    """Let any other group pass."""
    if group == METADATA:
        raise CpConflictError("group METADATA has no sessions")


def refuse_metadata_removal(name: str) -> None:
    """Let any other group pass."""
    if name.upper() == METADATA:
        raise CpInvalidError("group METADATA cannot be removed")


def check_session(session: str) -> None:
    """Let decimal numbers pass."""
    if not (session.isascii() and session.isdecimal()):
        raise CpInvalidError("the session identifier is no number")


def member_uuid(identifier: str) -> uuid.UUID:
    """Return the UUID that a call names a member by."""
    try:
        return uuid.UUID(identifier)
    except ValueError:
        raise CpInvalidError("the member identifier is no UUID") from None


def _number(group: str) -> int:
    number = _IDS.get(group)
    if number is None:
        raise CpUnknownError(NO_GROUP)
    return number
