"""Promise: a backup is the data of one moment, complete or not there."""

from __future__ import annotations

import asyncio
import shutil
import zlib
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, EngineError
from grid_member.engine.backup.backup import (
    BackupInterruptedError,
    Draft,
    open_draft,
    remove_unfinished,
)
from grid_member.engine.backup.restore import restore_backup
from grid_member.engine.local import deliveries
from grid_member.engine.state.stored import as_entry
from grid_member.engine.storage.manifest import file_checksum, read_manifest
from tests.unit.engine.backed_up import (
    CREATED_MS,
    MEMBER,
    STRUCTURES,
    back_up,
    dumps,
    fill,
    stored_dumps,
)
from tests.unit.engine.volume import MIB, needs_volumes, volume
from tests.unit.engine.volume import fill as fill_disk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.engine.conftest import Bench


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody will confirm what was polled."""
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)


def maps_of_all_shards() -> list[str]:
    """Return three names, each of a structure in another of three shards."""
    by_shard = {zlib.crc32(name.encode()) % 3: name for name in "abcdefgh"}
    assert len(by_shard) == 3
    return list(by_shard.values())


MAPS = maps_of_all_shards()


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize("shards", [1, 3])
async def test_what_is_restored_is_what_was_there(
    durable: Bench, tmp_path: Path, shards: int
) -> None:
    durable.structures, durable.shards = STRUCTURES, shards
    durable.directory = base = tmp_path / "base"
    driver = await durable.open()
    await fill(driver)
    await driver.change_state(ClusterState.PASSIVE)
    moment = driver.engine.snapshot()
    there = dumps(moment)
    sizes = {name: await driver.size(name) for name in ("q", "q0", "q1", "q2")}
    assert sum(len(snapshot.queues["q"][1]) for snapshot in moment if "q" in snapshot.queues) == 8
    draft = open_draft(tmp_path / "backups", base)
    await driver.change_state(ClusterState.ACTIVE)
    await fill(driver, seed=2)
    told: list[int] = []
    backup = await asyncio.to_thread(draft.write, moment, MEMBER, CREATED_MS, told.append)
    assert dumps(moment) == there
    assert stored_dumps(backup, shards) == there
    assert told == sorted(told)
    assert told[-1] == 99

    uuid = driver.engine.member_uuid
    await driver.engine.stop()
    durable.directory = tmp_path / "other"
    done = await asyncio.to_thread(restore_backup, backup, durable.directory)
    assert (done.former_member, done.created_ms) == (str(MEMBER), CREATED_MS)
    other = await durable.open()
    assert other.engine.member_uuid == str(done.member)
    assert other.engine.member_uuid not in {uuid, str(MEMBER)}
    assert other.engine.cluster_state is ClusterState.PASSIVE
    assert other.engine.system_get("license") == b"key"
    entries = {
        (name, key): as_entry(found.entries[key])
        for snapshot in moment
        for name, found in snapshot.maps.items()
        for key in found.entries
    }
    assert {(n, k): await other.get(n, k) for n, k in entries} == entries
    restored = other.engine.snapshot()
    for before, after in zip(moment, restored, strict=True):
        assert after.maps == before.maps  # deadlines, idle times, orders of eviction
        assert after.system == before.system
    # What was in flight is at the head again, in its order.
    assert await other.size("q") == sizes["q"] + 8  # type: ignore[operator]
    await other.change_state(ClusterState.ACTIVE)
    taken = [await other.take("q") for _ in range(40)]
    assert taken == [b"item %d" % number for number in range(40)]
    for name in ("q0", "q1", "q2"):
        assert await other.size(name) == sizes[name]


async def test_it_is_one_moment_of_all_shards_while_writers_go_on(
    durable: Bench, tmp_path: Path
) -> None:
    durable.shards = 3
    durable.directory = tmp_path / "base"
    driver = await durable.open()
    over = asyncio.Event()

    async def write(writer: int) -> None:
        number = 0
        while not over.is_set():
            number += 1
            # Each map is in another shard; nothing is written before the last answer.
            for name in MAPS:
                await driver.put(name, f"w{writer}", b"%d" % number)

    assert len({id(driver.engine._shards.durable_of(name)) for name in MAPS}) == 3
    writers = [asyncio.create_task(write(writer)) for writer in range(4)]
    for round_ in range(1, 6):
        while int(await driver.value(MAPS[-1], "w0") or 0) < 20 * round_:  # noqa: ASYNC110
            await asyncio.sleep(0)
        draft = open_draft(tmp_path / "backups", durable.directory)
        snapshots, before = driver.engine.snapshot(), int(await driver.value(MAPS[-1], "w0") or 0)
        place = await asyncio.to_thread(draft.write, snapshots, MEMBER, CREATED_MS, lambda _: None)
        assert int(await driver.value(MAPS[-1], "w0") or 0) >= before
        target = tmp_path / f"restored-{round_}"
        await asyncio.to_thread(restore_backup, place, target)
        durable.directory = target
        other = await durable.open()
        for writer in range(4):
            first, second, third = [
                int(await other.value(name, f"w{writer}") or 0) for name in MAPS
            ]
            assert first >= second >= third >= first - 1
        await other.engine.stop()
        durable.directory = tmp_path / "base"
    over.set()
    await asyncio.gather(*writers)


async def test_each_backup_gets_the_next_number(durable: Bench, tmp_path: Path) -> None:
    durable.directory = tmp_path / "base"
    driver = await durable.open()
    backups = tmp_path / "deep" / "backups"
    assert back_up(driver, backups, tmp_path / "base").name == "backup-1"
    assert back_up(driver, backups, tmp_path / "base").name == "backup-2"
    shutil.rmtree(backups / "backup-1")
    (backups / "backup-7").mkdir()
    (backups / "backup-x").mkdir()
    assert back_up(driver, backups, tmp_path / "base").name == "backup-8"
    assert read_manifest(backups / "backup-8").backup_id != (
        read_manifest(backups / "backup-2").backup_id
    )
    assert names(backups) == ["backup-2", "backup-7", "backup-8", "backup-x"]


async def test_every_file_is_in_the_manifest(durable: Bench, tmp_path: Path) -> None:
    durable.directory, durable.shards = tmp_path / "base", 3
    driver = await durable.open()
    place = back_up(driver, tmp_path / "backups", tmp_path / "base")
    files = {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}
    found = read_manifest(place).files
    assert files == {*found, "manifest"}
    assert all(file_checksum(place / name) == checksum for name, checksum in found.items())
    assert all(path.stat().st_mode & 0o077 == 0 for path in place.rglob("data.mdb"))
    assert place.stat().st_mode & 0o077 == 0


async def test_an_interrupt_leaves_nothing(durable: Bench, tmp_path: Path) -> None:
    durable.directory = base = tmp_path / "base"
    driver = await durable.open()
    for number in range(3000):
        driver.engine.map_put("m", f"k{number}", b"v" * 2000, None, lambda _: None)
    assert await driver.put("m", "last", b"") is None
    backups = tmp_path / "backups"
    steps: list[int] = []
    open_draft(backups, base).write(driver.engine.snapshot(), MEMBER, 0, steps.append)
    assert len(steps) > 3
    for number in range(len(steps)):
        draft = open_draft(backups, base)
        left = number

        def advanced(percent: int, draft: Draft = draft) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                draft.interrupt()

        with pytest.raises(BackupInterruptedError, match="interrupted"):
            draft.write(driver.engine.snapshot(), MEMBER, 0, advanced)
        assert names(backups) == ["backup-1"]
        draft.discard()


async def test_what_a_crash_left_is_removed_but_not_what_is_in_the_making(
    durable: Bench, tmp_path: Path
) -> None:
    durable.directory = base = tmp_path / "base"
    driver = await durable.open()
    backups = tmp_path / "backups"
    draft = open_draft(backups, base)
    (left,) = backups.iterdir()
    dead = backups / ".creating-dead"
    shutil.copytree(left, dead)
    (dead / "shard-0").mkdir()
    remove_unfinished(backups)
    assert list(backups.iterdir()) == [left]
    open_draft(backups, base).discard()
    assert list(backups.iterdir()) == [left]
    assert draft.write(driver.engine.snapshot(), MEMBER, 0, lambda _: None).name == "backup-1"
    remove_unfinished(tmp_path / "nowhere")


def test_what_somebody_else_put_among_backups_stays(tmp_path: Path) -> None:
    backups, other = tmp_path / "backups", tmp_path / "other"
    (other / "shard-0").mkdir(parents=True)
    (backups / ".creating-z" / "precious").mkdir(parents=True)
    (backups / ".creating-x").symlink_to(other)
    (backups / ".creating-y").write_bytes(b"mine")
    open_draft(backups, tmp_path / "base").discard()
    assert names(backups) == [".creating-x", ".creating-y", ".creating-z"]
    assert (backups / ".creating-z" / "precious").is_dir()
    assert (other / "shard-0").is_dir()


def test_directories_that_cannot_be_used(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (tmp_path / "link").symlink_to(base)
    for inside in (base, base / "backups", base / "a" / ".." / "b", tmp_path / "link" / "x"):
        with pytest.raises(EngineError, match=r"inside of persistence\.base-dir"):
            open_draft(inside, base)
    assert names(base) == []
    (tmp_path / "file").write_bytes(b"")
    for wrong in (tmp_path / "file", tmp_path / "file" / "x"):
        with pytest.raises(EngineError, match="choose another directory"):
            open_draft(wrong, base)


@needs_volumes
async def test_a_full_disk_is_a_clear_error_and_leaves_nothing(
    durable: Bench, tmp_path: Path
) -> None:
    durable.directory = base = tmp_path / "base"
    driver = await durable.open()
    for number in range(40):
        await driver.put("m", f"k{number}", b"v" * 100_000)
    with volume(tmp_path / "disk", 16 * MIB) as disk:
        backups = disk / "backups"
        complete = back_up(driver, backups, base)
        for left_kib in (0, 4, 40, 60, 200, 1000, 3000, 3800):
            fill_disk(disk / "ballast", left_kib * 1024)
            with pytest.raises(EngineError, match="No space left on device"):
                back_up(driver, backups, base)
            assert names(backups) == ["backup-1"]
            (disk / "ballast").unlink()
        assert back_up(driver, backups, base).name == "backup-2"
        # Neither is there room for another store.
        fill_disk(disk / "ballast", 1_000_000)
        with pytest.raises(EngineError, match="No space left on device"):
            restore_backup(complete, disk / "target")
        assert not (disk / "target").exists()
