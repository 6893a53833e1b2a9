"""What ./run does before it starts anything: it installs once for each lock."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]
# Stands in for Python: makes an environment whose Python writes down how it is called.
PYTHON: Final = """#!/bin/sh
mkdir -p .venv/bin
cat >.venv/bin/python <<'END'
#!/bin/sh
echo "$@" >>calls
[ ! -e fails ]
END
chmod +x .venv/bin/python
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "install.sh", tmp_path / ".ci")
    (tmp_path / "run.lock").write_text("grid==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def install(checkout: Path) -> tuple[int, list[str]]:
    """Return the exit code, and how pip was called since the start before."""
    ran = subprocess.run(
        ["sh", "-euc", ". ./.ci/install.sh"],
        cwd=checkout,
        env={"PATH": "/usr/bin:/bin", "PYTHON": "./python"},
    )
    calls = checkout / "calls"
    called = calls.read_text().splitlines() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return ran.returncode, called


def test_it_installs_once(checkout: Path) -> None:
    code, (dependencies, project) = install(checkout)
    assert code == 0
    assert dependencies.endswith("--require-hashes -r run.lock")
    assert project.endswith("--no-build-isolation -e .")
    assert install(checkout) == (0, [])


@pytest.mark.parametrize("file", ["run.lock", "pyproject.toml"])
def test_it_installs_what_changed(checkout: Path, file: str) -> None:
    install(checkout)
    (checkout / file).write_text("another\n")
    assert len(install(checkout)[1]) == 2
    assert install(checkout) == (0, [])


def test_what_failed_is_not_taken_for_installed(checkout: Path) -> None:
    (checkout / "fails").touch()
    code, called = install(checkout)
    assert code != 0
    assert len(called) == 1
    (checkout / "fails").unlink()
    assert len(install(checkout)[1]) == 2
