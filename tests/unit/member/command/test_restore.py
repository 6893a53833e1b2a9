"""Restoring by the command: what it refuses leaves nothing behind, and what it makes is private."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.persistence.start_calls import START_CALLS_FILE, StartCalls
from grid_member.cluster.values.system_store import start
from grid_member.command import EXIT_START
from grid_member.command.restore import restore
from grid_member.engine import open_engine
from grid_member.engine.api import EngineError
from grid_member.engine.io import directory_lock
from grid_member.engine.io.directory_lock import lock_directory
from tests.unit.engine.backed_up import back_up
from tests.unit.engine.drive import Driver, FixedStructures

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.api import Done


@pytest.fixture
async def backup(tmp_path: Path) -> Path:
    engine = open_engine(FixedStructures(), tmp_path / "base")
    await engine.start()

    def put(done: Done[None]) -> None:
        engine.map_put("m", "k", b"v", None, done)

    assert await start(put) is None
    place = back_up(Driver(engine), tmp_path / "backups", tmp_path / "base")
    await engine.stop()
    return place


def everything(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_nobody_else_may_read_a_backup_or_a_store(backup: Path, tmp_path: Path) -> None:
    assert restore(backup, tmp_path / "target") == 0
    for place in (backup, tmp_path / "base", tmp_path / "target"):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        files = [path for path in place.rglob("*") if path.is_file()]
        assert {path.name for path in files} >= {"store.json", "data.mdb"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_nobody_else_may_read_the_remembered_calls(tmp_path: Path) -> None:
    # What a crash left is no reason to fail, nor to write into it.
    (tmp_path / START_CALLS_FILE).with_suffix(".creating").write_text("{")
    StartCalls(tmp_path, lambda: 0).carry_out("key", "request", lambda: None)
    assert stat.S_IMODE((tmp_path / START_CALLS_FILE).stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {START_CALLS_FILE}


@pytest.mark.parametrize("inside", ["new", "new/below", "shard-0"])
def test_not_into_a_backup(
    backup: Path, tmp_path: Path, inside: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(backup, tmp_path / "backups" / "backup-2")
    link = tmp_path / "link"
    link.symlink_to(backup)
    for place in (backup, other, link):
        before = everything(tmp_path)
        assert restore(backup, place / inside) == EXIT_START
        assert "is inside of the backup" in capsys.readouterr().err
        assert everything(tmp_path) == before


def test_what_is_refused_leaves_nothing(
    backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (backup / "shard-0" / "data.mdb").open("ab") as file:
        file.write(b"x")
    (tmp_path / "empty").mkdir()
    before = everything(tmp_path)
    for directory in (tmp_path / "a" / "b" / "c", tmp_path / "empty"):
        assert restore(backup, directory) == EXIT_START
        assert "is not as it was written" in capsys.readouterr().err
        assert everything(tmp_path) == before


def test_what_was_there_before_stays(backup: Path, tmp_path: Path) -> None:
    (backup / "shard-0" / "data.mdb").unlink()
    directory = tmp_path / "used"
    directory.mkdir()
    (directory / "lock").touch()
    assert restore(backup, directory) == EXIT_START
    assert everything(directory) == {"lock"}


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    locked: list[int] = []
    flock = fcntl.flock

    def late(lock_fd: int, how: int) -> None:
        if not locked:
            path.unlink()
        locked.append(lock_fd)
        flock(lock_fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    monkeypatch.setattr(directory_lock, "LOCK_PATIENCE_S", 0.0)
    lock_fd = lock_directory(tmp_path)
    try:
        assert len(locked) == 2
        assert os.path.samestat(os.fstat(lock_fd), path.stat())
        with pytest.raises(EngineError, match="in use by another process"):
            lock_directory(tmp_path)
    finally:
        os.close(lock_fd)
