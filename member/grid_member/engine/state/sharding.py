"""Which log has a structure; one image made of those of several logs, and several made of one."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grid_member.engine.state.snapshot import Image


def shard_of(name: str, shards: int) -> int:
    """Return the number of the log that has a structure."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % shards


def merged(images: Sequence[Image]) -> Image:
    """Return one image of all that the images of a cluster's shards hold.

    The first one is that of the system shard: what the others say of the system is of no use.
    """
    first = images[0]
    return replace(
        first,
        sequence=max(image.sequence for image in images),
        timestamp_ms=max(image.timestamp_ms for image in images),
        members={
            # Counters are a shard's own. It is the life that tells who has an item in flight.
            member: max(image.members[member] for image in images if member in image.members)
            for member in {member for image in images for member in image.members}
        },
        maps={name: found for image in images for name, found in image.maps.items()},
        queues={name: found for image in images for name, found in image.queues.items()},
    )


def split(image: Image, shards: int) -> list[Image]:
    """Return what each log of a cluster begins with; no member is known in it."""
    nobody = replace(image, members={}, system={}, maps={}, queues={})
    return [
        replace(
            nobody,
            system=image.system if shard == 0 else {},
            maps={n: found for n, found in image.maps.items() if shard_of(n, shards) == shard},
            queues={n: found for n, found in image.queues.items() if shard_of(n, shards) == shard},
        )
        for shard in range(shards)
    ]


def without_values(image: Image, prefixes: Iterable[str]) -> Image:
    """Return the image without the system values whose keys begin so."""
    begins = tuple(prefixes)
    system = {key: value for key, value in image.system.items() if not key.startswith(begins)}
    return replace(image, system=system)
