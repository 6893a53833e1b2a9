"""Snapshots that several members find to be due at the same time: one is written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.jetstream import compaction, snapshots
from grid_member.engine.nats.admin.streams import ask_successfully
from tests.unit.engine.cleaned import compact_always
from tests.unit.engine.jetstream.worlds import COUNT, StateConsumer
from tests.unit.waiting import until

if TYPE_CHECKING:
    from grid_member.engine.nats.client.client import NatsClient
    from tests.unit.engine.jetstream.worlds import World

BUSY_S = 60.0
"""Longer than the test waits."""


@pytest.mark.parametrize("missing", [False, True], ids=["another-log", "no-image"])
async def test_a_wrong_image_that_somebody_writes_anew_is_left_to_that_one(
    world: World, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    compact_always(monkeypatch, chunk_bytes=1)
    await world.in_snapshot()
    if missing:
        await ask_successfully(world.client, f"STREAM.DELETE.{world.log.snapshots.name}")
        await world.create(world.log.snapshots)
    else:
        await world.replace(COUNT)
    monkeypatch.setattr(compaction, "BUSY_S", BUSY_S)
    monkeypatch.setattr(snapshots, "SLICE_PARTS", 1)
    put, under_way, go_on = snapshots.SnapshotWriter._put, asyncio.Event(), asyncio.Event()

    async def slowly(writer: snapshots.SnapshotWriter, payload: bytes, **more: object) -> None:
        await put(writer, payload, **more)  # type: ignore[arg-type]
        under_way.set()
        await go_on.wait()

    monkeypatch.setattr(snapshots.SnapshotWriter, "_put", slowly)
    one, other = world.member(), world.member()
    consumer = StateConsumer()
    if missing:
        consumer.state.sequence = COUNT
    else:
        one.start(consumer)
        await until(lambda: consumer.state.sequence == COUNT)
    await until(lambda: one.wants_snapshot(0))
    one.store_snapshot(consumer.state.snapshot())
    await under_way.wait()

    looks = 0
    look = other._compactor._look

    async def counted() -> None:
        nonlocal looks
        await look()
        looks += 1

    monkeypatch.setattr(other._compactor, "_look", counted)
    assert not other.wants_snapshot(0)
    await until(lambda: looks)
    assert not other.wants_snapshot(0), "it would overtake the one that writes"
    go_on.set()
    await until(lambda: one._compactor.snapshots == 1)
    end = await world.end()
    assert end is not None
    assert end.log == COUNT


async def test_an_image_that_was_given_up_is_not_waited_for_until_a_clock_comes_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact_always(monkeypatch)
    monkeypatch.setattr(compaction, "BUSY_S", 0.05)
    held = await snapshots.look_at(world.client, world.log.name)
    await snapshots.SnapshotWriter(world.client, world.log.name, held)._put(b"")

    async def early(client: NatsClient, stream: str) -> snapshots.StoredSnapshots:
        """Look at what was stored by a server whose clock is an hour ahead."""
        held = await snapshots.look_at(client, stream)
        return held._replace(quiet_s=held.quiet_s - 3600)

    monkeypatch.setattr(compaction, "look_at", early)
    log, consumer = world.member(), StateConsumer()
    log.start(consumer)
    await until(lambda: consumer.state.sequence == COUNT)
    await until(lambda: log.wants_snapshot(0))
    log.store_snapshot(consumer.state.snapshot())
    await until(lambda: log._compactor.snapshots == 1)
    end = await world.end()
    assert end is not None
    assert end.log == COUNT
