"""Promise: whatever is killed in the middle of its work leaves the whole old or the whole new."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

from grid_member.engine import open_engine
from grid_member.engine.backup.backup import open_draft, remove_unfinished
from grid_member.engine.backup.restore import restore_backup, restore_once
from grid_member.engine.backup.salvage import salvage_store, wipe_store
from grid_member.engine.local import deliveries
from grid_member.engine.storage.identity import read_identity
from grid_member.engine.storage.store import open_store
from tests.unit.engine.backed_up import (
    CREATED_MS,
    MEMBER,
    STRUCTURES,
    back_up,
    fill,
    flipped_everywhere,
    killed_at,
    lines_of,
    stored,
)
from tests.unit.engine.drive import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from grid_member.engine import LocalEngine

POINTS = 70


def points(work: Callable[[], object], seed: int) -> Iterator[int]:
    """Yield lines to die at: the last ones, where things get their names, and many others."""
    count = lines_of(work)
    chance = random.Random(seed)
    yield from sorted({*chance.sample(range(1, count), min(POINTS, count - 1)),
                       *range(max(1, count - 40), count + 1)})  # fmt: skip


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalEngine:
    """An engine that was stopped; its state can still be read."""
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)
    made = open_engine(STRUCTURES, tmp_path / "base")
    await made.start()
    await fill(Driver(made), rounds=10)
    await made.stop()
    return made


def test_a_backup(engine: LocalEngine, tmp_path: Path) -> None:
    snapshots = engine.snapshot()
    there = stored(tmp_path / "base" / "store").dump()
    backups = tmp_path / "backups"

    def work() -> None:
        draft = open_draft(backups, tmp_path / "base")
        draft.write(snapshots, MEMBER, CREATED_MS, lambda _: None)

    complete = 0
    for line in points(work, 1):
        shutil.rmtree(backups, ignore_errors=True)
        killed_at(line, work)
        found = [path.name for path in backups.iterdir()] if backups.exists() else []
        assert all(name == "backup-1" or name.startswith(".creating-") for name in found)
        if "backup-1" in found:
            complete += 1
            assert stored(backups / "backup-1").dump() == there
            shutil.rmtree(tmp_path / "target", ignore_errors=True)
            restore_backup(backups / "backup-1", tmp_path / "target")
        remove_unfinished(backups)
        left = [path.name for path in backups.iterdir()] if backups.exists() else []
        assert left == [name for name in found if name == "backup-1"]
    assert 0 < complete < POINTS
    assert stored(tmp_path / "base" / "store").dump() == there


def test_a_restore(engine: LocalEngine, tmp_path: Path) -> None:
    backup = back_up(Driver(engine), tmp_path / "backups", tmp_path / "base")
    restore_backup(backup, tmp_path / "once")
    there = stored(tmp_path / "once" / "store").dump()
    target = tmp_path / "target"
    done = 0
    for line in points(lambda: restore_backup(backup, tmp_path / "counted"), 2):
        shutil.rmtree(target, ignore_errors=True)
        killed_at(line, lambda: restore_once(backup, target))
        whole = (target / "store").exists()
        done += whole
        assert (restore_once(backup, target) is None) is whole
        assert stored(target / "store").dump() == there
        assert not (target / "creating").exists()
        open_store(target, 1).close()
    assert done > 0


@pytest.fixture
def hit(engine: LocalEngine, tmp_path: Path) -> Path:
    """A damaged store."""
    path = tmp_path / "base" / "store/shard-0/data.mdb"
    data = path.read_bytes()
    path.write_bytes(flipped_everywhere(data, b"item 7"))
    return tmp_path / "base"


def test_a_salvage(hit: Path, tmp_path: Path) -> None:
    shutil.copytree(hit, tmp_path / "once")
    salvage_store(tmp_path / "once", 1)
    there = stored(tmp_path / "once" / "store").dump()
    member = read_identity(hit / "store" / "store.json").member
    damaged = (hit / "store/shard-0/data.mdb").read_bytes()
    place = tmp_path / "place"
    shutil.copytree(hit, tmp_path / "counted")
    swapped = 0
    for line in points(lambda: salvage_store(tmp_path / "counted", 1), 3):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(hit, place)
        killed_at(line, lambda: salvage_store(place, 1))
        if any((place / name).exists() for name in ("salvaged", "store.damaged-1")):
            swapped += 1
            open_store(place, 1).close()  # finishes the exchange
        else:
            assert (place / "store/shard-0/data.mdb").read_bytes() == damaged
            salvage_store(place, 1)
        assert stored(place / "store").dump() == there
        assert read_identity(place / "store" / "store.json").member == member
        assert (place / "store.damaged-1/shard-0/data.mdb").read_bytes() == damaged
        assert {p.name for p in place.iterdir()} == {"lock", "store", "store.damaged-1"}
    assert swapped > 0


def test_a_wipe(hit: Path, tmp_path: Path) -> None:
    damaged = (hit / "store/shard-0/data.mdb").read_bytes()
    place = tmp_path / "place"
    shutil.copytree(hit, tmp_path / "counted")
    swapped = 0
    for line in points(lambda: wipe_store(tmp_path / "counted", 1), 4):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(hit, place)
        killed_at(line, lambda: wipe_store(place, 1))
        file = place / "store/shard-0/data.mdb"
        decided = (place / "emptied").exists() or file.read_bytes() != damaged
        swapped += decided
        if not decided:
            wipe_store(place, 1)
        open_store(place, 1).close()
        assert stored(place / "store").sequence == 0
        assert {path.name for path in place.iterdir()} == {"lock", "store"}
    assert swapped > 0
