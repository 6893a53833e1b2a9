"""Promise: a member that lacks shards is answered by one that has all, or hears that none is."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.forward.messages import FORWARD_SERVERS
from grid_member.engine.nats.admin.questions import answer_each
from grid_member.wan.members import requests
from grid_member.wan.members.requests import MAX_ANSWERING, Replica, RequestKind, RequestServer
from grid_member.wan.ports import BusyError, ComparingError, ConflictError
from grid_member.wan.protocol import ProtocolError
from tests.unit.engine.forward.bus import Bus, Connection
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MEMBER = b"m" * 16
CHANGES = RequestKind.CHANGES


class Held:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.go = asyncio.Event()
        self.go.set()
        self.fails: Exception | None = None

    async def answer(self, body: bytes) -> bytes:
        self.asked.append(body)
        await self.go.wait()
        if self.fails is not None:
            raise self.fails
        return b"<" + body + b">"


@pytest.fixture
async def held() -> Held:
    return Held()


@pytest.fixture
async def bus(held: Held) -> AsyncIterator[Bus]:
    """A member with all shards that answers changes."""
    made = Bus()
    server = server_on(made, held)
    yield made
    await server.stop()


def server_on(bus: Bus, held: Held) -> RequestServer:
    answers = {CHANGES: held.answer}
    server = RequestServer(Connection(bus).client, MEMBER, answers, logging.getLogger("t"))
    server.start()
    answer_each(Connection(bus).client, FORWARD_SERVERS, lambda _: MEMBER)
    return server


def replica(bus: Bus) -> Replica:
    return Replica(lambda: Connection(bus).client)


async def test_a_member_with_all_shards_answers(bus: Bus, held: Held) -> None:
    asking = replica(bus)
    assert await asking.ask(CHANGES, b"batch") == b"<batch>"
    assert await asking.ask(CHANGES, b"") == b"<>"
    assert held.asked == [b"batch", b""]


@pytest.mark.parametrize("problem", [ConflictError, BusyError, ComparingError, ProtocolError])
async def test_what_it_raises_is_raised_here(
    bus: Bus, held: Held, problem: type[Exception]
) -> None:
    held.fails = problem("why ü")
    with pytest.raises(problem, match="why ü"):
        await replica(bus).ask(CHANGES, b"batch")


async def test_an_unexpected_failure_and_an_unknown_kind_are_asked_again_later(
    bus: Bus, held: Held
) -> None:
    held.fails = RuntimeError("secret")
    with pytest.raises(BusyError, match="failed to answer"):
        await replica(bus).ask(CHANGES, b"batch")
    with pytest.raises(BusyError, match="failed to answer"):
        await replica(bus).ask(RequestKind.STATUS, b"")


async def test_a_member_that_compares_a_map_is_asked_again(bus: Bus, held: Held) -> None:
    held.fails = ComparingError("the map is being compared")
    asking = replica(bus)
    with pytest.raises(ComparingError):
        await asking.ask(CHANGES, b"question")
    held.fails = None
    bus.lose = lambda subject: subject == FORWARD_SERVERS
    assert await asking.ask(CHANGES, b"question") == b"<question>"


async def test_without_such_a_member_it_is_asked_again_later() -> None:
    with pytest.raises(BusyError, match="no member that holds the data answers"):
        await replica(Bus()).ask(CHANGES, b"batch")


async def test_one_that_is_gone_is_looked_for_again(
    bus: Bus, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "ANSWER_S", 0.05)
    asking = replica(bus)
    assert await asking.ask(CHANGES, b"1") == b"<1>"
    bus.lose = lambda subject: subject.startswith(b"grid.wan.")
    with pytest.raises(BusyError):
        await asking.ask(CHANGES, b"2")
    bus.lose = lambda subject: False
    assert await asking.ask(CHANGES, b"3") == b"<3>"
    assert held.asked == [b"1", b"3"]


async def test_requests_have_a_bound(bus: Bus, held: Held) -> None:
    held.go.clear()
    asking = replica(bus)
    waiting = [asyncio.create_task(asking.ask(CHANGES, b"x")) for _ in range(MAX_ANSWERING)]
    await until(lambda: len(held.asked) == MAX_ANSWERING)
    with pytest.raises(BusyError, match="too many requests"):
        await asking.ask(CHANGES, b"one more")
    held.go.set()
    assert set(await asyncio.gather(*waiting)) == {b"<x>"}


async def test_a_stop_answers_what_was_begun_and_nothing_else(held: Held) -> None:
    bus = Bus()
    server = server_on(bus, held)
    held.go.clear()
    asking = replica(bus)
    begun = asyncio.create_task(asking.ask(CHANGES, b"begun"))
    await until(lambda: bool(held.asked))
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="no member that holds the data answers"):
        await asking.ask(CHANGES, b"late")
    held.go.set()
    assert await begun == b"<begun>"
    await stopping
    assert held.asked == [b"begun"]
