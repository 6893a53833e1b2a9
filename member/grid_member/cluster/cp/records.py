"""The members and own groups of the CP subsystem, as all members read them in the system store.

cp/member/<uuid>   a CP member; there are none until enough members hold data
cp/group/<name>    an own group, also one that was removed
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put

if TYPE_CHECKING:
    from grid_member.engine.state.system import SystemStore

_MEMBER: Final = "cp/member/"
_GROUP: Final = "cp/group/"


@dataclass(frozen=True, slots=True)
class CpMember:
    """A member of the subsystem."""

    uuid: str
    """Its own in the subsystem: another one each time that a member is promoted."""
    member: str
    """The UUID of the member of the cluster."""
    address: str
    server: str
    """What its nats-server is called."""
    order: int
    """Counts those that were promoted."""

    def put(self) -> Put:
        """Return what makes it one."""
        return Put(_MEMBER + self.uuid, _pack(asdict(self)))

    def removal(self) -> Put:
        """Return what makes it none."""
        return Put(_MEMBER + self.uuid, None)


@dataclass(frozen=True, slots=True)
class CpGroup:
    """An own group of the subsystem: a log of its own on the servers of its members."""

    name: str
    number: int
    """Another one when the group is made anew."""
    members: tuple[str, ...]
    """UUIDs in the subsystem; none: the group was removed."""

    @property
    def stream(self) -> str:
        """The stream that its log is in."""
        return f"cp-{self.name}"

    @property
    def active(self) -> bool:
        """Whether it was not removed."""
        return bool(self.members)

    def put(self) -> Put:
        """Return what keeps it as it is."""
        content = asdict(self)
        del content["name"]
        return Put(_GROUP + self.name, _pack(content))

    def with_members(self, members: tuple[str, ...]) -> CpGroup:
        """Return the group with other members."""
        return replace(self, members=members)


class CpRecords:
    """Reads what is kept."""

    def __init__(self, store: SystemStore) -> None:
        self._store = store

    def members(self) -> list[CpMember]:
        """Return the CP members in the order in which they became such."""
        found = [CpMember(**json.loads(value)) for _, value in self._store.system_items(_MEMBER)]
        return sorted(found, key=lambda member: member.order)

    def groups(self) -> list[CpGroup]:
        """Return the own groups by name, those that were removed among them."""
        groups = []
        for key, value in self._store.system_items(_GROUP):
            found = json.loads(value)
            name = key.removeprefix(_GROUP)
            groups.append(CpGroup(name, int(found["number"]), tuple(found["members"])))
        return groups


def _pack(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
