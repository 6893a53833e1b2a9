"""An engine with bounded maps against the model: puts, reads and time in any order."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grid_member.engine import open_engine
from grid_member.engine.api import Eviction, EvictionPolicy, MapSettings
from tests.unit.engine.drive import Driver, FixedStructures, HandClock
from tests.unit.engine.local.bounded import BoundedMap

if TYPE_CHECKING:
    from collections.abc import Iterator

Step: TypeAlias = tuple[str, str, int]
KEYS = "abcdef"
KINDS = ["put", "put", "put", "get", "get", "get", "remove", "advance", "clear"]
EVICTIONS = st.builds(
    Eviction,
    st.sampled_from([EvictionPolicy.LRU, EvictionPolicy.LFU]),
    st.integers(0, 4),
    st.sampled_from([0, 0, 9]),
)


def steps(kinds: list[str]) -> st.SearchStrategy[list[Step]]:
    """Kind, key, and a number that means what the kind needs."""
    step = st.tuples(st.sampled_from(kinds), st.sampled_from(KEYS), st.integers(0, 5))
    return st.lists(step, max_size=50)


@pytest.fixture(autouse=True)
def _no_expiry_rounds() -> Iterator[None]:
    """Expired entries stay, absent, until they are found idle: the model has no rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grid_member.engine.local.expiry_rounds.EXPIRY_PERIOD_S", 3600)
        yield


class World:
    """An engine and a model that are told the same."""

    def __init__(self, directory: Path | None, bounds: MapSettings) -> None:
        self.directory = directory
        self.bounds = bounds
        self.structures = FixedStructures({"m": bounds})
        self.clock = HandClock()
        self.model = BoundedMap()

    async def open(self) -> Driver:
        engine = open_engine(self.structures, self.directory, clock=self.clock)
        await engine.start()
        return Driver(engine)

    async def play(self, played: list[Step]) -> list[bytes | None]:
        """Do the steps with both, which must agree after each; return what is there at the end."""
        driver = await self.open()
        for kind, key, number in played:
            if kind == "restart":
                await driver.engine.stop()
                driver = await self.open()
            else:
                await self.step(driver, kind, key, number)
            found = driver.engine.shards[0].state.maps.by_name.get("m")
            assert set(() if found is None else found.entries) == set(self.model.held)
        values = [await driver.value("m", key) for key in KEYS]
        await driver.engine.stop()
        return values

    def expected(self) -> list[bytes | None]:
        """Return what the model has now."""
        return [self.model.read(key, self.clock.now_ms) for key in KEYS]

    async def step(self, driver: Driver, kind: str, key: str, number: int) -> None:
        now_ms = self.clock.now_ms
        match kind:
            case "put":
                value = b"x" * number
                assert await driver.put("m", key, value) is None
                bounds = self.bounds
                ttl_ms, idle_ms = bounds.time_to_live_s * 1000, bounds.max_idle_s * 1000
                self.model.put(key, value, bounds.eviction, now_ms, ttl_ms=ttl_ms, idle_ms=idle_ms)
            case "get":
                assert await driver.value("m", key) == self.model.read(key, now_ms)
            case "remove":
                await driver.remove("m", key)
                self.model.remove(key)
            case "clear":
                await driver.clear("m")
                self.model.clear()
            case "configure":
                self._configure(number)
                driver.engine.use_structures(self.structures)
            case _:
                self.clock.advance(number)

    def _configure(self, number: int) -> None:
        """Change the limits and sometimes the policy, as between two starts."""
        before = self.bounds.eviction
        policy = EvictionPolicy.LRU if number % 2 else EvictionPolicy.LFU
        eviction = None if before is not None and number == 0 else Eviction(policy, number)
        self.bounds = replace(self.bounds, eviction=eviction)
        self.structures.maps["m"] = self.bounds


@given(
    steps(KINDS),
    st.builds(MapSettings, st.integers(0, 6), st.integers(0, 6), st.none() | EVICTIONS),
)
@settings(max_examples=200)
def test_any_history_is_that_of_the_model(played: list[Step], bounds: MapSettings) -> None:
    world = World(None, bounds)
    assert asyncio.run(world.play(played)) == world.expected()


@given(
    steps([*KINDS, "restart", "configure"]),
    st.builds(MapSettings, st.integers(0, 6), st.just(0), st.none() | EVICTIONS),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_restarts_and_new_settings_change_no_history(
    played: list[Step], bounds: MapSettings
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), bounds)
        assert asyncio.run(world.play(played)) == world.expected()
