"""Promise: only a backup as it was written is restored, and only into an empty directory."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from grid_member.engine import open_engine
from grid_member.engine.api import EngineError
from grid_member.engine.backup.restore import restore_backup, restore_once
from grid_member.engine.backup.salvage import salvage_store, wipe_store
from grid_member.engine.io import directory_lock
from grid_member.engine.io.directory_lock import lock_directory
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.engine.local import deliveries
from grid_member.engine.storage.identity import read_identity
from grid_member.engine.storage.store import open_store
from tests.unit.engine.backed_up import back_up, fill, flipped
from tests.unit.engine.drive import Driver, FixedStructures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
async def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)
    engine = open_engine(FixedStructures(), tmp_path / "base")
    await engine.start()
    driver = Driver(engine)
    await fill(driver, rounds=5)
    place = back_up(driver, tmp_path / "backups", tmp_path / "base")
    await engine.stop()
    return place


def is_untouched(directory: Path) -> bool:
    return not directory.exists() or {p.name for p in directory.iterdir()} <= {"lock"}


def sealed(backup: Path, **changes: object) -> None:
    """Change what the manifest says, with the right checksum."""
    file = backup / "manifest"
    line = json.dumps(json.loads(file.read_bytes().split(b"\n")[0]) | changes)
    file.write_text(f"{line}\n{hashlib.sha256(line.encode()).hexdigest()}\n")


def test_every_flipped_bit_is_found(backup: Path, tmp_path: Path) -> None:
    chance = random.Random(1)
    target = tmp_path / "target"
    for path in sorted(p for p in backup.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        bits = range(len(whole) * 8)
        for bit in chance.sample(bits, min(len(bits), 120)):
            path.write_bytes(flipped(whole, bit))
            with pytest.raises(EngineError):
                restore_backup(backup, target)
            assert is_untouched(target)
        for length in chance.sample(range(len(whole)), 20):
            path.write_bytes(whole[:length])
            with pytest.raises(EngineError, match="damaged or incomplete"):
                restore_backup(backup, target)
        path.write_bytes(whole + b"x")
        with pytest.raises(EngineError, match="damaged or incomplete"):
            restore_backup(backup, target)
        path.unlink()
        with pytest.raises(EngineError):
            restore_backup(backup, target)
        assert is_untouched(target)
        path.write_bytes(whole)
    restore_backup(backup, target)


def test_what_is_no_backup_of_this_version(backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    with pytest.raises(EngineError, match=r"name one of them, such as .*/backup-1$"):
        restore_backup(backup.parent, target)
    with pytest.raises(EngineError, match="is not a backup"):
        restore_backup(tmp_path / "nowhere", target)
    with pytest.raises(EngineError, match="is not a backup"):
        restore_backup(tmp_path / "base", target)
    whole = (backup / "manifest").read_bytes()
    files = json.loads(whole.split(b"\n")[0])["files"]
    for changes, problem in (
        ({"format": 2}, "format 2, this version reads 1"),
        ({"kind": "grid-member"}, "is not a backup"),
        ({"files": {**files, "../x": [0, ""]}}, "outside of it"),
        ({"files": {**files, "/etc/hostname": [0, ""]}}, "outside of it"),
        ({"files": {n: c for n, c in files.items() if "shard" not in n}}, "no shard 0"),
        ({"files": 7}, "not what a grid-member writes"),
    ):
        sealed(backup, **changes)
        with pytest.raises(EngineError, match=problem):
            restore_backup(backup, target)
        assert is_untouched(target)
        (backup / "manifest").write_bytes(whole)
    restore_backup(backup, target)


def test_a_directory_that_is_not_empty(backup: Path, tmp_path: Path) -> None:
    for name in ("notes", "store", "salvaged", ".hidden"):
        target = tmp_path / f"target-{name}"
        (target / name).mkdir(parents=True)
        with pytest.raises(EngineError, match=f"is not empty, it holds {name}"):
            restore_backup(backup, target)
        assert [path.name for path in target.iterdir()] == [name]
    foreign = tmp_path / "foreign"
    (foreign / "creating").mkdir(parents=True)
    (foreign / "creating" / "notes").write_bytes(b"")
    with pytest.raises(EngineError, match="was not written by a grid-member"):
        restore_backup(backup, foreign)
    volume = tmp_path / "volume"
    (volume / "lost+found").mkdir(parents=True)
    restore_backup(backup, volume)
    with pytest.raises(EngineError, match="is not empty"):
        restore_backup(backup, volume)


def test_a_directory_in_use(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_lock, "LOCK_PATIENCE_S", 0.0)
    store = open_store(tmp_path / "target", 1)
    shutil.rmtree(tmp_path / "target" / "store")
    with pytest.raises(EngineError, match="in use by another process"):
        restore_backup(backup, tmp_path / "target")
    store.close()


def test_a_backup_is_not_a_base_directory(backup: Path) -> None:
    before = {path.name for path in backup.iterdir()}
    with pytest.raises(EngineError, match=r"is a backup: .* name this one in persistence.restore"):
        open_store(backup, 1)
    assert {path.name for path in backup.iterdir()} == before


def test_the_setting_restores_once(backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    assert restore_once(backup, target) is not None
    identity = read_identity(target / "store" / "store.json")
    assert restore_once(backup, target) is None
    # The backup may have moved, or be gone, by then.
    moved = backup.rename(backup.parent / "elsewhere")
    assert restore_once(moved, target) is None
    assert restore_once(backup, target) is None
    assert read_identity(target / "store" / "store.json") == identity

    sealed(moved, id="another")
    with pytest.raises(EngineError, match="did not begin as the backup"):
        restore_once(moved, target)
    moved.rename(backup)
    with pytest.raises(EngineError, match="did not begin as the backup"):
        restore_once(backup, target)
    with pytest.raises(EngineError, match="did not begin as the backup"):
        restore_once(backup, tmp_path / "base")


def test_a_restored_store_is_private(backup: Path, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        restore_backup(backup, tmp_path / "target")
    finally:
        os.umask(mask)
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "target").rglob("*")}
    assert modes["store"] == modes["shard-0"] == 0o700
    assert modes["data.mdb"] == 0o600


@pytest.mark.parametrize("change", ["damaged", "empty", "unreadable"])
def test_a_restored_store_needs_its_backup_no_more(
    backup: Path, tmp_path: Path, change: str
) -> None:
    target = tmp_path / "target"
    restore_once(backup, target)
    member = read_identity(target / "store/store.json").member
    (backup / "manifest").unlink()
    if change == "damaged":
        (backup / "manifest").write_bytes(b"x")
    elif change == "unreadable":
        (backup / "manifest").mkdir()
    assert restore_once(backup, target) is None
    assert read_identity(target / "store/store.json").member == member


@pytest.mark.parametrize("name", ["salvaged", "emptied"])
def test_an_exchange_that_was_interrupted_is_finished_first(
    backup: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_lock, "LOCK_PATIENCE_S", 0.0)
    target = tmp_path / "target"
    restore_once(backup, target)
    shutil.copytree(target / "store", target / name)
    (target / "store").rename(target / ("store.damaged-1" if name == "salvaged" else "wiping"))
    member = read_identity(target / name / "store.json").member
    in_use = lock_directory(target)
    with pytest.raises(EngineError, match="in use"):
        restore_once(backup, target)
    assert (target / name).is_dir()
    os.close(in_use)
    assert restore_once(backup, target) is None
    assert read_identity(target / "store/store.json").member == member
    open_store(target, 1).close()


@pytest.mark.parametrize("recover", [salvage_store, wipe_store])
@pytest.mark.parametrize("gone", [False, True])
def test_a_recovery_without_identity_is_not_restored_over(
    backup: Path, tmp_path: Path, recover: Callable[[Path, int], object], gone: bool
) -> None:
    target = tmp_path / "target"
    restore_once(backup, target)
    identity = target / "store/store.json"
    identity.write_bytes(b"{")
    if gone:
        identity.unlink()
    with pytest.raises(DamagedStoreError):
        restore_once(backup, target)
    recover(target, 1)
    member = read_identity(identity).member
    assert restore_once(backup, target) is None
    assert read_identity(identity).member == member
