"""The end-to-end tests of a module share a cluster, and run in the order in which they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
LISTED: Final = (
    *("--collect-only", "-q"),
    *("tests/e2e/test_clusters.py", "tests/e2e/test_operations.py"),
    *("tests/e2e/test_releases.py", "tests/e2e/test_sidecars.py"),
)


def collected(*options: str) -> list[str]:
    """Return the tests of four modules in the order in which they run."""
    words = [sys.executable, "-m", "pytest", *LISTED, *options]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_a_module_runs_in_its_order_with_a_plugin_that_shuffles() -> None:
    written = collected("-p", "no:randomly")
    assert len(written) > len(LISTED)
    assert collected("-p", "randomly", "--randomly-seed=2") == written
