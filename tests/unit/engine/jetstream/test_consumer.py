"""What a member is fed of a log whose begin is purged while it is not looking."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.state import snapshot
from tests.unit.engine.cleaned import compact_always
from tests.unit.engine.jetstream.worlds import COUNT, StateConsumer
from tests.unit.waiting import until

if TYPE_CHECKING:
    from grid_member.engine.nats.client.wire import Message
    from tests.unit.engine.jetstream.worlds import World


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    compact_always(monkeypatch)


@pytest.mark.parametrize("after", [0, COUNT - 1], ids=["all", "the-last"])
async def test_who_missed_records_of_a_log_that_is_empty_now_reads_its_image(
    world: World, after: int
) -> None:
    written, _ = await world.in_snapshot()
    assert (await world.state())["messages"] == 0
    late, consumer = world.member(), StateConsumer()
    late._last, late._last_ms = after, 1 if after else None
    late.start(consumer)
    # No record comes that would tell.
    await until(lambda: consumer.losses)
    await asyncio.to_thread(consumer.load, late)
    found = consumer.state.snapshot()
    assert list(snapshot.parts(found, ordered=True)) == list(snapshot.parts(written, ordered=True))
    late.resume()
    await world.write(COUNT + 1, COUNT + 1)
    await until(lambda: consumer.state.sequence == COUNT + 1)
    assert consumer.losses == 1


async def test_who_has_all_of_a_log_that_is_empty_now_reads_nothing_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, consumer = world.member(), StateConsumer()
    log.start(consumer)
    await until(lambda: consumer.state.sequence == COUNT)
    await world.in_snapshot()
    assert (await world.state())["messages"] == 0
    heartbeats: list[bytes] = []
    control = log._messages._control

    def heard(message: Message, consumed: int, last: int) -> None:
        heartbeats.append(message.headers)
        control(message, consumed, last)

    monkeypatch.setattr(log._messages, "_control", heard)
    await until(lambda: heartbeats)
    assert b"Nats-Last-Stream: %d" % COUNT in heartbeats[0]
    assert consumer.losses == 0
    await world.write(COUNT + 1, COUNT + 1)
    await until(lambda: consumer.state.sequence == COUNT + 1)
    assert consumer.losses == 0
