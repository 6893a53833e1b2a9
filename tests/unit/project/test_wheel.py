"""gridctl outside the checkout: the wheel holds all of it, and its extra all that it imports."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]
PROGRAMS: Final = ("grid-member", "grid-operator", "gridctl", "kubectl-grid")
BUILD: Final = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
# What pip writes into the programs, without what the extra leaves out.
RUN: Final = """
import sys
from importlib.metadata import entry_points
sys.modules.update(dict.fromkeys(("kopf", "lmdb", "uvloop", "mypy")))
(script,) = entry_points(group="console_scripts", name=sys.argv[1])
sys.argv = sys.argv[1:]
sys.exit(script.load()())
"""
CLUSTER: Final = """
apiVersion: gridcluster.io/v1alpha1
kind: GridCluster
metadata: {name: demo, namespace: grids}
spec: {}
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that the wheel was unpacked into.

    Its dependencies are those of this environment, whose own copy of the project it does not see.
    """
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", BUILD, str(place)], cwd=ROOT, check=True)
    (wheel,) = place.glob("grid-*.whl")
    venv.create(place / "venv", symlinks=True)
    packages = sysconfig.get_path("purelib", "venv", vars={"base": str(place / "venv")})
    with zipfile.ZipFile(wheel) as files:
        files.extractall(packages)
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return place / "venv" / "bin" / "python"


def run(python: Path, *words: str, given: str = "") -> str:
    command = [str(python), "-I", "-c", RUN, *words]
    environment = {"HOME": str(python.parent), "PATH": os.defpath}
    ran = subprocess.run(
        command, input=given, cwd=python.parent, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("program", ["gridctl", "kubectl-grid"])
def test_it_runs_outside_the_checkout(python: Path, program: str) -> None:
    assert "explain" in run(python, program, "--help")
    explained = run(python, program, "explain", "-f", "-", given=CLUSTER)
    assert "demo in namespace grids" in explained


def test_the_wheel_is_what_runs(python: Path) -> None:
    shown = "import gridctl, grid_operator, grid_member; print(gridctl.__file__)"
    command = [str(python), "-I", "-c", shown]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert Path(ran.stdout.strip()).is_relative_to(python.parents[1])


def test_its_extra_is_the_operators_without_the_framework() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert project["scripts"].keys() == set(PROGRAMS)
    assert set(extras["operator"]) - set(extras["gridctl"]) == {"kopf>=1.45"}
    assert set(extras["gridctl"]) < set(extras["operator"])
    manual = (ROOT / "docs" / "gridctl.md").read_text(encoding="utf-8")
    assert f"grid-{project['version']}-py3-none-any.whl[gridctl]" in manual
