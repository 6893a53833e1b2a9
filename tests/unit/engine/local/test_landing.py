"""Polled items that are landed together: all of them, whatever the log refuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

import pytest

from grid_member.engine.api import Item, Reason, Refused
from grid_member.engine.local import deliveries
from grid_member.engine.local.deliveries import Landings
from grid_member.engine.state.operations import QueueConfirm, QueueReturn
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.shard.shard import Answer, Lane
    from grid_member.engine.state.operations import Operation

ITEMS: Final = [Item(b"v", None, "q", number, 10 + number) for number in (1, 2, 3)]
CONFIRMS: Final = [QueueConfirm("q", item.item_id, item.take_id) for item in ITEMS]
REFUSED: Final = Refused(Reason.OVERLOADED, "not now")


class Waiting:
    """A lane that keeps what it is given, to be answered by the test."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[Operation], Answer]] = []

    def propose_always(self, operations: Sequence[Operation], answer: Answer) -> None:
        self.sent.append((list(operations), answer))

    def answer(self, *outcomes: Refused | None) -> None:
        _, answer = self.sent[-1]
        for outcome in outcomes:
            answer(outcome)


@pytest.fixture
def lane() -> Waiting:
    return Waiting()


@pytest.fixture
def landings(lane: Waiting, monkeypatch: pytest.MonkeyPatch) -> Landings:
    monkeypatch.setattr(deliveries, "LANDING_RETRY_S", 0)
    made = Landings(lambda _: cast("Lane", lane))
    for item in ITEMS:
        made.taken(item)
    return made


async def test_the_confirms_of_a_tick_go_out_together(lane: Waiting, landings: Landings) -> None:
    for confirm in CONFIRMS:
        landings.confirm(confirm)
    assert lane.sent == []
    await condition(lambda: bool(lane.sent))
    assert [operations for operations, _ in lane.sent] == [CONFIRMS]
    lane.answer(None, None, None)
    await landings.drain()


@pytest.mark.parametrize("refused", [0, 1, 2])
async def test_when_one_was_refused_all_are_sent_again(
    lane: Waiting, landings: Landings, refused: int
) -> None:
    for confirm in CONFIRMS:
        landings.confirm(confirm)
    landings.send()
    lane.answer(*(REFUSED if number == refused else None for number in range(3)))
    drained = asyncio.create_task(landings.drain())
    await condition(lambda: len(lane.sent) == 2)
    assert lane.sent[1][0] == CONFIRMS
    assert not drained.done()
    lane.answer(None, None, None)
    await drained


async def test_a_stop_sends_what_waits(lane: Waiting, landings: Landings) -> None:
    landings.give_back(QueueReturn("q", 1, 11))
    lane.answer(None)
    for confirm in CONFIRMS[1:]:
        landings.confirm(confirm)
    drained = asyncio.create_task(landings.drain())
    await condition(lambda: len(lane.sent) == 2)
    assert not drained.done()
    lane.answer(None, None)
    await drained


async def test_behind_a_stop_nothing_is_sent(lane: Waiting, landings: Landings) -> None:
    for item in ITEMS:
        landings.give_back(QueueReturn("q", item.item_id, item.take_id))
        lane.answer(None)
    await landings.drain()
    landings.confirm(CONFIRMS[0])
    landings.send()
    assert len(lane.sent) == len(ITEMS)
