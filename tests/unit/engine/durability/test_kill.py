"""Promise: what was answered survives kill -9."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.engine.drive import condition
from tests.unit.engine.durability.history import expectation, violations

ROOT = Path(__file__).parents[4]


def start_workload(directory: Path, journal: Path, seed: int) -> subprocess.Popen[bytes]:
    arguments = [str(directory), str(journal), "real", "0", str(seed)]
    module = "tests.unit.engine.durability.workload"
    return subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT)


@pytest.mark.parametrize("lines", [200, 1500, 4000])
async def test_what_was_answered_survives_a_kill(tmp_path: Path, lines: int) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    process = start_workload(tmp_path / "data", journal, lines)
    try:
        await condition(
            lambda: journal.read_bytes().count(b"\n") > lines or process.poll() is not None
        )
        assert process.poll() is None
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
    assert expectation(journal.read_bytes()).certain
    assert await violations(tmp_path / "data", journal.read_bytes()) == []
