"""Where structures of several members live while their settings change, or differ: in one lane."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine import image
from grid_member.engine.cluster_placement import AGREED, AgreedPlacement, agreed
from grid_member.engine.lane import Lane
from grid_member.engine.log import MemoryLog, wall_clock_ms
from grid_member.engine.operations import SystemPut
from grid_member.engine.state import State
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.cluster.proposals import put
from tests.unit.engine.drive import condition
from tests.unit.engine.test_placement import structures

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.api import Kept
    from grid_member.engine.cluster_lanes import ClusterLanes

ON_DISK = structures(m=True, q=True)
IN_MEMORY = structures(m=False, q=False)


class Lanes:
    """One durable lane and the one in memory."""

    ended = False
    only = None

    def __init__(self) -> None:
        self.disk, self.volatile = self._lane(), self._lane()
        self.durable = [self.disk]

    def durable_of(self, name: str) -> Lane:
        return self.disk

    def _lane(self) -> Lane:
        lane = Lane(MemoryLog(wall_clock_ms), uuid.uuid4().bytes, wall_clock_ms, lambda *_: None)
        lane.start(asyncio.get_running_loop())
        return lane

    async def agreed(self, own: Kept) -> Kept:
        return await agreed(cast("ClusterLanes", self), own)


async def test_of_several_proposals_the_first_counts_also_behind_an_image() -> None:
    lanes = Lanes()
    first = {"map": {"m": False, "default": True}, "queue": {}}
    assert await lanes.agreed(first) == first
    for _ in range(3):  # as of members that began at the same moment
        later = SystemPut(AGREED + uuid.uuid4().hex, b'{"map": {"m": true}, "queue": {}}', 0)
        lanes.volatile.propose_system(later, lambda _: None)
    await condition(lambda: not lanes.volatile.busy)
    assert await lanes.agreed({"map": {"m": True}, "queue": {}}) == first
    state = State()
    state.load(list(image.parts(lanes.volatile.state.snapshot())))
    lanes.volatile.state = state
    assert await lanes.agreed({"map": {"m": True}, "queue": {}}) == first


async def test_what_is_on_disk_stays_there_with_all_that_is_meant_by_the_same_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lanes = Lanes()
    lanes.disk.propose(put("k"), lambda _: None, 1)
    await condition(lambda: not lanes.disk.busy)
    kept = await lanes.agreed({"map": {"m*": False, "n*": False, "k": True}, "queue": {"m": False}})
    assert kept == {"map": {"m*": True, "n*": False, "k": True}, "queue": {"m": False}}
    assert [one.message.partition(":")[0] for one in caplog.records] == ["the map m* stays on disk"]
    maps = AgreedPlacement(cast("ClusterLanes", lanes), lambda lane: lane.state.maps.found)
    maps.agree(kept["map"])
    maps.change(lambda _: None)
    maps.begin("map", lambda _: None)
    assert maps.lane("m2", persistent=False) is lanes.disk
    assert maps.lane("n2", persistent=True) is lanes.volatile
    assert maps.lane("unheard of", persistent=True) is lanes.disk
    assert maps.lane("unheard of", persistent=False) is lanes.volatile


def places(cluster: Cluster) -> set[str]:
    """Return where maps are, as far as any member knows."""
    return {
        "memory" if lane is engine._lanes.volatile else "disk"
        for engine in cluster.engines
        for lane in engine.lanes
        if lane.state.maps.found
    }


@pytest.mark.timeout(120)
async def test_nothing_that_was_answered_hides_while_settings_change(tmp_path: Path) -> None:
    async with Cluster(2, tmp_path, structures=ON_DISK) as cluster:
        one, other = cluster.drivers
        await one.put("m", "k", b"0")
        await one.remove("m", "k")
        cluster.engines[0].use_structures(IN_MEMORY)
        # The other one does not know yet.
        await one.put("m", "k", b"1")
        await other.put("m", "l", b"2")
        await one.offer("q", b"1")
        await other.offer("q", b"2")
        cluster.engines[1].use_structures(IN_MEMORY)
        for driver in (one, other):
            assert [await driver.value("m", key) for key in "kl"] == [b"1", b"2"]
        assert [await driver.take("q") for driver in (other, one, other)] == [b"1", b"2", None]


@pytest.mark.timeout(180)
async def test_it_takes_effect_when_no_member_is_left_and_nothing_is_on_disk(
    tmp_path: Path,
) -> None:
    async with Cluster(2, tmp_path, structures=ON_DISK) as cluster:
        await cluster.drivers[0].put("m", "k", b"1")
        await cluster.engines[1].stop()
        cluster.structures = IN_MEMORY
        await cluster.restart(1)
        assert await cluster.drivers[1].value("m", "k") == b"1"
        for driver in cluster.drivers:
            await driver.clear("m")
        for number, driver in enumerate(cluster.drivers):
            await driver.put("m", f"k{number}", b"2")
        for driver in cluster.drivers:
            assert [await driver.value("m", key) for key in ("k0", "k1")] == [b"2", b"2"]
        assert places(cluster) == {"disk"}

        await cluster.stop()
        await cluster.start()
        assert await cluster.drivers[0].value("m", "k1") == b"2"
        await cluster.drivers[0].clear("m")
        await cluster.drivers[1].put("m", "k", b"3")
        assert await cluster.drivers[0].value("m", "k") == b"3"
        assert places(cluster) == {"disk"}
        await cluster.drivers[0].clear("m")

        await cluster.stop()
        await cluster.start()
        await cluster.drivers[0].put("m", "k", b"4")
        assert await cluster.drivers[1].value("m", "k") == b"4"
        assert places(cluster) == {"memory"}
