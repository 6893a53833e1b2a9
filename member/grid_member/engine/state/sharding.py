"""Which log has a structure; one snapshot made of those of several logs, and the reverse."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

from grid_member.config.names import find
from grid_member.engine.state.snapshot import WanPart, WanSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grid_member.engine.state.snapshot import Snapshot, WanMapSnapshot
    from grid_member.engine.wan.agreement import Agreement, MapReference, PublisherName


def shard_of(name: str, shards: int) -> int:
    """Return the number of the log that has a structure."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % shards


def merge(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return one snapshot of all that the snapshots of a cluster's shards hold.

    The first one is that of the system shard: what the others say of the system is of no use.
    """
    first = snapshots[0]
    return replace(
        first,
        sequence=max(snapshot.sequence for snapshot in snapshots),
        timestamp_ms=max(snapshot.timestamp_ms for snapshot in snapshots),
        members={
            # Counters are a shard's own. It is the incarnation that tells who has an item in
            # flight.
            member: max(
                snapshot.members[member] for snapshot in snapshots if member in snapshot.members
            )
            for member in {member for snapshot in snapshots for member in snapshot.members}
        },
        maps={name: found for snapshot in snapshots for name, found in snapshot.maps.items()},
        queues={name: found for snapshot in snapshots for name, found in snapshot.queues.items()},
        wan=_merge_wan([snapshot.wan for snapshot in snapshots]),
    )


def split(snapshot: Snapshot, shards: int) -> list[Snapshot]:
    """Return what each log of a cluster begins with; no member is known in it."""
    nobody = replace(snapshot, members={}, system={}, maps={}, queues={})
    return [
        replace(
            nobody,
            system=snapshot.system if shard == 0 else {},
            maps={n: found for n, found in snapshot.maps.items() if shard_of(n, shards) == shard},
            queues={
                n: found for n, found in snapshot.queues.items() if shard_of(n, shards) == shard
            },
            wan=snapshot.wan._replace(
                maps={
                    n: found
                    for n, found in snapshot.wan.maps.items()
                    if shard_of(n, shards) == shard
                }
            ),
        )
        for shard in range(shards)
    ]


def without_values(snapshot: Snapshot, prefixes: Iterable[str]) -> Snapshot:
    """Return the snapshot without the system values whose keys begin so, as a backup has it.

    Stamps and tombstones are data and stay. What waits for publishers, and what was agreed on about
    them, is the cluster's own: what begins as a backup is another cluster.
    """
    begins = tuple(prefixes)
    system = {key: value for key, value in snapshot.system.items() if not key.startswith(begins)}
    wan = snapshot.wan
    whole = WanPart(wan.whole.clock, None, ())
    maps = {
        name: found._replace(marks=found.marks._replace(queues=()), passed={}, queues={})
        for name, found in wan.maps.items()
    }
    return replace(snapshot, system=system, wan=WanSnapshot(whole, maps, wan.forgotten))


def _merge_wan(shards: Sequence[WanSnapshot]) -> WanSnapshot:
    """Return all replicated maps, and the newest agreement with the states of its members."""
    newest = max(
        (shard.whole for shard in shards),
        key=lambda whole: -1 if whole.agreement is None else whole.agreement.revision,
    )
    clock = max(shard.whole.clock for shard in shards)
    maps = {
        name: found
        if shard.whole.agreement == newest.agreement
        else _by_agreement(found, shard.whole.agreement, newest.agreement)
        for shard in shards
        for name, found in shard.maps.items()
    }
    forgotten = max(shard.forgotten for shard in shards)
    return WanSnapshot(newest._replace(clock=clock), maps, forgotten)


def _by_agreement(
    found: WanMapSnapshot, former: Agreement | None, agreement: Agreement | None
) -> WanMapSnapshot:
    """Return a map of a shard that has not got the newest agreement yet, as that has it.

    A queue stays when both agreements say the same of it. A publisher without a queue needs a sync
    once the snapshot is loaded.
    """
    name = found.marks.name
    before, after = _publishers(name, former), _publishers(name, agreement)
    kept = {publisher for publisher, target in after.items() if before.get(publisher) == target}
    marks = tuple(mark for mark in found.marks.queues if mark[0] in kept)
    queues = {publisher: of for publisher, of in found.queues.items() if publisher in kept}
    return found._replace(marks=found.marks._replace(queues=marks), queues=queues)


def _publishers(
    name: str, agreement: Agreement | None
) -> dict[PublisherName, tuple[str, MapReference]]:
    """Return the publishers of a map, each with its target's name and the map's reference."""
    if agreement is None:
        return {}
    fits = find({each: (reference,) for each, reference in agreement.maps}, name)
    reference = None if fits is None else fits[0]
    if reference is None:
        return {}
    return {
        each.name: (each.cluster_name, reference)
        for each in agreement.publishers
        if each.name.replication == reference.replication
    }
