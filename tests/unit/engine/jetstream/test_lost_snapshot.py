"""A log whose last snapshot was lost, while one before is there still."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.jetstream import compaction, mismatch
from grid_member.engine.jetstream.replay import replay_log
from grid_member.engine.jetstream.snapshots import OvertakenError
from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.state import snapshot
from tests.unit.engine.cleaned import compact_always
from tests.unit.engine.jetstream.worlds import COUNT, StateConsumer
from tests.unit.waiting import until

if TYPE_CHECKING:
    from grid_member.engine.jetstream.log import JetStreamLog
    from tests.unit.engine.jetstream.worlds import World

LAST = COUNT + 5
FIRST = COUNT + 3
"""Where the log begins, which went on behind a snapshot of `COUNT`."""


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    compact_always(monkeypatch)
    monkeypatch.setattr(mismatch, "LOOK_S", 0.01)


async def followed(world: World) -> tuple[JetStreamLog, StateConsumer]:
    """Make a member that knows the state of a log which has lost its last snapshot."""
    await world.in_snapshot()
    log, consumer = world.member(), StateConsumer()
    await asyncio.to_thread(consumer.load, log)
    log.start(consumer)
    await world.write(COUNT + 1, LAST)
    await until(lambda: consumer.state.sequence == LAST)
    await ask_successfully(world.client, "STREAM.PURGE.log", {"seq": FIRST})
    return log, consumer


async def test_who_knows_the_state_writes_the_image_that_only_an_older_one_is_left_of(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, consumer = await followed(world)
    monkeypatch.setattr(compaction, "SLACK_BYTES", 1 << 30)  # the log is small
    await until(lambda: log.wants_snapshot(0))
    assert "the last snapshot of log was lost by all servers" in caplog.text
    log.store_snapshot(consumer.state.snapshot())
    await until(lambda: log._compactor.snapshots == 1)
    again = StateConsumer()
    await asyncio.to_thread(again.load, world.member())
    found, known = again.state.snapshot(), consumer.state.snapshot()
    assert list(snapshot.parts(found, ordered=True)) == list(snapshot.parts(known, ordered=True))


async def test_who_starts_waits_for_the_image_while_somebody_knows_the_state(world: World) -> None:
    log, _ = await followed(world)

    def read() -> list[object]:
        return list(replay_log(world.source, world.log.name))

    named = f"the log has {FIRST} to {LAST}, its image was taken at {COUNT}"
    with pytest.raises(OvertakenError, match=named):
        await asyncio.to_thread(read)
    await log.close()

    await world.nobody_is_fed()
    with pytest.raises(EngineError, match=f"damaged on the disks of all members: {named}"):
        await asyncio.to_thread(read)
