"""The end-to-end tests of a module share a cluster, and run in the order in which they stand."""

from __future__ import annotations

import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
LISTED: Final = (
    *("--collect-only", "-q"),
    *("tests/e2e/test_clusters.py", "tests/e2e/test_operations.py", "tests/e2e/test_sidecars.py"),
)


def collected(*options: str) -> list[tuple[str, list[str]]]:
    """Return three modules in the order in which they run, each with its tests."""
    words = [sys.executable, "-m", "pytest", *LISTED, *options]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    tests = [line for line in done.stdout.splitlines() if "::" in line]
    return [(module, list(found)) for module, found in groupby(tests, _module)]


def _module(test: str) -> str:
    return test.partition("::")[0]


def test_a_module_runs_in_its_order_when_others_are_shuffled() -> None:
    written = collected("-p", "no:randomly")
    shuffled = collected("-p", "randomly", "--randomly-seed=2")
    assert [module for module, _ in shuffled] != [module for module, _ in written]
    assert sorted(shuffled) == sorted(written)
