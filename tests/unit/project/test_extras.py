"""The commands of a Grid that was installed without the extra that they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
MISSING = 'raise ModuleNotFoundError("No module named " + repr(__name__), name=__name__)\n'


@pytest.mark.parametrize(
    ("command", "package", "extra", "code"),
    [
        ("gridctl", "pydantic", "gridctl", 1),
        ("gridctl", "kubernetes", "gridctl", 1),
        ("kubectl-grid", "aiohttp", "gridctl", 1),
        ("grid-operator", "kopf", "operator", 1),
        ("grid-operator", "pydantic", "operator", 1),
        ("grid-member", "aiohttp", "member", 3),
        ("grid-member", "lmdb", "member", 3),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    command: str, package: str, extra: str, code: int, tmp_path: Path
) -> None:
    # As it is found first, the package cannot be imported from where it is installed.
    (tmp_path / f"{package}.py").write_text(MISSING)
    words = ["status"] if extra == "gridctl" else []
    done = subprocess.run(
        [BIN / command, *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert f"the package {package} is not installed: install Grid with its extra {extra}" in line
    assert line.endswith(f"pip install '/path/to/checkout[{extra}]'")


def test_a_missing_module_of_grid_itself_stays_a_defect(tmp_path: Path) -> None:
    package = tmp_path / "gridctl"
    package.mkdir()
    (package / "__init__.py").touch()
    main = (Path(__file__).parents[3] / "operator" / "gridctl" / "__main__.py").read_text()
    (package / "__main__.py").write_text(main)
    done = subprocess.run(
        [sys.executable, "-m", "gridctl"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "gridctl.command" in done.stderr
