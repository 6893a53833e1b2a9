"""Runs the unit tests in two processes: those of several members beside all others.

Tests of several members mostly wait, for elections and for patience that ends, while the others
keep a core busy: `python -m tests.side_by_side [arguments of pytest]`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Final

ALL: Final = "tests/unit"
SEVERAL: Final = (
    "tests/unit/engine/cluster",
    "tests/unit/member/cluster",
)
NOTHING_FOUND: Final = 5
"""Pytest's exit status when no test fits the arguments."""
PYTEST: Final = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


def main(arguments: list[str]) -> int:
    """Run both; return the exit status."""
    ignored = [f"--ignore={path}" for path in SEVERAL]
    with tempfile.TemporaryFile() as told:
        beside = subprocess.Popen(
            [*PYTEST, *SEVERAL, *arguments], stdout=told, stderr=subprocess.STDOUT
        )
        try:
            others = subprocess.call([*PYTEST, ALL, *ignored, *arguments])
            several = beside.wait()
        finally:
            beside.kill()
            beside.wait()
        told.seek(0)
        sys.stdout.buffer.write(told.read())
    return _status(others, several)


def _status(*found: int) -> int:
    """Return the status of both: one of them may have nothing to do."""
    failed = [status for status in found if status not in {0, NOTHING_FOUND}]
    if failed:
        return failed[0]
    return 0 if 0 in found else NOTHING_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
