"""Servers that are to elect a leader with fewer votes, and do not take that at once."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.nats.admin.peer_removal import take_off_lost
from grid_member.engine.nats.client.errors import RequestTimeoutError
from grid_member.engine.nats.client.wire import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.nats.client.client import NatsClient

KNOWN = {"error": {"description": "raft: leader is known"}}
EMPTY = {"error": {"description": "raft: log is empty"}}
TAKEN: dict[str, Any] = {"new_quorum": 1}


class Silence:
    """A subscription of the servers below."""

    def unsubscribe(self) -> None:
        """Do nothing."""


class Servers:
    """They answer each question for fewer votes with the next of what they are given."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        """How many votes were to be enough, each time."""
        self.led = False
        self.needed = 1
        """How many have to take it until one leads."""
        self._take: Callable[[Sequence[Message]], None] = print

    def unused_inbox(self) -> bytes:
        return b"_INBOX.1"

    def subscribe(self, _: bytes, take: Callable[[Sequence[Message]], None]) -> Silence:
        self._take = take
        return Silence()

    def publish(self, _: bytes, payload: bytes, __: bytes) -> None:
        self.asked.append(json.loads(payload)["quorum_needed"])
        answers = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.led = answers.count(TAKEN) >= self.needed
        self._take([Message(b"", b"", b"", json.dumps(one).encode(), 1) for one in answers])

    async def request(self, *_: object, **__: object) -> Message:
        if not self.led:
            raise RequestTimeoutError("nobody leads")
        meta = {"meta_cluster": {"leader": "m0", "replicas": []}}
        return Message(b"", b"", b"", json.dumps({"data": meta}).encode(), 1)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass as fast as it is asked for."""
    passed = asyncio.sleep
    now_s = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        await passed(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: now_s)


async def rescued(servers: Servers, size: int) -> str:
    """Ask for a rescue; return why that is not done."""
    client = cast("NatsClient", servers)
    with pytest.raises(EngineError) as refused:
        await take_off_lost(client, client, ["shard-0"], size, set(), wipe=False)
    return str(refused.value)


async def test_one_that_believes_in_its_former_leader_is_asked_until_it_does_not() -> None:
    servers = Servers([KNOWN], [KNOWN], [TAKEN])
    assert "no member is lost" in await rescued(servers, 3)  # one leads, and none is silent
    assert servers.asked == [1, 1, 1]


async def test_who_has_taken_it_is_not_asked_again() -> None:
    servers = Servers([KNOWN, TAKEN, EMPTY])
    assert "no member is lost" in await rescued(servers, 5)
    assert servers.asked == [2]


async def test_members_without_data_cannot_lead() -> None:
    servers = Servers([EMPTY, EMPTY])
    assert "log is empty; ask one that has data" in await rescued(servers, 5)
    assert set(servers.asked) == {2, 1}


async def test_fewer_votes_are_not_tried_while_one_believes_in_its_former_leader() -> None:
    servers = Servers(*[[KNOWN, TAKEN]] * 12, [TAKEN, TAKEN])
    servers.needed = 2
    assert "no member is lost" in await rescued(servers, 5)
    assert servers.asked == [2] * 13
