"""Who is in the cluster, as every member reads it in the system store.

    member/<uuid>   on the list: written at the join, removed when the member leaves or is gone
    left/<uuid>     left while FROZEN or PASSIVE: may come back in that state
    lease/<uuid>    alive: written anew every few seconds, removed when that ended

No time is in what is decided by them: clocks of members differ and jump.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

from grid_member.cluster.values.system_store import Put

if TYPE_CHECKING:
    from grid_member.engine.state.system import SystemStore

MEMBER: Final = "member/"
LEFT: Final = "left/"
LEASE: Final = "lease/"


class MemberDocument(TypedDict):
    """One element of `members` in the cluster status document."""

    address: str
    liteMember: bool
    localMember: bool
    uuid: str
    memberVersion: str


class HealthDocument(TypedDict):
    """The whole health document."""

    nodeState: str
    clusterState: str
    clusterSafe: bool
    migrationQueueSize: int
    clusterSize: int


class Disk(NamedTuple):
    """What a member's data takes and what is free for it, in bytes; None without a disk."""

    store_bytes: int | None
    free_bytes: int | None


NO_DISK: Final = Disk(None, None)


class Description(NamedTuple):
    """What a member tells of itself that stays so as long as it runs."""

    name: str
    """For people."""
    version: str
    """`major.minor.patch`."""
    lite: bool
    """Whether it holds no data."""
    cp_member_count: int
    """How many CP members it has configured; 0 is none."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member as it told of itself when it joined."""

    uuid: str
    incarnation: str
    """Another one after each start, and when the member joins again."""
    address: str
    name: str
    version: str
    """`major.minor.patch`."""
    lite: bool
    server: str
    """What its nats-server is called."""
    joined_ms: int
    """Later than that of every member that was there: the order of the list."""
    cp_member_count: int | None = None
    """How many CP members it has configured; None: it is of a version that does not tell."""

    def put(self) -> Put:
        """Return what puts the member on the list."""
        return Put(MEMBER + self.uuid, self._pack())

    def put_left(self) -> Put:
        """Return what notes that it may come back."""
        return Put(LEFT + self.uuid, self._pack())

    def _pack(self) -> bytes:
        # The key that members of every version read.
        keys = {"incarnation": "life"}
        content = {keys.get(name, name): value for name, value in asdict(self).items()}
        return json.dumps(content, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Lease:
    """What a heartbeat writes."""

    incarnation: str
    beat: int
    """Counts the heartbeats of an incarnation."""
    passed_barriers: frozenset[str] = frozenset()
    """The barriers that this member has passed."""
    disk: Disk = NO_DISK

    def put(self, uuid: str) -> Put:
        """Return the put of the heartbeat."""
        content = {
            "life": self.incarnation,
            "beat": self.beat,
            "seen": sorted(self.passed_barriers),
            "disk": self.disk,
        }
        return Put(LEASE + uuid, json.dumps(content, separators=(",", ":")).encode())


class MemberTable:
    """Reads who is in the cluster."""

    def __init__(self, store: SystemStore) -> None:
        self._store = store

    def members(self) -> list[MemberRecord]:
        """Return the members on the list, in the order in which they joined."""
        return sorted(self._records(MEMBER), key=lambda found: (found.joined_ms, found.uuid))

    def left_members(self) -> list[MemberRecord]:
        """Return the members that may come back while the cluster is FROZEN or PASSIVE."""
        return self._records(LEFT)

    def leases(self) -> dict[str, Lease]:
        """Return the leases by their members' UUIDs."""
        items = self._store.system_items(LEASE)
        return {key.removeprefix(LEASE): _read_lease(value) for key, value in items}

    def lease(self, uuid: str) -> Lease | None:
        """Return one member's lease, None when it has ended."""
        value = self._store.system_get(LEASE + uuid)
        return None if value is None else _read_lease(value)

    def has_lease(self, uuid: str, incarnation: str) -> bool:
        """Tell whether an incarnation of a member goes on."""
        lease = self.lease(uuid)
        return lease is not None and lease.incarnation == incarnation

    def _records(self, prefix: str) -> list[MemberRecord]:
        return [_read_record(value) for _, value in self._store.system_items(prefix)]


def _read_record(value: bytes) -> MemberRecord:
    found = json.loads(value)
    return MemberRecord(
        uuid=str(found["uuid"]),
        incarnation=str(found["life"]),
        address=str(found["address"]),
        name=str(found["name"]),
        version=str(found["version"]),
        lite=bool(found["lite"]),
        server=str(found["server"]),
        joined_ms=int(found["joined_ms"]),
        cp_member_count=found.get("cp_member_count"),
    )


def _read_lease(value: bytes) -> Lease:
    found = json.loads(value)
    return Lease(
        str(found["life"]),
        int(found["beat"]),
        frozenset(map(str, found["seen"])),
        Disk(*found["disk"]),
    )
