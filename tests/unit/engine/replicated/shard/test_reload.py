"""What a shard does when it cannot tell what of a batch it applied: it reads its log anew."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.api import EngineError, Entry, Reason, Refused
from grid_member.engine.jetstream import consumer as consumer_module
from grid_member.engine.jetstream.consumer import StreamConsumer
from grid_member.engine.nats.client.errors import NatsError, ShortError
from grid_member.engine.nats.client.wire import Message
from grid_member.engine.replicated import reload
from grid_member.engine.replicated.reload import EndedError
from grid_member.engine.replicated.replicated_shard import ReplicatedShard
from grid_member.engine.state.operations import QueueOffer, QueueTake, Record
from tests.unit.engine.cluster.proposals import OTHER, OWN, HandLog, Proposals, put
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from grid_member.engine.jetstream.consumer import StreamMessage
    from grid_member.engine.log.log import Steps
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.machine import State

GIVEN_UP = Refused(Reason.UNAVAILABLE, "no quorum")


class OneConsumer:
    """A connection whose server makes any consumer, and feeds what the test says."""

    def __init__(self) -> None:
        self.take: Callable[[Sequence[Message]], None] = lambda messages: None
        self.after: list[int] = []
        """Where the consumers that were made begin."""
        self.last = 99
        """Where the stream ends."""

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> OneConsumer:
        self.take = take
        return self

    def unsubscribe(self) -> None:
        """Nothing comes any more."""

    def publish(self, subject: bytes, payload: bytes, reply: bytes = b"") -> bool:
        return True

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Message:
        if b".CONSUMER.CREATE." in subject:
            self.after.append(json.loads(payload)["config"]["opt_start_seq"] - 1)
        return Message(b"", b"", b"", json.dumps({"state": {"last_seq": self.last}}).encode(), 1)

    def feed(self, *sequences: int) -> None:
        first = self.after[-1]
        replies = [b"$JS.ACK.s.c.1.%d.%d.1000000.0" % (one, one - first) for one in sequences]
        self.take([Message(b"", reply, b"", b"", 1) for reply in replies])

    def beat(self, consumed: int, last: int) -> None:
        """Tell how many messages were sent, and up to which place of the stream."""
        told = b"Nats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n" % (consumed, last)
        self.take([Message(b"", b"", b"NATS/1.0 100 Idle Heartbeat\r\n" + told, b"", 1)])


async def test_a_feed_does_not_go_on_behind_what_could_not_be_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = OneConsumer()
    taken: list[int] = []
    lost: list[int] = []

    def take(messages: Sequence[StreamMessage]) -> None:
        for one in messages:
            if one.sequence == 2 and not lost:
                raise ValueError("planted")
            taken.append(one.sequence)

    feed = StreamConsumer(
        cast("NatsClient", client), "s", "m", lambda: None, take, lambda: lost.append(1)
    )
    feed.start(0)
    try:
        await condition(lambda: client.after == [0])
        client.feed(1, 2, 3)
        client.feed(4)
        assert (taken, lost) == ([1], [1])
        assert "ValueError in take" in caplog.text
        feed.resume(3)
        await condition(lambda: client.after == [0, 3])
        client.feed(4)
        assert taken == [1, 4]
    finally:
        await feed.close()


@contextlib.asynccontextmanager
async def following(
    client: OneConsumer, after: int, after_ms: int | None
) -> AsyncIterator[list[int]]:
    """Follow a stream behind what was read of it; give how often it is to be read anew."""
    lost: list[int] = []
    feed = StreamConsumer(
        cast("NatsClient", client), "s", "m", lambda: None, lambda _: None, lambda: lost.append(1)
    )
    feed.start(after, after_ms)
    try:
        yield lost
    finally:
        await feed.close()


@pytest.mark.parametrize("after_ms", [None, 1], ids=["image", "record"])
async def test_a_stream_that_ends_before_what_was_read_of_it_is_read_anew(
    after_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "RETRY_S", 0.001)
    client = OneConsumer()
    client.last = 2  # the one that is left lacks what the lost ones told of
    async with following(client, 5, after_ms) as lost:
        await condition(lambda: bool(lost))
        assert lost == [1]


@pytest.mark.parametrize(("after_ms", "others"), [(1, []), (7, [1])])
async def test_a_stream_that_has_another_record_in_that_place_is_read_anew(
    after_ms: int, others: list[int]
) -> None:
    client = OneConsumer()
    async with following(client, 5, after_ms) as lost:
        await condition(lambda: client.after == [4])
        client.feed(5)
        assert lost == others


@pytest.mark.parametrize(
    ("consumed", "last", "lost", "made"),
    [(1, 6, [], 1), (1, 7, [1], 1), (2, 7, [], 2)],
    ids=["all", "purged", "on-its-way"],
)
async def test_a_heartbeat_tells_what_was_purged_and_what_was_dropped(
    consumed: int, last: int, lost: list[int], made: int
) -> None:
    client = OneConsumer()
    async with following(client, 5, None) as found:
        await condition(lambda: client.after == [5])
        client.feed(6)
        client.beat(consumed, last)
        assert found == lost
        await condition(lambda: len(client.after) == made)
        assert client.after[1:] == [5] * (made - 1)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "RELOAD_S", 0.001)
    monkeypatch.setattr(reload, "RELOAD_FAILED_S", 0.001)
    monkeypatch.setattr(reload, "RELOAD_SHORT_S", 0.001)


async def test_a_shard_is_read_anew_whatever_goes_wrong_with_that(
    hasty: None, caplog: pytest.LogCaptureFixture
) -> None:
    proposals = Proposals()
    await proposals.propose("known", put("a"))
    # It is in the log, and the batch with it was not applied.
    proposals.log.committed(*proposals.log.on_their_way, Record(OTHER, 1, 1, (put("b"),)))
    proposals.log.unreadable = [NatsError("away"), KeyError("config"), ValueError("no JSON")]
    proposals.shard.reload()
    await condition(lambda: proposals.log.resumed == 1)
    assert proposals.answers["known"] is None
    for key in "ab":
        assert proposals.shard.state.entry("m", key, 0) == Entry(b"v", None)
    assert "KeyError" in caplog.text
    proposals.shard.reload()
    await condition(lambda: proposals.log.resumed == 2)


async def test_a_shard_does_not_go_on_with_a_log_that_lacks_what_was_read_of_it(
    hasty: None,
) -> None:
    proposals = Proposals()
    await proposals.propose("known", put("a"))
    proposals.come_back()
    kept = list(proposals.log.kept)

    async def check(created: str, read: State, current: Callable[[], State]) -> None:
        assert created == proposals.log.created
        assert read is not current()
        # What was read on its thread may be from before the log was whole again.
        if read.entry("m", "a", 0) is None:
            raise ShortError("shard-0", 2)

    proposals.shard._check = check
    proposals.log.kept.clear()
    proposals.shard.reload()
    await condition(lambda: len(proposals.log.left_alone) > 2)
    assert proposals.log.distrusted > 1
    first, second, third = proposals.log.left_alone[:3]
    assert first < second < third
    assert proposals.log.resumed == 0
    assert proposals.shard.state.entry("m", "a", 0) == Entry(b"v", None)
    proposals.log.kept += kept
    await condition(lambda: proposals.log.resumed == 1)
    assert proposals.shard.state.entry("m", "a", 0) == Entry(b"v", None)


async def test_a_shard_whose_log_is_damaged_is_not_read_again(hasty: None) -> None:
    proposals = Proposals()
    proposals.log.unreadable = [EngineError("damaged")]
    proposals.shard.reload()
    await condition(lambda: bool(proposals.log.failures))
    proposals.shard.reload()
    other = Proposals()
    other.shard.reload()
    await condition(lambda: other.log.resumed == 1)
    assert proposals.log.resumed == 0


class OpenLog(HandLog):
    """Has something open while it is read."""

    open = False

    def replay(self) -> Steps:
        self.open = True
        try:
            yield from super().replay()
        finally:
            self.open = False


@pytest.mark.parametrize("given_up", [True, False])
async def test_a_log_that_is_read_no_further_is_closed_at_once(
    given_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = OpenLog()
    log.committed(Record(OTHER, 1, 1, (put("a"),)), Record(OTHER, 1, 2, (put("b"),)))
    shard = ReplicatedShard(log, OWN, 1, lambda shard, names: None)
    if given_up:
        shard._closing = True
    else:
        monkeypatch.setattr(shard.state, "apply", lambda *_: 1 / 0)
    with pytest.raises(EndedError if given_up else ZeroDivisionError) as kept:
        shard.replay()
    assert kept.tb is not None  # with all that its frames hold
    assert not log.open


@pytest.mark.parametrize("damaged", [True, False])
async def test_what_was_lost_from_sight_is_answered_though_the_log_cannot_be_read(
    hasty: None, damaged: bool
) -> None:
    proposals = Proposals()
    heard: list[Refused | None] = []
    proposals.shard.read_when_current(heard.append)
    await proposals.propose("lost from sight", put("a"))
    # It came back, and the batch with it was not applied: it is on its way no more.
    proposals.log.committed(*proposals.log.on_their_way)
    proposals.log.unreadable = [EngineError("damaged") if damaged else NatsError("away")] * 999
    proposals.shard.reload()
    if not damaged:
        await condition(lambda: len(proposals.log.unreadable) < 990)
        assert not proposals.answers
        proposals.shard.lose_patience(0.01)
    await condition(lambda: not proposals.shard.busy)
    refused = proposals.answers["lost from sight"]
    assert isinstance(refused, Refused)
    assert "may or may not be done" in refused.message
    assert heard == [refused]
    await asyncio.wait_for(proposals.shard.settle(), 5)
    await proposals.shard.close()


async def test_whoever_hears_of_arrivals_does_not_stop_the_shard(hasty: None) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def on_arrival(shard: Shard, names: set[str]) -> None:
        raise ValueError("planted")

    proposals = Proposals(on_arrival)
    await proposals.propose("offered", QueueOffer("q", b"v", None, 9))
    proposals.come_back()
    assert proposals.answers["offered"] is True
    proposals.shard.reload()
    await condition(lambda: proposals.log.resumed == 1)
    assert len(reported) == 2


async def test_what_nobody_was_answered_returns_after_a_reload(hasty: None) -> None:
    proposals = Proposals()
    await proposals.propose("offered", QueueOffer("q", b"v", None, 9))
    proposals.come_back()
    take = await proposals.propose("taken", QueueTake("q"))
    proposals.log.committed(take)
    proposals.shard.take_unknown([take], GIVEN_UP)
    proposals.shard.reload()
    await condition(lambda: proposals.log.resumed == 1)
    await condition(lambda: bool(proposals.log.on_their_way))
    proposals.come_back()
    assert proposals.shard.state.queue_size("q") == 1
