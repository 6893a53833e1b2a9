"""Reading a stream whose leader, or whose consumers' leaders, are not there at once."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from grid_member.engine.jetstream import replay
from grid_member.engine.jetstream.mismatch import LogComparison, info, look
from grid_member.engine.jetstream.replay import ReplaySource, replay_log
from grid_member.engine.jetstream.snapshots import OvertakenError, SnapshotEnd, snapshot_stream
from grid_member.engine.nats.admin.streams import Stream, stream_config
from grid_member.engine.nats.client.blocking import BlockingClient
from grid_member.engine.nats.client.errors import LackingError, RequestTimeoutError
from tests.unit.engine.nats.served import DEADLINE_S, PASSWORD, USER, Served
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.client.wire import Message

LOG = Stream("log", durable=False)
RECORDS = [b"%d" % number for number in range(100)]
FAR = 10**6


class HardOfHearing(BlockingClient):
    """A client whose questions may get lost, as those that a stream without a leader is asked."""

    lost: ClassVar[list[str]] = []
    """Calls that still get lost."""
    vain: ClassVar[list[str]] = []
    """Consumers that still get nothing, as the copy that they read is far behind."""

    def request(
        self,
        subject: bytes,
        payload: bytes = b"",
        *,
        timeout_s: float | None = None,
        headers: bytes = b"",
    ) -> Message:
        call = subject.decode().removeprefix("$JS.API.")
        if self.lost and call.startswith(self.lost[0]):
            self.lost.pop(0)
            sid, _ = self._listen(b"nobody.answers")
            try:
                return super().request(b"nobody.answers", payload, timeout_s=timeout_s)
            finally:
                self._forget(sid)
        if self.vain and call.startswith(self.vain[0]):
            self.vain.pop(0)
            request = json.loads(payload)
            request["config"]["opt_start_seq"] = FAR
            payload = json.dumps(request).encode()
        return super().request(subject, payload, timeout_s=timeout_s, headers=headers)


@pytest.fixture
async def source(served: Served, monkeypatch: pytest.MonkeyPatch) -> ReplaySource:
    """A server with a log of some records."""
    monkeypatch.setattr(HardOfHearing, "lost", [])
    monkeypatch.setattr(HardOfHearing, "vain", [])
    monkeypatch.setattr(replay, "BlockingClient", HardOfHearing)
    await until(served.address)
    source = ReplaySource(served.address, USER, PASSWORD)
    with connected(source) as client:
        for stream in (LOG, LOG.snapshots):
            config = json.dumps(stream_config(stream, 1, "dev")).encode()
            client.request(f"$JS.API.STREAM.CREATE.{stream.name}".encode(), config)
        for record in RECORDS:
            client.publish(LOG.subject.encode(), record)
        held(client, lambda state: state["messages"] == len(RECORDS))
    return source


def connected(source: ReplaySource) -> BlockingClient:
    address = source.address()
    assert address is not None
    return BlockingClient(address, USER, PASSWORD, DEADLINE_S)


def held(client: BlockingClient, condition: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until that is so of the log."""
    until_s = time.monotonic() + DEADLINE_S
    info = f"$JS.API.STREAM.INFO.{LOG.name}".encode()
    while not condition(json.loads(client.request(info).payload)["state"]):
        assert time.monotonic() < until_s
        time.sleep(0.005)


def read(source: ReplaySource) -> list[bytes]:
    return [step.payload for step in replay_log(source, LOG.name)]


def test_a_log_is_read_and_nothing_is_left_behind(source: ReplaySource) -> None:
    made: list[str] = []
    assert [step.payload for step in replay_log(source, LOG.name, made.append)] == RECORDS
    with connected(source) as client:
        assert made == [info(client, LOG.name)["created"]]
        held(client, lambda state: state["consumer_count"] == 0)


@pytest.mark.parametrize(
    "call",
    [
        f"STREAM.MSG.GET.{snapshot_stream(LOG.name)}",
        f"STREAM.INFO.{snapshot_stream(LOG.name)}",
        f"STREAM.INFO.{LOG.name}",
        f"CONSUMER.CREATE.{LOG.name}",
    ],
)
def test_what_nobody_heard_is_asked_again(source: ReplaySource, call: str) -> None:
    HardOfHearing.lost = [call, call]
    assert read(source) == RECORDS
    assert HardOfHearing.lost == []


def test_a_consumer_that_sends_nothing_is_given_up_for_another(source: ReplaySource) -> None:
    HardOfHearing.vain = [f"CONSUMER.CREATE.{LOG.name}"] * 2
    assert read(source) == RECORDS
    assert HardOfHearing.vain == []
    with connected(source) as client:
        held(client, lambda state: state["consumer_count"] == 0)


def test_while_nobody_leads_the_servers_it_is_an_error_soon(
    source: ReplaySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    HardOfHearing.lost = [f"CONSUMER.CREATE.{LOG.name}"] * 2
    monkeypatch.setattr(replay, "PATIENCES_S", (0.05, 600.0))
    monkeypatch.setattr(replay, "CREATE_S", 0.05)
    with pytest.raises(RequestTimeoutError):
        read(source)
    assert read(source) == RECORDS


def delete(source: ReplaySource, stream: Stream, sequence: int) -> None:
    """Have the one copy without a message, as when its file is damaged there."""
    with connected(source) as client:
        request = json.dumps({"seq": sequence}).encode()
        answer = client.request(f"$JS.API.STREAM.MSG.DELETE.{stream.name}".encode(), request)
        assert json.loads(answer.payload)["success"]


def test_what_is_missing_in_the_midst_was_not_purged(source: ReplaySource) -> None:
    delete(source, LOG, 50)
    with pytest.raises(LackingError) as raised:
        read(source)
    assert raised.value.stream == LOG.name


def test_what_a_later_image_replaces_may_be_purged_in_any_copy(
    source: ReplaySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete(source, LOG, 50)
    looks = 0

    def looked(client: BlockingClient, stream: str) -> LogComparison:
        nonlocal looks
        looks += 1
        found = look(client, stream)
        return found if looks == 1 else found._replace(end=SnapshotEnd(60, 1, 0, 0))

    monkeypatch.setattr(replay, "look", looked)
    with pytest.raises(OvertakenError):
        read(source)
