"""What a log of a cluster does with its records while the stream takes some of them only."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, NamedTuple, cast

import pytest

from grid_member.engine.api import ClusterState, EngineError
from grid_member.engine.jetstream import log as log_module
from grid_member.engine.jetstream import replay
from grid_member.engine.jetstream.consumer import StreamMessage
from grid_member.engine.jetstream.log import JetStreamLog
from grid_member.engine.jetstream.mismatch import LogComparison
from grid_member.engine.jetstream.publisher import (
    ASK_S,
    MAX_AHEAD,
    RESEND_S,
    quorum_silence_s,
)
from grid_member.engine.jetstream.replay import ReplaySource, SnapshotChunk
from grid_member.engine.jetstream.snapshots import SnapshotEnd, end_fields, end_of
from grid_member.engine.nats.client.errors import ShortError, WireError
from grid_member.engine.state.machine import COUNTER_WINDOW, State
from grid_member.engine.state.operations import MapPut, Record
from grid_member.engine.state.snapshot import SystemPart
from tests.unit.engine.drive import condition
from tests.unit.engine.strategies import newer_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from grid_member.engine.api import Refused
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.nats.client.wire import Message
    from grid_member.engine.state.operations import Committed

OWN = b"o" * 16
SUBJECT = b"grid.log.shard-0"


class Answer(NamedTuple):
    payload: bytes


class Untaken(NamedTuple):
    subject: bytes


class DeafClient:
    """A connection on which only a stream's leader answers; what is published is noted."""

    def __init__(self) -> None:
        self.published: list[bytes] = []
        self.silences_s = [0.01, 60.0]
        """When the leader heard of the others, as it says."""
        self.asked = 0
        self.largest_bytes = 1 << 20

    def unused_inbox(self) -> bytes:
        return b"_INBOX.x"

    def subscribe(self, subject: bytes, take: object) -> DeafClient:
        return self

    def unsubscribe(self) -> None:
        """Nothing was subscribed."""

    def publish(self, subject: bytes, payload: bytes, reply: bytes = b"") -> bool:
        if len(payload) > self.largest_bytes:
            raise WireError("too large")
        if subject == SUBJECT:
            self.published.append(payload)
        return True

    async def request(self, subject: bytes, payload: bytes, *, timeout_s: float) -> Answer:
        if subject != b"$JS.API.STREAM.INFO.shard-0":
            await asyncio.Event().wait()
        self.asked += 1
        replicas = [{"active": int(silence_s * 1e9)} for silence_s in self.silences_s]
        return Answer(json.dumps({"cluster": {"leader": "m1", "replicas": replicas}}).encode())


class StateConsumer:
    """A state that is fed, and what it is told beside."""

    def __init__(self) -> None:
        self.state = State()
        self.without_effect: list[int] = []
        self.unknown_records: list[Record] = []
        self.refusals: list[Refused] = []
        self.rejected_records: list[Record] = []

    def take_committed(self, batch: Sequence[Committed]) -> None:
        for one in batch:
            if self.state.apply(*one) is None:
                self.without_effect.append(one.record.counter)

    def take_unknown(self, records: Sequence[Record], refused: Refused) -> None:
        self.unknown_records += records
        self.refusals.append(refused)

    def take_rejected(self, records: Sequence[Record], refused: Refused) -> None:
        self.rejected_records += records

    def send_waiting(self) -> None:
        """Nothing waits."""

    def reload(self) -> None:
        """Nothing is purged."""


class Stream:
    """A log and the stream behind it, which takes what the test says."""

    def __init__(
        self,
        *,
        time_of: Callable[[int], int] = int,
        timed: Callable[[float], None] | None = None,
    ) -> None:
        """Make a log with those arguments of its own."""
        self.client = DeafClient()
        self.consumer = StateConsumer()
        self.log = JetStreamLog(
            cast("NatsClient", self.client),
            "shard-0",
            0,
            OWN,
            source=ReplaySource(lambda: None, "", ""),
            own_server=lambda: None,
            stream_consumer=lambda: None,
            time_of=time_of,
            report_time=timed,
        )
        self.log.start(self.consumer)
        self._sequence = 0

    def append(self, counter: int) -> None:
        operation = MapPut("m", f"k{counter}", b"v", None, 0)
        self.log.append(Record(OWN, 1, counter, (operation,)))

    def take(self, *payloads: bytes) -> None:
        fed = []
        for payload in payloads:
            self._sequence += 1
            fed.append(StreamMessage(self._sequence, 1000, payload))
        self.log._take_messages(fed)

    def taken(self) -> list[bytes]:
        """Return what was published since."""
        published, self.client.published = self.client.published, []
        return published

    async def close(self) -> None:
        """Take nothing any more."""
        self.log.withdraw()
        await self.log.close()


