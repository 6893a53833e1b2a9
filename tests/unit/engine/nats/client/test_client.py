"""The client of the loop with a real server."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.nats.client.client import PING_INTERVAL_S, NatsClient
from grid_member.engine.nats.client.errors import (
    DisconnectedError,
    NatsRefusedError,
    NoRespondersError,
    RequestTimeoutError,
    WireError,
)
from tests.unit.engine.nats.served import DEADLINE_S, MAX_PAYLOAD_BYTES, PASSWORD, USER, Served
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from grid_member.engine.nats.client.wire import Message

IMPATIENT_S = 0.1


class Taker:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.reads: list[Sequence[Message]] = []

    def __call__(self, messages: Sequence[Message]) -> None:
        self.reads.append(messages)

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for messages in self.reads for message in messages]


def client_of(
    served: Served,
    password: str = PASSWORD,
    changes: list[bool] | None = None,
    ping_interval_s: float = PING_INTERVAL_S,
) -> NatsClient:
    return NatsClient(
        served.address,
        USER,
        password,
        "test",
        max_payload_bytes=MAX_PAYLOAD_BYTES,
        on_connection=None if changes is None else changes.append,
        ping_interval_s=ping_interval_s,
    )


@pytest.fixture
def changes() -> list[bool]:
    return []


@pytest.fixture
async def client(served: Served, changes: list[bool]) -> AsyncIterator[NatsClient]:
    client = client_of(served, changes=changes)
    client.start()
    await client.wait_connected(DEADLINE_S)
    yield client
    await client.close()


async def test_ten_thousand_messages_in_one_burst_come_in_order(client: NatsClient) -> None:
    taker, other = Taker(), Taker()
    client.subscribe(b"burst.*", taker)
    client.subscribe(b"burst.odd", other)
    sent = [b"%d" % number for number in range(10_000)]
    for number, payload in enumerate(sent):
        assert client.publish(b"burst.odd" if number % 2 else b"burst.even", payload)
    await until(lambda: len(taker.payloads) == len(sent) and len(other.payloads) == 5000)
    assert taker.payloads == sent
    assert other.payloads == sent[1::2]
    # All messages of a read are one list.
    assert len(taker.reads) < 1000


async def test_a_payload_of_nine_mebibytes_comes_back(client: NatsClient) -> None:
    taker = Taker()
    client.subscribe(b"large", taker)
    payload = os.urandom(MAX_PAYLOAD_BYTES)
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    assert client.publish(b"large", payload, b"to.me", block)
    assert client.pending_bytes > MAX_PAYLOAD_BYTES
    await until(lambda: taker.reads)
    ((message,),) = taker.reads
    assert message.payload == payload
    assert (message.reply, message.headers) == (b"to.me", block)
    await until(lambda: client.pending_bytes == 0)


async def test_what_the_server_would_hang_up_on_is_not_sent(
    client: NatsClient, changes: list[bool]
) -> None:
    with pytest.raises(WireError):
        client.publish(b"large", bytes(MAX_PAYLOAD_BYTES + 1))
    with pytest.raises(WireError):
        client.publish(b"a b", b"")
    with pytest.raises(WireError):
        client.subscribe(b"a b", Taker())
    await client.request(b"$JS.API.INFO", timeout_s=DEADLINE_S)
    assert changes == [True]


async def test_requests_get_their_own_answers(client: NatsClient) -> None:
    held: list[Message] = []

    def answer_backwards(messages: Sequence[Message]) -> None:
        held.extend(messages)
        if len(held) == 100:
            for message in reversed(held):
                client.publish(message.reply, b"to " + message.payload)
                client.publish(message.reply, b"once more")

    client.subscribe(b"echo", answer_backwards)
    asked = [b"%d" % number for number in range(100)]
    answers = await asyncio.gather(
        *(client.request(b"echo", payload, timeout_s=DEADLINE_S) for payload in asked)
    )
    assert [answer.payload for answer in answers] == [b"to " + payload for payload in asked]


async def test_nobody_listens_and_nobody_answers(client: NatsClient) -> None:
    with pytest.raises(NoRespondersError):
        await client.request(b"nobody", timeout_s=DEADLINE_S)
    client.subscribe(b"silent", Taker())
    with pytest.raises(RequestTimeoutError):
        await client.request(b"silent", timeout_s=0.01)
    assert client._requests == {}


async def test_a_publication_without_listeners_is_answered(client: NatsClient) -> None:
    taker = Taker()
    inbox = client.unused_inbox()
    client.subscribe(inbox, taker)
    client.publish(b"nobody", b"", inbox)
    await until(lambda: taker.reads)
    ((message,),) = taker.reads
    assert message.headers.startswith(b"NATS/1.0 503")
    assert client.unused_inbox() != inbox


async def test_an_ended_subscription_takes_nothing(client: NatsClient) -> None:
    taker, other = Taker(), Taker()
    ended = client.subscribe(b"subject", taker)
    client.subscribe(b"subject", other)
    client.publish(b"subject", b"1")
    await until(lambda: other.payloads == [b"1"])
    client.publish(b"subject", b"2")
    ended.unsubscribe()
    ended.unsubscribe()
    await until(lambda: other.payloads == [b"1", b"2"])
    assert taker.payloads == [b"1"]
    # The server has been told as well, or it would count as somebody who listens.
    lonely = client.subscribe(b"lonely", taker)
    lonely.unsubscribe()
    with pytest.raises(NoRespondersError):
        await client.request(b"lonely", timeout_s=DEADLINE_S)


async def test_what_a_subscription_raises_costs_only_its_messages(client: NatsClient) -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    taker = Taker()

    def fail(messages: Sequence[Message]) -> None:
        raise RuntimeError

    client.subscribe(b"subject", fail)
    client.subscribe(b"subject", taker)
    client.publish(b"subject", b"1")
    await until(lambda: taker.payloads == [b"1"])
    client.publish(b"subject", b"2")
    await until(lambda: taker.payloads == [b"1", b"2"])
    assert [type(context["exception"]) for context in reported] == [RuntimeError, RuntimeError]


async def test_a_killed_server_fails_requests_and_is_found_again(
    served: Served, client: NatsClient, changes: list[bool]
) -> None:
    taker = Taker()
    client.subscribe(b"subject", taker)
    waiting = asyncio.create_task(client.request(b"subject", timeout_s=DEADLINE_S))
    await until(lambda: taker.reads)
    served.kill()
    with pytest.raises(DisconnectedError):
        await waiting
    assert changes == [True, False]
    assert not client.connected
    assert not client.publish(b"subject", b"lost")
    assert client.pending_bytes == 0
    with pytest.raises(DisconnectedError):
        await client.request(b"subject", timeout_s=DEADLINE_S)
    with pytest.raises(DisconnectedError):
        await client.wait_connected(0.01)
    while_away = Taker()
    client.subscribe(b"subject", while_away)
    served.start()
    await client.wait_connected(DEADLINE_S)
    assert changes == [True, False, True]
    assert client.publish(b"subject", b"again")
    await until(lambda: while_away.payloads == [b"again"])
    assert taker.payloads == [b"", b"again"]


async def test_a_stopped_server_counts_as_gone(served: Served) -> None:
    changes: list[bool] = []
    client = client_of(served, changes=changes, ping_interval_s=IMPATIENT_S)
    client.start()
    await client.wait_connected(DEADLINE_S)
    taker = Taker()
    client.subscribe(b"subject", taker)
    served.signal(signal.SIGSTOP)
    # More than the kernel takes: what is left must not keep the connection.
    assert client.publish(b"subject", bytes(MAX_PAYLOAD_BYTES))
    await until(lambda: not client.connected)
    await until(lambda: len(changes) > 1)
    assert changes == [True, False]
    assert client.pending_bytes == 0
    served.signal(signal.SIGCONT)
    # A busy machine may be too slow for so impatient a client, which then connects once more.
    await until(lambda: client.publish(b"subject", b"again") and b"again" in taker.payloads)
    await client.close()


async def test_a_wrong_password_is_told_and_tried_again(served: Served) -> None:
    await until(served.address)
    client = client_of(served, "another")
    client.start()
    with pytest.raises(NatsRefusedError) as refused:
        await client.wait_connected(DEADLINE_S)
    assert "another" not in str(refused.value)
    assert not client.connected
    await client.close()


async def test_a_close_sends_what_was_published(served: Served, client: NatsClient) -> None:
    changes: list[bool] = []
    taker = Taker()
    client.subscribe(b"subject", taker)
    await client.request(b"$JS.API.INFO", timeout_s=DEADLINE_S)
    leaving = client_of(served, changes=changes)
    leaving.start()
    await leaving.wait_connected(DEADLINE_S)
    payload = os.urandom(MAX_PAYLOAD_BYTES)
    leaving.publish(b"subject", payload)
    await leaving.close()
    await leaving.close()
    assert changes == [True, False]
    assert not leaving.publish(b"subject", b"")
    with pytest.raises(DisconnectedError):
        await leaving.wait_connected(DEADLINE_S)
    await until(lambda: taker.payloads == [payload])
