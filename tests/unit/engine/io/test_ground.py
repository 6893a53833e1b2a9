from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.io.ground import Ground, LostGroundError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "base" / "file"
    path.parent.mkdir()
    path.write_text("held")
    return path


def test_what_comes_back_is_there_again_unless_something_was_written_meanwhile(
    file: Path,
) -> None:
    ground = Ground(file.parent, [file])
    away = file.with_name("away")
    assert not ground.look()
    assert not ground.check_write()
    file.rename(away)
    assert ground.look()
    assert str(file) in (ground.loss or "")
    away.rename(file)
    assert not ground.look()
    assert ground.loss is None
    file.rename(away)
    assert ground.check_write()
    away.rename(file)
    assert ground.look()
    assert ground.loss is not None


def test_another_file_of_the_same_name_is_not_it(file: Path) -> None:
    ground = Ground(file.parent, [file])
    file.rename(file.with_name("away"))
    file.write_text("held")
    assert ground.look()
    assert f"{file} is another file" in (ground.loss or "")
    with pytest.raises(LostGroundError, match=str(file)):
        ground.check()


def test_a_file_that_lost_its_name_counts_as_told(file: Path) -> None:
    gone = False
    ground = Ground(file.parent, [file], lambda: gone)
    assert not ground.look()
    gone = True
    assert ground.look()


def test_a_disk_that_became_read_only(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(file.parent, [file])
    with monkeypatch.context() as read_only:
        disk = SimpleNamespace(f_flag=os.ST_RDONLY)
        read_only.setattr(os, "statvfs", lambda path: disk)
        assert ground.look()
        assert "read-only" in (ground.loss or "")
    assert not ground.look()
