"""The client of a thread, with a real server and with a peer that does what servers seldom do."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.nats.client import blocking
from grid_member.engine.nats.client.blocking import BlockingClient
from grid_member.engine.nats.client.errors import (
    DisconnectedError,
    NatsRefusedError,
    NoRespondersError,
    OverloadedError,
    RequestTimeoutError,
    WireError,
)
from tests.unit.engine.nats.served import (
    DEADLINE_S,
    INFO,
    MAX_PAYLOAD_BYTES,
    PASSWORD,
    USER,
    Scripted,
    Served,
)
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.nats.client.wire import Message

SHORT_S = 0.05


@pytest.fixture
async def address(served: Served) -> tuple[str, int]:
    await until(served.address)
    found = served.address()
    assert found is not None
    return found


def connected(address: tuple[str, int], timeout_s: float = DEADLINE_S) -> BlockingClient:
    return BlockingClient(address, USER, PASSWORD, timeout_s)


def test_requests(address: tuple[str, int]) -> None:
    with connected(address) as client:
        assert b"account_info" in client.request(b"$JS.API.INFO").payload
        with pytest.raises(NoRespondersError):
            client.request(b"nobody")
        iterator = client.messages(b"silent", lambda _: None)
        with pytest.raises(RequestTimeoutError):
            client.request(b"silent", b"heard", timeout_s=SHORT_S)
        assert next(iterator).payload == b"heard"
        assert b"account_info" in client.request(b"$JS.API.INFO").payload


def test_what_comes_before_the_answer_of_begin_is_kept_in_order(address: tuple[str, int]) -> None:
    sent = [b"%d" % number for number in range(5000)]
    sent[77] = os.urandom(MAX_PAYLOAD_BYTES)
    with connected(address) as client:

        def begin(subject: bytes) -> None:
            for payload in sent:
                client.publish(subject, payload, b"a.reply")
            client.request(b"$JS.API.INFO")

        iterator = client.messages(b"a.subject", begin)
        got = [next(iterator) for _ in sent]
    assert [message.payload for message in got] == sent
    assert {(message.subject, message.reply) for message in got} == {(b"a.subject", b"a.reply")}


def test_silence_ends_an_iteration(address: tuple[str, int]) -> None:
    with connected(address, SHORT_S) as client, pytest.raises(RequestTimeoutError):
        next(client.messages(b"silent", lambda _: None))


def test_a_wrong_password_is_refused(address: tuple[str, int]) -> None:
    client = BlockingClient(address, USER, "another", DEADLINE_S)
    with pytest.raises(NatsRefusedError) as refused, client:
        pass
    assert "another" not in str(refused.value)


def test_a_killed_server_ends_an_iteration(served: Served, address: tuple[str, int]) -> None:
    with connected(address) as client:
        iterator = client.messages(b"subject", lambda subject: client.publish(subject, b"1"))
        assert next(iterator).payload == b"1"
        served.kill()
        with pytest.raises(DisconnectedError):
            next(iterator)
        with pytest.raises(DisconnectedError):
            client.request(b"subject")
    with pytest.raises(DisconnectedError), connected(address):
        pass


async def with_peer(scripted: Scripted, work: Callable[[BlockingClient], None]) -> None:
    """Do the work on a thread, over a peer that has answered the greeting."""

    def run() -> None:
        with connected(scripted.address()) as client:
            work(client)

    running = asyncio.create_task(asyncio.to_thread(run))
    await scripted.hears(b"PING\r\n")
    await scripted.say(b"PONG\r\n")
    await running


async def test_a_ping_is_answered_while_messages_are_taken(scripted: Scripted) -> None:
    def work(client: BlockingClient) -> None:
        iterator = client.messages(b"a", lambda _: None)
        assert [next(iterator).payload, next(iterator).payload] == [b"1", b"2"]

    running = asyncio.create_task(with_peer(scripted, work))
    await scripted.hears(b"SUB a 1\r\n")
    await scripted.say(b"MSG a 1 1\r\n1\r\nPING\r\n" + INFO + b"MSG b 9 1\r\nx\r\nMSG a")
    await scripted.hears(b"PONG\r\n")
    await scripted.say(b" 1 1\r\n2\r\n")
    await running


async def test_the_complaint_is_why_a_connection_went(scripted: Scripted) -> None:
    def work(client: BlockingClient) -> None:
        with pytest.raises(DisconnectedError, match="Stale Connection"):
            client.request(b"a")

    running = asyncio.create_task(with_peer(scripted, work))
    await scripted.hears(b"PUB a")
    await scripted.say(b"-ERR 'Stale Connection'\r\n")
    scripted.end()
    await running


async def test_what_waits_for_an_answer_is_bounded(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "MAX_UNREAD_BYTES", 5000)
    got: list[Message] = []

    def work(client: BlockingClient) -> None:
        # What nobody waits for is not counted for ever.
        got.extend(client.request(b"q") for _ in range(4))
        client.messages(b"a", lambda _: None)
        with pytest.raises(OverloadedError):
            client.request(b"b")

    running = asyncio.create_task(with_peer(scripted, work))
    for number in range(1, 5):
        await scripted.hears(b"PUB q", number)
        await scripted.say(b"MSG r %d 2000\r\n%b\r\n" % (2 * number, bytes(2000)))
    await scripted.hears(b"PUB b")
    await scripted.say(b"MSG a 9 2000\r\n%b\r\n" % bytes(2000) * 3)
    await running
    assert len(got) == 4


async def test_another_protocol_or_none_at_the_address(scripted: Scripted) -> None:
    def run(timeout_s: float) -> None:
        with connected(scripted.address(), timeout_s):
            pass

    scripted.says = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with pytest.raises(WireError):
        await asyncio.to_thread(run, DEADLINE_S)
    for said in (b"", INFO):
        scripted.says = said
        with pytest.raises(RequestTimeoutError):
            await asyncio.to_thread(run, SHORT_S)
