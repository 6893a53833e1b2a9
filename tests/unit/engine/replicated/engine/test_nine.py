"""Nine members: five hold everything, the others a part, and each serves all of it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.cluster_settings import MAX_FULL_REPLICAS
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.cluster.faults import EngineClient, kill_servers
from tests.unit.engine.cluster.load import MAPS, QUEUES, Load, told
from tests.unit.engine.replicated.engine.test_part_engine import (
    engines_of,
    holder_asked_by,
    holders_of,
)
from tests.unit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.engine.drive import Driver

SIZE = 9
SOME = 5
"""Operations of each kind on each member: there are many of both."""
KEPT = "kept"
PATIENCE_S = 60.0
pytestmark = pytest.mark.timeout(240)


def others_of(member: int) -> list[int]:
    return [other for other in range(SIZE) if other != member]


async def all_serve(cluster: Cluster) -> list[int]:
    """Wait until all are in contact; return those that hold everything."""
    await until(lambda: all(engine.in_contact for engine in cluster.engines), PATIENCE_S)
    return holders_of(cluster)


async def taken(driver: Driver, name: str, doubtful: set[bytes]) -> bytes | None:
    """Take the next item of a queue, but for those of which their producers do not know."""
    while (item := await driver.take(name)) in doubtful:
        pass
    return item


async def each_shows_what_others_wrote(
    cluster: Cluster, mark: str, doubtful: set[bytes] | None = None
) -> None:
    """Write and offer through each member, and read and take through the next one."""
    for member, driver in enumerate(cluster.drivers):
        following = cluster.drivers[(member + 1) % SIZE]
        value = f"{mark} {member}".encode()
        for name in MAPS:
            assert await driver.put(name, KEPT, value) is None
            assert await following.value(name, KEPT) == value
        for name in QUEUES:
            assert await driver.offer(name, value) is True
            assert await taken(following, name, doubtful or set()) == value


async def each_shows_what_was_last(
    cluster: Cluster, mark: str, doubtful: set[bytes] | None = None
) -> None:
    for driver in cluster.drivers:
        for name in MAPS:
            assert await driver.value(name, KEPT) == f"{mark} {SIZE - 1}".encode()
        for name in QUEUES:
            assert await taken(driver, name, doubtful or set()) is None


async def test_nine_members_lose_double_and_hide_nothing_whatever_befalls_some(
    tmp_path: Path,
) -> None:
    async with Cluster(SIZE, tmp_path) as cluster:
        takers = await all_serve(cluster)
        assert len(takers) == MAX_FULL_REPLICAS
        part = engines_of(cluster)[next(n for n in range(SIZE) if n not in takers)]
        async with Load(EngineClient(cluster), SIZE) as load:
            await load.progress(count=SOME)
            await kill_servers(cluster, asked := await holder_asked_by(cluster, part))
            await load.progress(count=SOME)
            away = next(taker for taker in takers if taker != asked)
            await cluster.engines[away].stop()
            await load.progress(*others_of(away), count=SOME)
            await cluster.restart(away)
            await load.progress(count=SOME)
            history = await load.drained()
        faults = history.faults()
        assert not faults, told(faults)
        # What a poll took that was lost with the answer to its offer comes back when it may.
        doubtful = history.doubtful()
        await each_shows_what_others_wrote(cluster, "before", doubtful)

        await cluster.stop()
        await cluster.start()
        takers = await all_serve(cluster)
        assert len(takers) == MAX_FULL_REPLICAS
        await each_shows_what_was_last(cluster, "before", doubtful)

        emptied = takers[0]
        await cluster.engines[emptied].stop()
        shutil.rmtree(tmp_path / f"m{emptied}")
        await cluster.restart(emptied)
        await each_shows_what_was_last(cluster, "before")
        await each_shows_what_others_wrote(cluster, "after")
        await each_shows_what_was_last(cluster, "after")
