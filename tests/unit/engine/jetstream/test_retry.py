"""When a log that ended before what was read in it is read again."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.jetstream import retry
from grid_member.engine.jetstream.retry import LONGEST_S, await_growth, longer
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.client.errors import RequestTimeoutError, ShortError
from grid_member.engine.nats.client.wire import Message
from tests.unit.waiting import until

if TYPE_CHECKING:
    from grid_member.engine.nats.client.client import NatsClient

LAST = 40
SHORT = ShortError("shard-1", LAST)
LONG_S = 3600.0
MANY = 5


def ends(sequence: int, created: str = "then") -> dict[str, Any]:
    return {"state": {"last_seq": sequence}, "created": created}


def held_by(leader: str | None, *others: str) -> dict[str, Any]:
    replicas = [{"peer": peer_id(name)} for name in others]
    return {**ends(10), "cluster": {"leader": leader, "replicas": replicas}}


class Leader:
    """Who leads a log, and tells something else of it each time."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.answers = list(answers)
        """None: there is none."""
        self.asked = 0

    async def request(self, subject: bytes, body: bytes, *, timeout_s: float) -> Message:
        assert subject == b"$JS.API.STREAM.INFO.shard-1"
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise RequestTimeoutError("no answer")
        return Message(b"", b"", b"", json.dumps(answer).encode(), 1)

    async def waited_for(self, delay_s: float) -> None:
        await await_growth(cast("NatsClient", self), SHORT, delay_s)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "ASK_S", 0.001)


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([ends(10), ends(10), ends(LAST)], 3),
        ([None, {"state": None}, ends(10), None, ends(LAST + 1)], 5),
        ([ends(10), ends(0, "later")], 2),
        ([{"error": {"err_code": 10059}}], 1),
        (
            [
                *(held_by("m0", "m1"), held_by("m1", "m0", "m2"), held_by("m2", "m1", "m0")),
                *(held_by(None, "m1"), held_by("m2", "m1")),
            ],
            5,
        ),
    ],
    ids=["it grew", "nobody told", "it is another one", "it was deleted", "one was taken off"],
)
async def test_a_log_is_read_again_when_it_may_hold_what_it_lacked(
    answers: list[dict[str, Any] | None], asked: int
) -> None:
    leader = Leader(*answers)
    await leader.waited_for(LONG_S)
    assert leader.asked == asked


@pytest.mark.parametrize("last", [LAST - 1, LAST])
async def test_a_log_that_is_as_it_was_is_left_alone_for_a_while(last: int) -> None:
    leader = Leader(ends(last))
    waiting = asyncio.ensure_future(leader.waited_for(LONG_S))
    await until(lambda: leader.asked > MANY)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})
    leader.asked = 0
    await leader.waited_for(0.0)
    assert leader.asked == 1


def test_it_is_left_alone_longer_each_time() -> None:
    assert longer(1.0) == 2.0
    assert longer(LONGEST_S - 1) == LONGEST_S
