"""What real members do when one of them changes something, or is left alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.engine.api import ClusterState, Item, Reason, Refused
from grid_member.engine.local import engine as engine_module
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    import pytest

PATIENCE_S = 30
LONG_S = 600
AGAIN_S = 1
QUEUE = "q"


async def test_a_poll_of_one_member_ends_when_another_one_makes_the_cluster_passive() -> None:
    async with Cluster(3) as cluster:
        first, _, third = cluster.drivers
        waiting = asyncio.ensure_future(third.poll(QUEUE, LONG_S))
        await condition(lambda: bool(third.engine._polls))
        assert await first.change_state(ClusterState.PASSIVE) is True
        ended = await asyncio.wait_for(waiting, PATIENCE_S)
        assert isinstance(ended, Refused)
        assert ended.reason is Reason.PASSIVE

        assert await first.change_state(ClusterState.ACTIVE) is True
        assert await first.offer(QUEUE, b"item") is True
        await condition(lambda: third.engine.cluster_state is ClusterState.ACTIVE, PATIENCE_S)
        assert isinstance(await third.poll(QUEUE, LONG_S), Item)


async def test_one_member_ends_the_life_in_which_another_one_took_an_item() -> None:
    async with Cluster(3) as cluster:
        first, second, third = cluster.drivers
        assert await first.offer(QUEUE, b"item") is True
        assert isinstance(await third.poll(QUEUE, LONG_S), Item)
        own = cluster.engines[0]
        await condition(lambda: bool(own.takers()), PATIENCE_S)
        (taker,) = own.takers()
        assert taker.member == third.engine.member_uuid

        own.end_incarnation(taker._replace(incarnation=taker.incarnation - 1))
        assert await second.put("m", "k", b"v") is None
        assert own.takers() == {taker}

        waiting = asyncio.ensure_future(second.take(QUEUE, LONG_S))
        async with asyncio.timeout(PATIENCE_S):
            while not waiting.done():  # as its caller does, for the log may refuse it
                own.end_incarnation(taker)
                await asyncio.wait({waiting}, timeout=AGAIN_S)
        assert await waiting == b"item"


async def test_a_member_that_was_left_alone_stops_and_says_what_may_not_be_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine_module, "UNKNOWN_GRACE_S", 0.5)
    async with Cluster(3) as cluster:
        first = cluster.drivers[0]
        assert await first.put("m", "k", b"v") is None  # so it has noted where that is
        cluster.isolate(0)
        unconfirmed = asyncio.ensure_future(first.put("m", "k", b"w"))
        await asyncio.sleep(0)
        await asyncio.wait_for(cluster.engines[0].stop(), PATIENCE_S)
        assert isinstance(await unconfirmed, Refused)
        assert "1 operations of shard" in caplog.text
