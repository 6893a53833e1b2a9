"""What lives how long is decided by the log's time, whatever a member's own clock shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import MapSettings
from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.local import expiry_rounds
from grid_member.engine.log.log import wall_clock_ms
from grid_member.engine.replicated.engine import ClusterEngine
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from tests.unit.engine.drive import Driver, FixedStructures, condition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOUR_MS = 3_600_000
LONG, SHORT = MapSettings(time_to_live_s=1800), MapSettings(time_to_live_s=1)
MANY = 50
FEW_RECORDS = 20
"""What is written beside: an expiry or two, and what a start writes."""


@pytest.fixture(params=[HOUR_MS, -HOUR_MS], ids=["an-hour-ahead", "an-hour-behind"])
async def engine(
    request: pytest.FixtureRequest, alone: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ClusterEngine]:
    """A member whose clock is wrong, over a stream whose time is right."""
    monkeypatch.setattr(expiry_rounds, "EXPIRY_PERIOD_S", 0.01)
    settings = ClusterSettings("dev", "m", 0, (("127.0.0.1", 0),), "grid", "pw")
    structures = FixedStructures({"long": LONG, "short": SHORT})
    shards = ReplicatedShards(settings, shards=1)
    made = ClusterEngine(structures, shards, lambda: wall_clock_ms() + request.param)
    await made.start()
    yield made
    await made.stop()


async def test_a_wrong_clock_neither_floods_the_log_nor_keeps_what_is_over(
    engine: ClusterEngine,
) -> None:
    driver, state = Driver(engine), engine.shards[0].state
    for number in range(MANY):
        assert await driver.put("long", str(number), b"v") is None
    assert await driver.put("short", "k", b"v") is None
    assert await driver.system("a", b"v", 1800) is None
    before = state.sequence
    await condition(lambda: "short" not in state.maps.by_name, 10)
    assert state.sequence - before < FEW_RECORDS
    assert len(state.maps.by_name["long"].entries) == MANY
    assert engine.system_get("a") == b"v"
