"""What the structures of a member hold."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grid_member.engine.shard.shard import Shard

StructureKind: TypeAlias = Literal["map", "queue"]


class StructureUsage(NamedTuple):
    """What one structure holds. A tuple: there may be very many, made while requests wait."""

    kind: StructureKind
    name: str
    entries: int
    """A queue's items in flight count as well."""
    size_bytes: int
    """Of keys, as UTF-8, and values."""


def held_structures(shards: Iterable[Shard]) -> Iterator[tuple[StructureKind, str]]:
    """Yield kind and name of every structure that holds anything."""
    for shard in shards:
        for name in shard.state.maps.by_name:
            yield "map", name
        for name in shard.state.queues.by_name:
            yield "queue", name


def structure_usage(shards: Iterable[Shard]) -> Iterator[StructureUsage]:
    """Yield what every structure holds that holds anything."""
    for shard in shards:
        for name, of_map in shard.state.maps.by_name.items():
            yield StructureUsage("map", name, len(of_map.entries), of_map.size_bytes)
        for name, queue in shard.state.queues.by_name.items():
            entries = len(queue.items) + len(queue.in_flight)
            yield StructureUsage("queue", name, entries, queue.size_bytes)


def encode_usage(found: Iterable[StructureUsage]) -> bytes:
    """Return what structures hold as bytes. Takes a while for many; may run on another thread."""
    return zlib.compress(json.dumps(list(found)).encode())


def decode_usage(data: bytes) -> list[StructureUsage]:
    """Return what `encode_usage` made data from. May run on another thread."""
    return [StructureUsage(*fields) for fields in json.loads(zlib.decompress(data))]