@pytest.fixture
async def stream() -> AsyncIterator[Stream]:
    made = Stream()
    yield made
    await made.close()


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
    assert stream.consumer.without_effect == []
    assert len(stream.consumer.state.maps.by_name["m"].entries) == count


async def test_a_burst_goes_out_as_soon_as_what_is_before_it_came_back(stream: Stream) -> None:
    for counter in range(1, MAX_AHEAD + 3):
        stream.append(counter)
    published = stream.taken()
    assert len(published) == MAX_AHEAD
    stream.take(published[0])
    assert len(stream.taken()) == 1


async def test_nothing_goes_into_a_log_that_is_not_the_one_that_was_read(stream: Stream) -> None:
    stream.append(1)
    for _ in range(2):
        stream.log.distrust(ShortError("shard-1", 2))
    assert [one.counter for one in stream.consumer.unknown_records] == [1]
    assert stream.log.refusal is not None
    assert "the log lacks what this member has read of it" in stream.log.refusal.message
    assert len(stream.taken()) == 1
    stream.append(2)  # that is how it is found out whether it goes on
    await condition(lambda: len(stream.consumer.unknown_records) == 2)
    assert stream.taken() == []
    stream.log.resume()
    stream.append(3)
    stream.take(*stream.taken())
    assert stream.log.refusal is None


async def test_what_a_leader_lost_is_sent_again_and_ever_more_rarely(stream: Stream) -> None:
    stream.append(1)
    loop = asyncio.get_running_loop()
    times_s = [loop.time()]
    while len(times_s) < 3:
        count = len(stream.client.published)
        await condition(lambda count=count: len(stream.client.published) > count)  # type: ignore[misc]
        times_s.append(loop.time())
    first_s, second_s = times_s[1] - times_s[0], times_s[2] - times_s[1]
    assert first_s >= RESEND_S
    assert second_s >= 2 * RESEND_S - ASK_S


async def test_a_leader_that_is_cut_off_gets_nothing_that_it_cannot_commit(
    stream: Stream,
) -> None:
    stream.client.silences_s = [60.0, 60.0]
    stream.append(1)
    await condition(lambda: stream.client.asked >= 2)
    stream.append(2)
    assert len(stream.taken()) == 1
    stream.client.silences_s = [60.0, 0.01]
    await condition(lambda: len(stream.client.published) == 2)


async def test_what_waits_goes_out_when_the_stream_goes_on(stream: Stream) -> None:
    stream.client.silences_s = [60.0, 60.0]
    stream.append(1)
    first = stream.taken()
    await condition(lambda: stream.client.asked >= 1)
    stream.append(2)
    assert stream.taken() == []
    stream.take(*first)
    assert len(stream.taken()) == 1


async def test_what_nobody_took_is_sent_again_without_asking(stream: Stream) -> None:
    stream.append(1)
    sent = stream.taken()
    stream.log._publisher._note_refusal([cast("Message", Untaken(b"_INBOX.x.1"))])
    await condition(lambda: stream.client.published == sent, RESEND_S / 2)
    assert stream.client.asked == 0


async def test_what_can_never_be_sent_is_refused_at_once_and_holds_nothing_up(
    stream: Stream,
) -> None:
    stream.client.largest_bytes = 200
    large = Record(OWN, 1, 1, (MapPut("m", "k", b"v" * 300, None, 0),))
    stream.log.append(large)
    stream.append(2)
    await asyncio.sleep(0)
    assert stream.consumer.rejected_records == [large]
    assert len(stream.client.published) == 1
    await condition(lambda: len(stream.client.published) == 2)


