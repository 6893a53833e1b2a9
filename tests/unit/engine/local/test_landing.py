"""Polled items that are landed together: all of them, whatever the log refuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

import pytest

from grid_member.engine.api import Item, Reason, Refused
from grid_member.engine.local import deliveries
from grid_member.engine.local.deliveries import Deliveries
from grid_member.engine.state.operations import QueueConfirm, QueueReturn
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.shard.shard import Answer, Shard
    from grid_member.engine.state.operations import Operation

ITEMS: Final = [Item(b"v", None, "q", number, 10 + number) for number in (1, 2, 3)]
CONFIRMS: Final = [QueueConfirm("q", item.item_id, item.take_id) for item in ITEMS]
REFUSED: Final = Refused(Reason.OVERLOADED, "not now")


class Waiting:
    """A shard that keeps what it is given, to be answered by the test."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[Operation], Answer]] = []

    def propose_always(self, operations: Sequence[Operation], answer: Answer) -> None:
        self.sent.append((list(operations), answer))

    def answer(self, *outcomes: Refused | None) -> None:
        _, answer = self.sent[-1]
        for outcome in outcomes:
            answer(outcome)


@pytest.fixture
def shard() -> Waiting:
    return Waiting()


@pytest.fixture
def open_deliveries(shard: Waiting, monkeypatch: pytest.MonkeyPatch) -> Deliveries:
    monkeypatch.setattr(deliveries, "DELIVERY_RETRY_S", 0)
    made = Deliveries(lambda _: cast("Shard", shard))
    for item in ITEMS:
        made.expect(item)
    return made


async def test_the_confirms_of_a_tick_go_out_together(
    shard: Waiting, open_deliveries: Deliveries
) -> None:
    for confirm in CONFIRMS:
        open_deliveries.confirm(confirm)
    assert shard.sent == []
    await condition(lambda: bool(shard.sent))
    assert [operations for operations, _ in shard.sent] == [CONFIRMS]
    shard.answer(None, None, None)
    await open_deliveries.drain()


@pytest.mark.parametrize("refused", [0, 1, 2])
async def test_when_one_was_refused_all_are_sent_again(
    shard: Waiting, open_deliveries: Deliveries, refused: int
) -> None:
    for confirm in CONFIRMS:
        open_deliveries.confirm(confirm)
    open_deliveries.send()
    shard.answer(*(REFUSED if number == refused else None for number in range(3)))
    drained = asyncio.create_task(open_deliveries.drain())
    await condition(lambda: len(shard.sent) == 2)
    assert shard.sent[1][0] == CONFIRMS
    assert not drained.done()
    shard.answer(None, None, None)
    await drained


async def test_a_stop_sends_what_waits(shard: Waiting, open_deliveries: Deliveries) -> None:
    open_deliveries.give_back(QueueReturn("q", 1, 11))
    shard.answer(None)
    for confirm in CONFIRMS[1:]:
        open_deliveries.confirm(confirm)
    drained = asyncio.create_task(open_deliveries.drain())
    await condition(lambda: len(shard.sent) == 2)
    assert not drained.done()
    shard.answer(None, None)
    await drained


async def test_behind_a_stop_nothing_is_sent(shard: Waiting, open_deliveries: Deliveries) -> None:
    for item in ITEMS:
        open_deliveries.give_back(QueueReturn("q", item.item_id, item.take_id))
        shard.answer(None)
    await open_deliveries.drain()
    open_deliveries.confirm(CONFIRMS[0])
    open_deliveries.send()
    assert len(shard.sent) == len(ITEMS)
