"""What ./run installs: all that members, the operator and gridctl import, and no more."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = ("member/grid_member", "operator/grid_operator", "operator/gridctl")
OWN: Final = {Path(package).name for package in PACKAGES}
COMPILER: Final = {"mypy", "setuptools"}
"""What grid_member.compiled.build imports; .ci/compile.py installs them when they are needed."""


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE))


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules imported by a node, but for those that only a type checker reads."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def needed() -> set[str]:
    """Return the names of the distributions that our packages import."""
    distributions = packages_distributions()
    found = set()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            found |= {name.partition(".")[0] for name in imported(tree)}
    others = found - OWN - sys.stdlib_module_names - {"atheris"}
    return {distributions[name][0].lower().replace("_", "-") for name in others}


def test_all_that_is_imported_is_installed() -> None:
    assert needed() - COMPILER <= pins("run.lock").keys()
    assert pins("member/compile.lock").keys() >= COMPILER


def test_no_tool_of_development_is_installed() -> None:
    tools = {"mypy", "pytest", "ruff", "hypothesis", "setuptools", "atheris", "schemathesis"}
    assert tools <= pins("requirements.lock").keys()
    assert not tools & pins("run.lock").keys()


@pytest.mark.parametrize("lock", ["run.lock", "member/compile.lock"])
def test_versions_are_those_of_development(lock: str) -> None:
    """So that ./test adds to what ./run installed, and compiles nothing again."""
    assert pins(lock).items() <= pins("requirements.lock").items()
