"""The tree keeps the rules that no linter knows."""

from __future__ import annotations

import operator
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from grid_member.release import VERSION

ROOT = Path(__file__).resolve().parents[3]


def tracked_python_files() -> list[Path]:
    return [
        path
        for part in ("member", "operator", "tests", "bench")
        for path in sorted((ROOT / part).rglob("*.py"))
    ]


def test_operator_is_the_standard_library() -> None:
    assert Path(operator.__file__).parent == Path(sysconfig.get_path("stdlib"))


def test_operator_is_the_standard_library_in_the_checkout() -> None:
    code = "import operator; print(operator.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert Path(shown.stdout.strip()).parent == Path(sysconfig.get_path("stdlib"))


@pytest.mark.parametrize("part", ["operator", "member"])
def test_the_top_directories_are_no_packages(part: str) -> None:
    assert list((ROOT / part).glob("*.py")) == []


def test_no_file_holds_marks_of_a_merge() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *tracked_python_files()]
    marks = re.compile(r"^(<{7} |>{7} |={7}$)", re.MULTILINE)
    found = [str(page) for page in pages if marks.search(page.read_text(encoding="utf-8"))]
    assert len(pages) > 1000
    assert found == []


@pytest.mark.parametrize(
    "lock",
    ["requirements.lock", "run.lock", "member/requirements.lock", "operator/requirements.lock"],
)
def test_locks_are_pinned_hashed_and_name_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    requirements = [line for line in text.splitlines() if line and line[0] not in " #"]
    assert requirements
    assert all("==" in line for line in requirements)
    assert text.count("--hash=sha256:") >= len(requirements)
    assert "://" not in text
    assert "--index-url" not in text


def test_the_release_is_the_same_wherever_it_is_said() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
