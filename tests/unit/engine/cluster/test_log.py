"""What a log of a cluster does with its records while the stream takes some of them only."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.nats import log as log_module
from grid_member.engine.nats.feed import Fed
from grid_member.engine.nats.log import MAX_AHEAD, STALL_S, JetStreamLog
from grid_member.engine.nats.replay import Source
from grid_member.engine.operations import MapPut, Record
from grid_member.engine.state import COUNTER_WINDOW, State
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from grid_member.engine.api import Refused
    from grid_member.engine.nats.client import NatsClient
    from grid_member.engine.operations import Committed

OWN = b"o" * 16
SUBJECT = b"grid.log.shard-0"


class DeafClient:
    """A connection on which nobody answers; what is published is noted."""

    def __init__(self) -> None:
        self.published: list[bytes] = []

    def unused_inbox(self) -> bytes:
        return b"_INBOX.x"

    def subscribe(self, subject: bytes, take: object) -> DeafClient:
        return self

    def unsubscribe(self) -> None:
        """Nothing was subscribed."""

    def publish(self, subject: bytes, payload: bytes, reply: bytes = b"") -> bool:
        if subject == SUBJECT:
            self.published.append(payload)
        return True

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> None:
        await asyncio.Event().wait()


class StateFeed:
    """A state that is fed, and what it is told beside."""

    def __init__(self) -> None:
        self.state = State()
        self.without_effect: list[int] = []
        self.unknown_records: list[Record] = []

    def committed(self, batch: Sequence[Committed]) -> None:
        for one in batch:
            if self.state.apply(*one) is None:
                self.without_effect.append(one.record.counter)

    def unknown(self, records: Sequence[Record], refused: Refused) -> None:
        self.unknown_records += records

    def room(self) -> None:
        """Nothing waits."""

    def lost(self) -> None:
        """Nothing is purged."""


class Stream:
    """A log and the stream behind it, which takes what the test says."""

    def __init__(self) -> None:
        self.client = DeafClient()
        self.feed = StateFeed()
        self.log = JetStreamLog(
            cast("NatsClient", self.client),
            "shard-0",
            0,
            OWN,
            source=Source(lambda: None, "", ""),
            own_server=lambda: None,
        )
        self.log.start(self.feed)  # type: ignore[arg-type]  # as much of one as is needed
        self._sequence = 0

    def append(self, counter: int) -> None:
        operation = MapPut("m", f"k{counter}", b"v", None, 0)
        self.log.append(Record(OWN, 1, counter, (operation,)))

    def take(self, *payloads: bytes) -> None:
        fed = []
        for payload in payloads:
            self._sequence += 1
            fed.append(Fed(self._sequence, 1000, payload))
        self.log._fed(fed)

    def taken(self) -> list[bytes]:
        """Return what was published since."""
        published, self.client.published = self.client.published, []
        return published


@pytest.fixture
async def stream() -> AsyncIterator[Stream]:
    made = Stream()
    yield made
    made.log.withdraw()
    await made.log.close()


async def test_a_lost_record_of_a_large_burst_is_not_taken_for_a_copy(stream: Stream) -> None:
    count = 3 * COUNTER_WINDOW
    for counter in range(1, count + 1):
        stream.append(counter)
    first, *others = stream.taken()
    while others:
        stream.take(*others)
        others = stream.taken()
    await condition(lambda: first in stream.client.published)
    stream.take(first)
    while others := [payload for payload in stream.taken() if payload != first]:
        stream.take(*others)
    assert stream.feed.without_effect == []
    assert len(stream.feed.state.maps.found["m"].entries) == count


async def test_a_burst_goes_out_as_soon_as_what_is_before_it_came_back(stream: Stream) -> None:
    for counter in range(1, MAX_AHEAD + 3):
        stream.append(counter)
    published = stream.taken()
    assert len(published) == MAX_AHEAD
    stream.take(published[0])
    assert len(stream.taken()) == 1


async def test_a_process_that_stood_still_does_not_take_what_comes_for_its_own(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.append(1)
    record = stream.taken()[0]
    loop = asyncio.get_running_loop()
    now_s = loop.time()
    # The messages of the time between are read before any timer runs.
    monkeypatch.setattr(loop, "time", lambda: now_s + STALL_S + 1)
    stream.take(record)
    assert [one.counter for one in stream.feed.unknown_records] == [1]
    assert stream.log.refusal is None
    monkeypatch.undo()


async def test_a_slow_quorum_is_no_stall(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "STALL_S", 0.3)
    stream.append(1)
    record = stream.taken()[0]
    await asyncio.sleep(0.5)  # time itself is what is meant here
    stream.take(record)
    assert stream.feed.unknown_records == []
