"""What a lane of a cluster does with records whose fate others decide."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.engine.api import Entry, Item, Refused
from grid_member.engine.cluster_lane import ClusterLane
from grid_member.engine.operations import (
    Committed,
    MapPut,
    MemberGone,
    QueueOffer,
    QueueTake,
    Record,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grid_member.engine.api import EngineError
    from grid_member.engine.image import Image
    from grid_member.engine.log import Feed

OWN, OTHER = b"o" * 16, b"x" * 16


class HandLog:
    """A shared log whose records the test brings back."""

    shard = 0

    def __init__(self) -> None:
        self.refusal: Refused | None = None
        self.crowded = False
        self.in_contact = True
        self.sent: list[Record] = []
        self.on_their_way: list[Record] = []
        self._sequence = 0

    def replay(self) -> Iterator[Committed]:
        return iter(())

    def start(self, feed: Feed) -> None:
        """Take records."""

    def append(self, record: Record) -> None:
        self.sent.append(record)
        self.on_their_way.append(record)

    def withdraw(self) -> list[Record]:
        records, self.on_their_way = self.on_their_way, []
        return records

    def committed(self, *records: Record) -> list[Committed]:
        """Return the records as a batch, as the log does: what is in it is on its way no more."""
        batch: list[Committed] = []
        for record in records:
            self._sequence += 1
            if record in self.on_their_way:
                self.on_their_way.remove(record)
            batch.append(Committed(self._sequence, 1000 + self._sequence, record))
        return batch

    def connected(self) -> None:
        """Nothing is connected."""

    def forget(self, counters: Iterable[int]) -> None:
        """Nothing is sent again."""

    def resume(self) -> None:
        """Nothing is lost."""

    def fail(self, error: EngineError) -> None:
        raise AssertionError("nothing is damaged")

    def wants_image(self, live_bytes: int) -> bool:
        return False

    def store_image(self, image: Image) -> None:
        raise AssertionError("no image is wanted")

    def lose_patience(self, within_s: float) -> None:
        """Give up nothing."""

    async def close(self) -> None:
        """Nothing is open."""


class Proposals:
    """A lane and what became of what was proposed to it."""

    def __init__(self) -> None:
        self.log = HandLog()
        self.lane = ClusterLane(self.log, OWN, 1, lambda lane, names: None)
        self.answers: dict[str, Any] = {}
        self.lane.replay()
        self.lane.start(asyncio.get_running_loop())
        self.come_back()

    def come_back(self, *records: Record) -> None:
        self.lane.committed(self.log.committed(*(records or list(self.log.on_their_way))))

    async def propose(self, name: str, operation: object) -> Record:
        def answer(outcome: object) -> None:
            assert name not in self.answers, "answered twice"
            self.answers[name] = outcome

        self.lane.propose(operation, answer, 10)  # type: ignore[arg-type]
        before = len(self.log.sent)
        await asyncio.sleep(0)
        assert len(self.log.sent) == before + 1
        return self.log.sent[-1]

    def gone(self, counter: int) -> Record:
        """Return what another member sends that takes this one for gone."""
        end = MemberGone(OWN, self.log.sent[-1].incarnation)
        return Record(OTHER, 1, counter, (end,))


def put(key: str) -> MapPut:
    return MapPut("m", key, b"v", None, 0)


async def test_what_comes_right_behind_the_end_of_its_life_is_answered() -> None:
    proposals = Proposals()
    before = await proposals.propose("before", put("a"))
    late = await proposals.propose("late", put("b"))
    await proposals.propose("on its way", put("c"))
    proposals.come_back(before, proposals.gone(1), late)
    assert proposals.answers["before"] is None
    assert isinstance(proposals.answers["late"], Refused)
    assert isinstance(proposals.answers["on its way"], Refused)
    state = proposals.lane.state
    assert state.entry("m", "a", 0) == Entry(b"v", None)
    assert state.entry("m", "b", 0) is None
    proposals.come_back()
    assert not proposals.lane.busy


async def test_a_new_life_goes_on() -> None:
    proposals = Proposals()
    await proposals.propose("late", put("a"))
    old = list(proposals.log.on_their_way)
    proposals.come_back(proposals.gone(1))
    proposals.come_back(*old)
    proposals.come_back()
    await proposals.propose("new", put("b"))
    proposals.come_back()
    assert isinstance(proposals.answers["late"], Refused)
    assert proposals.answers["new"] is None
    assert proposals.lane.state.entry("m", "a", 0) is None
    assert proposals.lane.state.entry("m", "b", 0) == Entry(b"v", None)


async def test_a_reader_waits_on_through_the_end_of_a_life() -> None:
    proposals = Proposals()
    heard: list[Refused | None] = []
    proposals.lane.when_current(heard.append)
    await asyncio.sleep(0)
    proposals.come_back(proposals.gone(1))
    assert heard == []
    proposals.come_back()
    assert heard == [None]
    assert not proposals.lane.busy


@pytest.mark.parametrize("together", [False, True])
async def test_what_a_former_life_took_returns_and_is_taken_once(together: bool) -> None:
    proposals = Proposals()
    await proposals.propose("offered", QueueOffer("q", b"i", None, 10))
    proposals.come_back()
    take = await proposals.propose("taken", QueueTake("q"))
    if together:
        proposals.come_back(proposals.gone(1), take)
    else:
        proposals.come_back(proposals.gone(1))
        proposals.come_back(take)
    assert isinstance(proposals.answers["taken"], Refused)
    proposals.come_back()
    await proposals.propose("taken again", QueueTake("q"))
    proposals.come_back()
    assert isinstance(proposals.answers["taken again"], Item)


async def test_each_copy_of_a_record_but_the_first_changes_nothing() -> None:
    proposals = Proposals()
    offer = await proposals.propose("offered", QueueOffer("q", b"i", None, 10))
    copies: Sequence[Record] = [offer, offer, offer]
    proposals.come_back(*copies)
    assert proposals.answers["offered"] is True
    assert proposals.lane.state.queue_size("q") == 1
