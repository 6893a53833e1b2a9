"""Promise: what was answered survives power loss.

A member process runs under a preloaded shim that records each write and each sync. From that
record the disk after a power loss is worked out for many points, also with parts of what was not
synced, and a member is started on each. Builds that do not sync must be caught.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError
from tests.unit.engine.durability.history import violations
from tests.unit.engine.durability.power import Disk, Event, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
ROUNDS = 120
LOSSES = 150


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the power loss tests need a C compiler: install gcc"
    library = tmp_path_factory.mktemp("shim") / "powershim.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "powershim.c")]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True, capture_output=True)
    return library


def run_traced(shim: Path, tmp_path: Path, build: str, seed: int) -> list[Event]:
    root = tmp_path / "root"
    root.mkdir()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(shim),
        "TRACE_ROOT": str(root),
        "TRACE_FILE": str(tmp_path / "trace"),
    }
    module = "tests.unit.engine.durability.workload"
    arguments = [str(root / "data"), str(root / "journal"), build, str(ROUNDS), str(seed)]
    command = [sys.executable, "-m", module, *arguments]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=50)
    return list(read_trace((tmp_path / "trace").read_bytes()))


async def broken_promises(
    events: list[Event], tmp_path: Path, place: Path, seed: int, kept: tuple[float, ...]
) -> list[str]:
    """Lose power at many points, until something is wrong after one, and return that."""
    chance = random.Random(seed)
    points = set(chance.sample(range(len(events)), LOSSES)) | {len(events) - 1}
    disk = Disk(str(tmp_path / "root"))
    found: list[str] = []
    for number, event in enumerate(events):
        left = place / f"left-{number}"
        amid = chance.random() < 0.5
        if number in points and amid:
            with disk.under_way(event):
                disk.lose_power(left, chance, chance.choice(kept))
        disk.apply(event)
        if number not in points:
            continue
        if not amid:
            disk.lose_power(left, chance, chance.choice(kept))
        try:
            found += await violations(left / "data", bytes(disk.journal))
        except EngineError as error:
            found.append(f"does not start after event {number}: {error}")
        shutil.rmtree(left)
        if found:
            break
    return found


@pytest.fixture
def memory_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: starts on what is left need not sync for real."""
    shared = Path("/dev/shm")
    parent = shared if os.access(shared, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=parent) as place:
        yield Path(place)


@pytest.mark.parametrize("seed", [1, 2])
async def test_what_was_answered_survives_power_loss(
    shim: Path, tmp_path: Path, memory_disk: Path, seed: int
) -> None:
    events = run_traced(shim, tmp_path, "real", seed)
    assert await broken_promises(events, tmp_path, memory_disk, seed, (0, 0.3, 0.7, 1)) == []


async def test_the_trace_holds_what_the_disk_holds(shim: Path, tmp_path: Path) -> None:
    events = run_traced(shim, tmp_path, "real", 3)
    disk = Disk(str(tmp_path / "root"))
    for event in events:
        disk.apply(event)
    # Everything kept is the page cache: the shim missed no write.
    named = set(disk.cached_names().values())
    for inode, content in disk.contents.items():
        content.sync()
        if inode not in named:
            # The mark of an opening that is over.
            assert not content.durable
            continue
        (path,) = [p for p in (tmp_path / "root").rglob("*") if p.stat().st_ino == inode]
        assert path.read_bytes() == bytes(content.durable)
    assert sum(event.kind == "S" or event.synchronous for event in events) > ROUNDS
    synchronous = {Path(event.path).name for event in events if event.synchronous}
    assert synchronous == {"data.mdb", "tail"}


@pytest.mark.parametrize("build", ["no-sync", "no-meta-sync", "no-tail-sync", "no-tail-note"])
async def test_a_build_that_does_not_sync_is_caught(
    shim: Path, tmp_path: Path, memory_disk: Path, build: str
) -> None:
    events = run_traced(shim, tmp_path, build, 4)
    assert await broken_promises(events, tmp_path, memory_disk, 4, (0,))
