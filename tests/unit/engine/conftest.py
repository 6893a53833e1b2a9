from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.engine import LocalEngine, open_engine
from tests.unit.engine.drive import Driver, FixedStructures, HandClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Bench:
    """Opens engines over one kind of log and stops what is left at the end."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.structures = FixedStructures()
        self.clock = HandClock()
        self.shards = 1
        self._engines: list[LocalEngine] = []

    async def open(self) -> Driver:
        engine = open_engine(self.structures, self.directory, shards=self.shards, clock=self.clock)
        assert not engine.ready
        await engine.start()
        self._engines.append(engine)
        return Driver(engine)

    async def stop(self) -> None:
        for engine in self._engines:
            await engine.stop()


@pytest.fixture(params=["memory", "lmdb", "lmdb-volatile", "lmdb-sharded"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """Every log, and the lanes of structures that no log keeps."""
    bench = Bench(None if request.param == "memory" else tmp_path)
    if request.param == "lmdb-volatile":
        bench.structures = FixedStructures(persistent=False)
    if request.param == "lmdb-sharded":
        bench.shards = 3
    yield bench
    await bench.stop()


@pytest.fixture
async def durable(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.stop()