@pytest.mark.parametrize(
    ("replicas", "silence_s"),
    [
        ([], 0.0),
        ([5.0], 5.0),
        ([0.5, 9.0], 0.5),
        ([9.0, 0.5, 7.0], 7.0),
        ([9.0, 0.5, 7.0, 8.0], 7.0),
        ([0.0, 6.0], 6.0),
        ([0.0, 0.0], float("inf")),
    ],
)
def test_a_leader_hears_of_as_many_as_make_a_quorum_with_it(
    replicas: list[float], silence_s: float
) -> None:
    told = {"leader": "m1", "replicas": [{"active": int(one * 1e9)} for one in replicas]}
    assert quorum_silence_s(told) == silence_s


def test_who_has_no_vote_yet_is_not_waited_for() -> None:
    new = {"active": 0, "pending": True}
    assert quorum_silence_s({"leader": "m1", "replicas": [new, new]}) == 0.0
    assert quorum_silence_s({"leader": "m1", "replicas": [new, {"active": 3 * 10**9}, new]}) == 3.0


def test_without_a_leader_nobody_is_silent() -> None:
    assert quorum_silence_s({"leader": "", "replicas": [{"active": 60 * 10**9}]}) == 0.0


async def test_who_lost_patience_waits_only_for_so_long(stream: Stream) -> None:
    stream.append(1)
    stream.log.lose_patience(0.2)
    stream.append(2)
    await condition(lambda: len(stream.consumer.unknown_records) == 2, 5)
    assert stream.log.refusal is not None
    stream.append(3)
    await condition(lambda: len(stream.consumer.unknown_records) == 3, 5)


async def test_a_damaged_log_publishes_nothing(stream: Stream) -> None:
    stream.log.fail(EngineError("damaged"))
    stream.append(1)
    await condition(lambda: len(stream.consumer.unknown_records) == 1, 5)
    assert stream.taken() == []


async def test_a_damaged_log_says_that_it_refuses_also_when_nothing_was_sent(
    stream: Stream,
) -> None:
    stream.log.fail(EngineError("damaged"))
    await condition(lambda: bool(stream.consumer.refusals), 5)
    assert stream.consumer.refusals == [stream.log.refusal]


async def test_a_member_that_is_too_old_for_a_record_says_so_and_speaks_of_no_damage(
    stream: Stream,
) -> None:
    stream.take(newer_record())
    assert stream.log.damaged
    assert stream.log.refusal is not None
    assert stream.log.refusal.message.startswith("record 1 of log shard-0: operation 0xee is not")
    assert "start the version that wrote it" in stream.log.refusal.message
    assert "damage" not in stream.log.refusal.message


def test_images_of_a_later_version_are_not_waited_for() -> None:
    written = end_fields(SnapshotEnd(40, 7, 2, 99)).replace(b'"format": 1', b'"format": 2')
    answer = {"message": {"data": base64.b64encode(written).decode(), "seq": 10}}
    with pytest.raises(EngineError, match="shard-0-image has format 2, this version reads 1"):
        end_of("shard-0", answer)


class Nobody:
    """A connection of a thread over which nothing is asked."""

    def __init__(self, *_: object) -> None:
        """Connect to nothing."""

    def __enter__(self) -> Nobody:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""


async def test_behind_an_empty_image_the_log_goes_on_where_that_ends(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = {"state": {"first_seq": 41, "last_seq": 40}, "created": "then"}
    found = LogComparison(info, info, SnapshotEnd(40, 7, 0, 0))
    monkeypatch.setattr(replay, "BlockingClient", Nobody)
    monkeypatch.setattr(replay, "look", lambda *_: found)
    monkeypatch.setattr(replay, "_last", lambda *_: 40)
    steps = list(replay.replay_log(ReplaySource(lambda: ("127.0.0.1", 1), "", ""), "shard-0"))
    assert steps == [SnapshotChunk(40, b"")]
    monkeypatch.setattr(log_module, "replay_log", lambda *_: (step for step in steps))
    assert list(stream.log.replay()) == [[SystemPart(40, 0, ClusterState.ACTIVE)]]
    stream.log.resume()
    assert stream.log._messages._last == 40, "from the begin on it would miss what is purged"
