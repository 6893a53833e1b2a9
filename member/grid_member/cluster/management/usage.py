"""How much the structures hold and what the store takes, against their limits."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Final, Protocol, TypedDict

from grid_member.cluster.membership.member_table import NO_DISK, Disk
from grid_member.config.names import WILDCARD, find
from grid_member.engine.api import Refused
from grid_member.engine.local.usage import StructureKind, StructureUsage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from grid_member.cluster.management.management import ManagedMember
    from grid_member.config.model.member import MemberConfig

_NO_LIMIT: Final = 2**31 - 1


class UsageSource(Protocol):
    """The engine, asked for what it holds."""

    def structure_usage(self) -> Iterable[StructureUsage]:
        """Return every structure that holds anything here."""

    async def cluster_usage(self) -> Iterable[StructureUsage] | Refused:
        """Return every structure of the cluster that holds anything."""

    def held_structures(self) -> Iterable[tuple[StructureKind, str]]:
        """Return kind and name of the same structures, without counting."""

    def store_bytes(self) -> int | None:
        """Return what the data takes on disk, None when it is in memory only. Blocks."""

    def poll_waiters(self) -> int:
        """Return how many polls wait here for an item."""


class LimitsDocument(TypedDict):
    """Null is no limit."""

    entries: int | None
    bytes: int | None


class StructureDocument(TypedDict):
    """One map or queue."""

    kind: StructureKind
    name: str
    entries: int
    bytes: int
    limits: LimitsDocument


class MemberUsageDocument(TypedDict):
    """The store of one member; null where it keeps everything in memory."""

    uuid: str
    address: str
    storeBytes: int | None
    freeBytes: int | None


class UsageDocument(TypedDict):
    """Maps first, then queues, each by name; members in join order."""

    structures: list[StructureDocument]
    members: list[MemberUsageDocument]


async def usage_document(source: UsageSource, member: ManagedMember) -> UsageDocument | Refused:
    """Return what the cluster holds; of other members' disks, what those told last."""
    config = member.config
    found = await source.cluster_usage()
    if isinstance(found, Refused):
        return found
    # There may be a hundred thousand maps, and a network volume may take its time as well: nobody
    # else waits for that.
    structures = await asyncio.to_thread(_structures, found, config)
    own = await asyncio.to_thread(disk_of, source, config.data_directory)
    leases = {} if member.membership is None else member.membership.member_table.leases()
    members: list[MemberUsageDocument] = []
    for one in member.members():
        lease = leases.get(one["uuid"])
        disk = own if one["localMember"] else lease.disk if lease else NO_DISK
        members.append(
            {
                "uuid": one["uuid"],
                "address": one["address"],
                "storeBytes": disk.store_bytes,
                "freeBytes": disk.free_bytes,
            }
        )
    return {"structures": structures, "members": members}


def disk_of(source: UsageSource, directory: Path | None) -> Disk:
    """Return how a member's disk is. Blocks."""
    return Disk(source.store_bytes(), _free_bytes(directory))


def _structures(found: Iterable[StructureUsage], config: MemberConfig) -> list[StructureDocument]:
    held = {(one.kind, one.name): one for one in found}
    kinds: tuple[tuple[StructureKind, Iterable[str]], ...] = (
        ("map", config.maps),
        ("queue", config.queues),
    )
    for kind, names in kinds:
        # What a wildcard stands for is known only once there is such a structure.
        for name in (one for one in names if WILDCARD not in one):
            held.setdefault((kind, name), StructureUsage(kind, name, 0, 0))
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "entries": one.entries,
            "bytes": one.size_bytes,
            "limits": limits_of(one.kind, one.name, config),
        }
        for _, one in sorted(held.items())
    ]


def limits_of(kind: str, name: str, config: MemberConfig) -> LimitsDocument:
    """Return how much a map or queue may hold."""
    if kind == "queue":
        queue = find(config.queues, name)
        limited = queue is not None and queue.max_size_items < _NO_LIMIT
        return {"entries": queue.max_size_items if queue and limited else None, "bytes": None}
    found = find(config.maps, name)
    eviction = found.eviction if found else None
    if eviction is None:
        return {"entries": None, "bytes": None}
    return {"entries": eviction.max_entries or None, "bytes": eviction.max_bytes or None}


def _free_bytes(directory: Path | None) -> int | None:
    if directory is None:
        return None
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None
