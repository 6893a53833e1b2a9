"""From one member to three and back: nothing is lost, added or put into another order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_member.engine import open_engine
from grid_member.engine.api import DataOrigin, EngineError
from grid_member.engine.backup.backup import open_draft
from grid_member.engine.backup.restore import restore_backup
from grid_member.engine.jetstream.snapshots import SnapshotWriter
from grid_member.engine.local import deliveries
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.replicated.import_backup import IMPORT
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from grid_member.engine.state.sharding import merge, without_values
from grid_member.engine.storage.exchange import STORE
from grid_member.engine.storage.store import CLUSTER
from tests.unit.engine.backed_up import (
    CREATED_MS,
    MEMBER,
    STRUCTURES,
    back_up,
    dumps,
    fill,
    stored,
)
from tests.unit.engine.cluster.clusters import START_S, Cluster
from tests.unit.engine.drive import Driver
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grid_member.engine.replicated.engine import ClusterEngine
    from grid_member.engine.state.snapshot import Snapshot

OF_MEMBERS = ("server/", "operation/", "cut/")
BINARY = "m\udc80 b\0"
pytestmark = pytest.mark.timeout(240)


class Restored(Cluster):
    """A cluster whose members are told of a backup."""

    def __init__(self, size: int, directory: Path, backup: Path) -> None:
        super().__init__(size, directory, structures=STRUCTURES)
        self.backup: Path | None = backup

    def made(self, number: int, *, durable: bool = True) -> ClusterEngine:
        engine = super().made(number, durable=durable)
        settings = replace(engine._cluster.settings, restore_from=self.backup, leftovers=OF_MEMBERS)
        return type(engine)(self.structures, ReplicatedShards(settings), wall_clock_ms)


class NotStarted(Restored):
    async def start(self) -> None:
        self.drivers = [Driver(self.made(number)) for number in range(self.size)]


async def waits_for_import(engine: ClusterEngine) -> None:
    await until(lambda: "imports a backup" in (engine.waiting or ""), START_S)


@pytest.fixture
async def backup(tmp_path: Path) -> Path:
    """Return a backup of a member that was alone."""
    base = tmp_path / "alone"
    driver = Driver(open_engine(STRUCTURES, base))
    await driver.engine.start()
    await fill(driver)
    for number in range(300):
        value = bytes(range(256)) * (number % 3)
        assert await driver.put(f"{BINARY}{number}", f"{number}\0", value, None) is None
    assert await driver.offer("large", b"\xff" * (1 << 20)) is True
    place = back_up(driver, tmp_path / "backups", base)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)  # what was polled stays so
        await driver.engine.stop()
    return place


def content(snapshots: Sequence[Snapshot]) -> list[bytes]:
    """Return what is data in snapshots, canonical."""
    whole = without_values(merge(snapshots), OF_MEMBERS)
    return dumps([replace(whole, sequence=0, timestamp_ms=0, members={})])


def restored(backup: Path, directory: Path) -> list[bytes]:
    restore_backup(backup, directory)
    return content([stored(directory / STORE).snapshot()])


def held_by(engine: ClusterEngine) -> list[bytes]:
    return content([shard.state.snapshot() for shard in engine._cluster.durable])


async def test_two_begin_as_a_backup_with_a_copy_each(backup: Path, tmp_path: Path) -> None:
    """No more copies can be made, and nobody else is waited for."""
    expected = restored(backup, tmp_path / "expected")
    async with Restored(2, tmp_path / "members", backup) as cluster:
        for engine in cluster.engines:
            assert held_by(engine) == expected


async def test_from_one_to_three_and_back(backup: Path, tmp_path: Path) -> None:
    expected = restored(backup, tmp_path / "expected")
    async with Restored(3, tmp_path / "members", backup) as cluster:
        assert [engine.origin for engine in cluster.engines].count(DataOrigin.IMPORTED) == 1
        for engine in cluster.engines:
            assert held_by(engine) == expected
            assert sum(bool(shard.state.maps.by_name) for shard in engine._cluster.durable) > 1
        draft = open_draft(tmp_path / "of-three", tmp_path / "members" / "m1")
        snapshots = await cluster.engines[1].moment()
        place = draft.write(snapshots, MEMBER, CREATED_MS, lambda _: None)
        await everything_is_taken_in_order(
            cluster, stored(tmp_path / "expected" / STORE).snapshot()
        )
    places = [tmp_path / f"members/m{number}" / CLUSTER for number in range(3)]
    assert not any((place / IMPORT).exists() for place in places)
    assert restored(place, tmp_path / "again") == expected


async def everything_is_taken_in_order(cluster: Cluster, snapshot: Snapshot) -> None:
    for name, (items, _) in snapshot.queues.items():
        assert await cluster.drivers[0].offer(name, b"new") is True
        taken = [await cluster.drivers[n % 3].take(name) for n in range(len(items) + 1)]
        assert taken == [*(item[1] for item in items), b"new"]


async def test_a_second_start_imports_nothing(backup: Path, tmp_path: Path) -> None:
    async with Restored(3, tmp_path / "members", backup) as cluster:
        assert await cluster.drivers[0].put("plain", "k1", b"later") is None
        before = held_by(cluster.engines[0])
        await cluster.stop()
        await cluster.start()
        assert [engine.origin for engine in cluster.engines] == [DataOrigin.BACKUP] * 3
        assert held_by(cluster.engines[2]) == before
        assert await cluster.drivers[1].value("plain", "k1") == b"later"


async def test_a_member_that_is_told_of_no_backup_waits_for_the_import_too(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody serves anything of an import that its member did not finish."""
    write, written = SnapshotWriter.write, 0

    async def dies(self: SnapshotWriter, snapshot: Snapshot) -> None:
        nonlocal written
        written += 1
        if written == 2:
            raise RuntimeError("out of power")
        await write(self, snapshot)

    monkeypatch.setattr(SnapshotWriter, "write", dies)
    expected = restored(backup, tmp_path / "expected")
    async with NotStarted(3, tmp_path / "members", backup) as cluster:
        for place in (backup, tmp_path / "not-here", tmp_path / "not-here"):
            cluster.backup = place
            cluster.engines.append(cluster.made(len(cluster.engines)))
        importing, *waiting = [asyncio.create_task(one.start()) for one in cluster.engines]
        with pytest.raises(RuntimeError, match="out of power"):
            await importing
        for engine in cluster.engines[1:]:
            await waits_for_import(engine)
        cluster.engines[2].end_waiting()
        with pytest.raises(EngineError, match="stopping"):
            await waiting[1]
        cluster.backup = None
        waiting[1] = asyncio.create_task(cluster.restart(2))
        await asyncio.sleep(0)  # the new engine is made
        await waits_for_import(cluster.engines[2])
        assert not any(start.done() for start in waiting)
        cluster.backup = backup
        await cluster.restart(0)
        await asyncio.wait_for(asyncio.gather(*waiting), START_S)
        assert [held_by(engine) for engine in cluster.engines] == [expected] * 3


