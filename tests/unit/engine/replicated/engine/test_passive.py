"""A cluster that is made passive on one member while all of them write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.engine.api import ClusterState, Entry, Reason, Refused
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from pathlib import Path

MAPS = [f"m{number}" for number in range(8)]
"""So many that every shard has some."""
BEFORE = 300
"""Writes that are done when the state changes, of many that are under way."""
AT_ONCE = 8
"""Writers on each member."""


class Writer:
    """Writes on one member until that is refused."""

    def __init__(self, cluster: Cluster, member: int, name: str) -> None:
        self._driver = cluster.drivers[member]
        self._name = name
        self.begun: list[tuple[str, str]] = []
        self.done: list[tuple[str, str]] = []
        self.refused: Refused | None = None

    async def run(self) -> None:
        while self.refused is None:
            place = MAPS[len(self.begun) % len(MAPS)], f"{self._name}-{len(self.begun)}"
            self.begun.append(place)
            self.refused = await self._driver.put(*place, b"v")
            if self.refused is None:
                self.done.append(place)


async def test_what_was_begun_is_settled_when_the_cluster_is_passive(tmp_path: Path) -> None:
    async with Cluster(3, tmp_path) as cluster:
        assert {cluster.shard_of(name) for name in MAPS} == {0, 1, 2}
        writers = [Writer(cluster, n % 3, f"w{n}") for n in range(3 * AT_ONCE)]
        writing = asyncio.gather(*(writer.run() for writer in writers))
        await condition(lambda: sum(len(writer.done) for writer in writers) >= BEFORE)
        assert await cluster.drivers[0].change_state(ClusterState.PASSIVE) is True
        begun = [place for writer in writers for place in writer.begun]
        found = await _present(cluster, begun)
        await writing
        later = [place for writer in writers for place in writer.begun]
        assert await _present(cluster, later) == found
    assert {writer.refused and writer.refused.reason for writer in writers} == {Reason.PASSIVE}
    assert {place for writer in writers for place in writer.done} == found


async def _present(cluster: Cluster, places: list[tuple[str, str]]) -> set[tuple[str, str]]:
    reads = await asyncio.gather(*(cluster.drivers[1].get(*place) for place in places))
    return {place for place, read in zip(places, reads, strict=True) if isinstance(read, Entry)}
