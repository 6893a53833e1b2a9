"""Runs the unit tests in four processes: those of several members beside all others.

Tests of several members mostly wait, for elections and for patience that ends, while the others
keep a core busy: `python -m tests.side_by_side [arguments of pytest]`. The fourth runs those of the
data path a second time, with compiled modules, which have to be built.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from typing import IO, Final

ALL: Final = "tests/unit"
BESIDE: Final = (
    ("tests/unit/member/cluster",),
    (
        *(f"tests/unit/engine/{name}" for name in ("cluster", "nats", "server")),
        *(f"tests/unit/engine/test_contract{name}.py" for name in ("", "_bounded", "_queues")),
    ),
)
"""What runs beside the others, each in a process of its own."""
COMPILED: Final = (
    *("-p", "tests.compiled", "tests/unit/engine", "tests/unit/member/lane"),
    *(f"--ignore=tests/unit/engine/{name}" for name in ("cluster", "nats", "server")),
)
"""What runs with compiled modules, too."""
NOTHING_FOUND: Final = 5
"""Pytest's exit status when no test fits the arguments."""
PYTEST: Final = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


def main(arguments: list[str]) -> int:
    """Run all of them; return the exit status."""
    ignored = [f"--ignore={path}" for paths in BESIDE for path in paths]
    with contextlib.ExitStack() as stack:
        beside: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []
        for paths in (*BESIDE, COMPILED):
            told = stack.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                [*PYTEST, *paths, *arguments], stdout=told, stderr=subprocess.STDOUT
            )
            stack.callback(_end, process)
            beside.append((process, told))
        found = [subprocess.call([*PYTEST, ALL, *ignored, *arguments])]
        for process, output in beside:
            found.append(process.wait())
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.buffer.flush()
    return _status(found)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _status(found: list[int]) -> int:
    """Return the status of all: some of them may have nothing to do."""
    failed = [status for status in found if status not in {0, NOTHING_FOUND}]
    if failed:
        return failed[0]
    return 0 if 0 in found else NOTHING_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
