"""The programs and variables in the manuals do what the manuals say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grid_member.config import ConfigError, parse_config

DOCS = Path(__file__).parents[3] / "docs"
PYTHON_API = (DOCS / "python-api.md").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PYTHON_API, re.DOTALL)
ANSWERS = [
    r"http://127\.0\.0\.1:[0-9]+/grid/rest/maps/default/greeting\n",
    re.escape("".join(re.findall(r"```\n([^`]*: must [^`]*)```", PYTHON_API))),
]


@pytest.mark.parametrize(("program", "answer"), list(zip(PROGRAMS, ANSWERS, strict=True)))
def test_programs_run(program: str, answer: str) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GRID_")}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=False, env=plain
    )
    assert done.stderr == ""
    assert re.fullmatch(answer, done.stdout)


def test_variables_lead_to_the_settings_named() -> None:
    section = CONFIGURATION.partition("## Environment overrides")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(GRID_[A-Z0-9_]+)=[^`]*` \| `([^`]+)`", section, re.MULTILINE)
    assert len(rows) == 6
    for variable, setting in rows:
        with pytest.raises(ConfigError) as caught:
            parse_config("grid: {}", "f", {variable: ""})
        told = {str(p.place): p.path.replace("[0]", ".[]") for p in caught.value.problems}
        assert told[variable] == setting
