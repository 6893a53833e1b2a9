from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from tests.prometheus.program import promtool_program

if TYPE_CHECKING:
    from collections.abc import Callable

    Promtool = Callable[..., str]

RUN_LIMIT_S: Final = 50.0


@pytest.fixture(scope="session")
def promtool() -> Promtool:
    """Give a function that runs promtool and returns what it says; "" when it finds nothing."""
    program = promtool_program()

    def run(*arguments: str, given: str = "") -> str:
        ran = subprocess.run(
            [program, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
        )
        told = (ran.stdout + ran.stderr).strip()
        return (told or f"exit code {ran.returncode}") if ran.returncode else ""

    return run
