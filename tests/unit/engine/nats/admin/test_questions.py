"""Questions to all that listen: when they end, and what of them members of other versions read."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.engine.bootstrap.member_probe import connected_clusters
from grid_member.engine.lost_memory.roundup import Roundup
from grid_member.engine.lost_memory.survivors import LogHolding, MemoryReport
from grid_member.engine.nats.admin.questions import answer_each, ask_all
from grid_member.engine.nats.admin.server_records import ServerRecord
from grid_member.engine.nats.client.wire import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.nats.client.client import NatsClient

INBOX = b"_INBOX.1"
LONG_S = 600.0
OWN = MemoryReport(
    "S0", ServerRecord("host", "m0", 5704, ("a",), durable=False), True,
    {"volatile": LogHolding("then", 1, 9, left=False)}, {"S1": None}, frozenset({"S2"}),
)  # fmt: skip


class Bus:
    """A connection: what goes out over it, and whoever listens at its end."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers
        self.sent: list[tuple[bytes, bytes, bytes]] = []
        self.listening: dict[bytes, Callable[[Sequence[Message]], None]] = {}

    @property
    def client(self) -> NatsClient:
        return cast("NatsClient", self)

    def unused_inbox(self) -> bytes:
        return INBOX

    def subscribe(self, subject: bytes, take: Callable[[Sequence[Message]], None]) -> Bus:
        self.listening[subject] = take
        return self

    def unsubscribe(self) -> None:
        self.listening.clear()

    def publish(self, subject: bytes, payload: bytes, reply: bytes = b"") -> None:
        self.sent.append((subject, payload, reply))
        if reply:
            self.deliver(reply, *self.answers)

    def deliver(self, subject: bytes, *payloads: bytes, reply: bytes = b"") -> None:
        self.listening[subject]([Message(subject, reply, b"", one, 1) for one in payloads])


async def test_a_question_ends_with_the_answer_that_is_enough() -> None:
    bus, taken = Bus(b"one", b"two"), list[bytes]()

    def take(answer: bytes) -> bool:
        taken.append(answer)
        return answer == b"one"

    await ask_all(bus.client, b"subject", b"what?", LONG_S, take)
    assert taken == [b"one", b"two"]  # what came together is taken together
    assert bus.sent == [(b"subject", b"what?", INBOX)]
    assert not bus.listening


async def test_a_question_ends_with_its_time() -> None:
    bus, taken = Bus(b"one"), list[bytes]()
    await ask_all(bus.client, b"subject", b"", 0.01, taken.append)
    assert taken == [b"one"]
    assert not bus.listening


async def test_a_question_that_is_given_up_listens_no_more() -> None:
    bus = Bus()
    asking = asyncio.ensure_future(ask_all(bus.client, b"subject", b"", LONG_S, lambda _: None))
    await asyncio.sleep(0)
    assert bus.listening
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not bus.listening


async def test_only_who_asks_for_an_answer_gets_one_and_only_if_there_is_one() -> None:
    bus, heard = Bus(), list[bytes]()

    def answer(said: bytes) -> bytes | None:
        heard.append(said)
        return said if said == b"known" else None

    answer_each(bus.client, b"subject", answer)
    bus.deliver(b"subject", b"known")
    bus.deliver(b"subject", b"known", b"unknown", reply=b"")
    assert not bus.sent
    bus.listening[b"inbox"] = lambda _: None
    bus.deliver(b"subject", b"known", b"unknown", reply=b"inbox")
    assert heard == [b"known", b"known", b"unknown", b"known", b"unknown"]
    assert bus.sent == [(b"inbox", b"known", b"")]


async def test_members_of_other_versions_read_what_is_asked_and_told_of_logs_in_memory() -> None:
    bus, left = Bus(b"{}", b"", OWN.encode()), list[tuple[str, str]]()
    roundup = Roundup(bus.client, lambda *log: left.append(log), lambda: OWN)
    bus.deliver(b"grid.memory", b'{"leave": {"volatile": ["then"]}}', b'{"gone": "S9"}', b"?")
    assert left == [("volatile", "then")]
    assert roundup.stopped_servers == {"S9"}
    assert not bus.sent
    bus.listening[b"inbox"] = lambda _: None
    bus.deliver(b"grid.memory", b"{}", reply=b"inbox")
    assert bus.sent == [(b"inbox", OWN.encode(), b"")]
    assert json.loads(bus.sent.pop()[1])["holdings"] == {"volatile": ["then", 1, 9, False]}
    assert await roundup.ask({"volatile": ["b", "a"]}, LONG_S, lambda _: True) == {"S0": OWN}
    assert bus.sent == [(b"grid.memory", b'{"leave": {"volatile": ["a", "b"]}}', INBOX)]
    roundup.end("S0")
    assert bus.sent[1:] == [(b"grid.memory", b'{"gone": "S0"}', b"")]


async def test_members_of_other_versions_are_asked_for_their_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grid_member.engine.bootstrap.member_probe.PROBED_MEMBER_ANSWER_S", 0.01)
    bus = Bus(b"0123456789abcdef", b"", b"\xff")
    assert await connected_clusters(bus.client) == ["0123456789abcdef", "", "\ufffd"]
    assert bus.sent == [(b"grid.cluster", b"", INBOX)]