async def test_what_reads_back_differently_is_not_served(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = SnapshotWriter.write

    async def loses_one(self: SnapshotWriter, snapshot: Snapshot) -> None:
        await write(self, replace(snapshot, maps=dict(list(snapshot.maps.items())[1:])))

    monkeypatch.setattr(SnapshotWriter, "write", loses_one)
    async with NotStarted(3, tmp_path / "members", backup) as cluster:
        cluster.engines = [cluster.made(number) for number in range(3)]
        starts = [asyncio.create_task(engine.start()) for engine in cluster.engines]
        done, _ = await asyncio.wait(starts, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        for engine in cluster.engines:
            engine.end_waiting()
        await asyncio.wait(starts)
        assert len(done) == 1
        with pytest.raises(EngineError, match="reads back differently"):
            done.pop().result()
        assert not any(engine.ready for engine in cluster.engines)
        for start in starts:
            assert isinstance(start.exception(), EngineError)


async def test_a_cluster_that_began_otherwise_is_left_alone(backup: Path, tmp_path: Path) -> None:
    async with Cluster(3, tmp_path / "members") as plain:
        assert await plain.drivers[0].put("plain", "k", b"1") is None
        await plain.engines[0].stop()
        told = Restored(3, tmp_path / "members", backup)
        told._ports, told._lines = plain._ports, plain._lines
        with pytest.raises(EngineError, match="did not begin as the backup"):
            await asyncio.wait_for(told.made(0).start(), START_S)
        await plain.restart(0)
        assert await plain.drivers[0].value("plain", "k") == b"1"
