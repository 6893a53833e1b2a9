"""Processes that fork: each has read all code once, and becomes what it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]
END_TIMEOUT_S = 20.0


class Forker:
    """A process that members or operators are forked from; see the scripts for its orders."""

    def __init__(self, script: Path) -> None:
        # Not in the path of the modules: the script's directory, whose names others have as well.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    def ask(self, *order: str | int) -> Any:
        """Give an order and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode())
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End it, with all that it forked."""
        self._process.communicate(timeout=END_TIMEOUT_S)
        assert self._process.returncode == 0
