"""A change of the cluster state that not every shard takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import ClusterState, Reason, Refused
from tests.unit.engine.conftest import Bench
from tests.unit.engine.drive import awaited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grid_member.engine.state.operations import Operation
    from tests.unit.engine.drive import Driver

GIVEN_UP = Refused(Reason.UNAVAILABLE, "no quorum")


@pytest.fixture
async def driver() -> AsyncIterator[Driver]:
    """An engine of three shards."""
    bench = Bench(None)
    bench.shards = 3
    yield await bench.open()
    await bench.stop()


def giving_up(operation: Operation, answer: Callable[[object], None], size_bytes: int = 0) -> None:
    answer(GIVEN_UP)


def agreed(driver: Driver) -> bool:
    return driver.engine.agreed


async def prepared(driver: Driver, state: ClusterState) -> bool | Refused:
    return await awaited(lambda done: driver.engine.prepare_cluster_state(state, done))


async def test_the_shard_that_decides_is_not_told_before_the_others_are(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = driver.engine
    with monkeypatch.context() as patched:
        patched.setattr(engine.shards[2], "propose_system", giving_up)
        assert await prepared(driver, ClusterState.PASSIVE) == GIVEN_UP
    assert engine.cluster_state is ClusterState.ACTIVE
    assert not agreed(driver)
    assert await prepared(driver, ClusterState.PASSIVE) is False
    assert await driver.change_state(ClusterState.PASSIVE) is True
    assert agreed(driver)


async def test_the_same_change_again_reaches_the_shard_that_missed_it(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = driver.engine
    with monkeypatch.context() as patched:
        patched.setattr(engine.shards[1], "propose_system", giving_up)
        assert await driver.change_state(ClusterState.PASSIVE) == GIVEN_UP
    assert not agreed(driver)
    assert await driver.change_state(ClusterState.PASSIVE) is False
    assert agreed(driver)
    assert {shard.state.cluster_state for shard in engine.shards} == {ClusterState.PASSIVE}
