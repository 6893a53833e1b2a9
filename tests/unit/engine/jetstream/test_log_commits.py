"""How long the records of a member take until they come back is told, once a batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.jetstream.test_log import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Timed(Stream):
    """A stream whose log tells how long commits take."""

    def __init__(self) -> None:
        self.told: list[float] = []
        super().__init__(timed=self.told.append)


@pytest.fixture
async def timed() -> AsyncIterator[Timed]:
    made = Timed()
    yield made
    await made.close()


async def test_what_comes_back_together_is_one_commit(timed: Timed) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for counters in ((1,), (2, 3)):
        for counter in counters:
            timed.append(counter)
        timed.take(*timed.taken())
    assert len(timed.told) == 2
    assert all(0 < took_s <= loop.time() - began_s for took_s in timed.told)


async def test_what_is_sent_again_took_as_long_as_since_it_was_sent_first(timed: Timed) -> None:
    timed.append(1)
    (first,) = timed.taken()
    timed.log._publisher._in_flight[1].first_s -= 60  # a minute ago
    timed.log.reconnect()  # the connection was lost, and the record with it
    assert timed.taken() == [first]
    timed.take(first)
    (took_s,) = timed.told
    assert 60 < took_s < 120


async def test_records_of_others_and_given_up_ones_are_no_commits(timed: Timed) -> None:
    timed.append(1)
    (late,) = timed.taken()
    timed.log.withdraw()
    timed.take(late)
    assert timed.told == []
