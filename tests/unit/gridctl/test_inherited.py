"""A user without a home directory, and an output in another character set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grid_operator.ports.inherited import NO_HOME, home_directory

if TYPE_CHECKING:
    import pytest


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    assert home_directory() == NO_HOME


def test_what_is_shown_is_utf_8_in_every_locale(tmp_path: Path) -> None:
    file = tmp_path / "gr\u00fcn.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "gridctl", "status", "-f", str(file), "--data-dir", str(tmp_path)],
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"gr" in done.stderr
    assert b"Traceback" not in done.stderr
