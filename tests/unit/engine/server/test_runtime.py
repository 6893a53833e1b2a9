"""Directories that members which were killed have left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.nats.runtime import PREFIX, make_runtime

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys
from grid_member.engine.nats.runtime import make_runtime
print(make_runtime().path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_is_left_of_killed_members_is_removed_and_nothing_of_living_ones(
    temporary: Path,
) -> None:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        living = holder.stdout.readline().strip()
        killed = temporary / f"{PREFIX}killed"
        killed.mkdir()
        (killed / "nats.conf").write_text("token", encoding="utf-8")
        others = temporary / "grid-nats-of-something-else"
        others.mkdir()
        own = make_runtime()
        left = {str(path) for path in temporary.iterdir()}
        assert left == {living, str(others), str(own.path)}
        holder.kill()
    own.remove()
    own = make_runtime()
    assert set(temporary.iterdir()) == {others, own.path}
    own.remove()


def test_a_link_is_not_followed(temporary: Path) -> None:
    target = temporary / "data"
    target.mkdir()
    (target / "file").touch()
    (temporary / f"{PREFIX}link").symlink_to(target)
    make_runtime().remove()
    assert (target / "file").exists()


def test_the_directory_is_private() -> None:
    own = make_runtime()
    assert own.path.stat().st_mode & 0o777 == 0o700
    own.remove()
    assert not own.path.exists()
