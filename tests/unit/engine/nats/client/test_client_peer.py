"""The client of the loop with a peer that does what servers seldom do."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.nats.client import client as module
from grid_member.engine.nats.client.client import NatsClient
from grid_member.engine.nats.client.errors import (
    DisconnectedError,
    NatsRefusedError,
    OverloadedError,
    WireError,
)
from tests.unit.engine.nats.served import DEADLINE_S, INFO, Scripted
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LIMIT_BYTES = 2000


def client_at(
    address: Callable[[], tuple[str, int] | None], changed: Callable[[bool], None] | None = None
) -> NatsClient:
    return NatsClient(
        address, "user", "secret", "name", max_payload_bytes=LIMIT_BYTES, on_connection=changed
    )


@pytest.fixture
async def client(scripted: Scripted) -> AsyncIterator[NatsClient]:
    client = client_at(scripted.address)
    client.start()
    await scripted.hears(b"PING\r\n")
    await scripted.say(b"PONG\r\n")
    await client.wait_connected(DEADLINE_S)
    yield client
    scripted.hang_up()
    await client.close()


async def test_a_connection_begins_with_all_that_is_listened_to(
    scripted: Scripted, client: NatsClient
) -> None:
    client.subscribe(b"early", lambda _: None)
    ended = client.subscribe(b"ended", lambda _: None)
    await scripted.hears(b"SUB ended 3\r\n")
    ended.unsubscribe()
    await scripted.hears(b"UNSUB 3\r\n")
    scripted.got = b""
    scripted.hang_up()
    await scripted.hears(b"PING\r\n")
    connect, inbox, early, ping, rest = scripted.got.split(b"\r\n")
    assert connect.startswith(b"CONNECT ")
    assert inbox.startswith(b"SUB _INBOX.")
    assert inbox.endswith(b".r.* 1")
    assert (early, ping, rest) == (b"SUB early 2", b"PING", b"")
    assert not client.connected
    # What begins to listen before the answer is sent after the greeting.
    client.subscribe(b"late", lambda _: None)
    await scripted.hears(b"SUB late 4\r\n")


async def test_what_another_member_may_send_is_taken_whatever_this_one_may(
    scripted: Scripted, client: NatsClient
) -> None:
    taken: list[int] = []
    client.subscribe(b"a", lambda messages: taken.extend(len(one.payload) for one in messages))
    await scripted.hears(b"SUB a 2\r\n")
    await scripted.say(b"MSG a 2 %d\r\n%b\r\n" % (3 * LIMIT_BYTES, bytes(3 * LIMIT_BYTES)))
    await until(lambda: bool(taken))
    assert taken == [3 * LIMIT_BYTES]


async def test_complaints_are_logged_once(
    scripted: Scripted, client: NatsClient, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[int] = []
    client.subscribe(b"a", lambda messages: taken.append(len(messages)))
    with caplog.at_level(logging.WARNING, "grid.engine.nats"):
        await scripted.say(b"-ERR 'Slow Consumer'\r\n" * 3 + b"-ERR 'Other'\r\n")
        await scripted.say(b"".join(b"-ERR '%d'\r\n" % number for number in range(100)))
        await scripted.say(b"MSG a 2 0\r\n\r\n")
        await until(lambda: taken)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:2] == ["nats-server complained: Slow Consumer", "nats-server complained: Other"]
    assert len(lines) == module.MAX_ERRORS
    assert client.connected


async def test_too_much_is_not_taken(
    scripted: Scripted, client: NatsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = bytes(1000)
    sent = 0
    half_full_at = None
    while client.publish(b"a", payload):
        sent += len(payload)
        if half_full_at is None and client.half_full:
            half_full_at = sent
    assert half_full_at is not None
    assert half_full_at <= LIMIT_BYTES * module.PENDING_PAYLOADS // 2 + len(payload)
    assert 0 < sent <= LIMIT_BYTES * module.PENDING_PAYLOADS
    with pytest.raises(OverloadedError):
        await client.request(b"a", payload, timeout_s=DEADLINE_S)
    await until(lambda: client.pending_bytes == 0)
    assert not client.half_full
    assert client.publish(b"a", payload)
    monkeypatch.setattr(module, "MAX_REQUESTS", 1)
    waiting = asyncio.create_task(client.request(b"a", timeout_s=DEADLINE_S))
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await client.request(b"a", timeout_s=DEADLINE_S)
    scripted.hang_up()
    with pytest.raises(DisconnectedError):
        await waiting


async def test_the_server_sets_a_limit_as_well(client: NatsClient) -> None:
    block = b"NATS/1.0\r\n\r\n"
    assert client.publish(b"a", bytes(1000))
    assert client.publish(b"a", bytes(1000 - len(block)), headers=block)
    with pytest.raises(WireError):
        client.publish(b"a", bytes(1001))
    with pytest.raises(WireError):
        client.publish(b"a", bytes(1000), headers=block)


async def test_answers_that_nobody_waits_for_are_dropped(
    scripted: Scripted, client: NatsClient
) -> None:
    given_up = asyncio.create_task(client.request(b"a", timeout_s=DEADLINE_S))
    await scripted.hears(b"PUB a ")
    reply = scripted.got.partition(b"PUB a ")[2].split(b" ")[0]
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    scripted.got = b""
    waiting = asyncio.create_task(client.request(b"a", timeout_s=DEADLINE_S))
    await scripted.hears(b"PUB a ")
    own = scripted.got.partition(b"PUB a ")[2].split(b" ")[0]
    late = b"MSG %b 1 4\r\nlate\r\n" % reply
    unknown = b"MSG %b 77 4\r\nlate\r\n" % own
    await scripted.say(late + unknown + b"MSG %b 1 3\r\nown\r\n" % own)
    assert (await waiting).payload == b"own"


async def test_another_protocol_at_the_address_is_given_up_and_tried_again(
    scripted: Scripted,
) -> None:
    scripted.says = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    client = client_at(scripted.address)
    client.start()
    await until(lambda: scripted.connections >= 3)
    with pytest.raises(DisconnectedError, match="does not speak NATS"):
        await client.wait_connected(0.01)
    await client.close()


async def test_a_refusal_is_forgotten_when_the_server_takes_the_client(scripted: Scripted) -> None:
    scripted.says = INFO + b"-ERR 'Authorization Violation'\r\n"
    client = client_at(scripted.address)
    client.start()
    await until(lambda: scripted.connections)
    scripted.hang_up()
    with pytest.raises(NatsRefusedError) as refused:
        await client.wait_connected(DEADLINE_S)
    assert "secret" not in str(refused.value)
    scripted.says = INFO + b"PONG\r\n"
    await until(lambda: client.connected)
    await client.wait_connected(DEADLINE_S)
    scripted.hang_up()
    await client.close()


async def test_no_address_a_broken_one_and_a_deaf_one_are_asked_again(scripted: Scripted) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context["exception"])
    )
    failure = LookupError()
    found: list[tuple[str, int] | Exception | None] = [
        None,
        failure,
        ("127.0.0.1", 1),
        ("127.0.0.1", 1 << 20),
        ("a" * 70, 1),
    ]

    def address() -> tuple[str, int] | None:
        answer = found.pop(0) if found else scripted.address()
        if isinstance(answer, Exception):
            raise answer
        return answer

    scripted.says = INFO + b"PONG\r\n"

    def changed(connected: bool) -> None:
        raise RuntimeError(connected)

    client = client_at(address, changed)
    client.start()
    await client.wait_connected(DEADLINE_S)
    scripted.hang_up()
    await until(lambda: scripted.connections == 2)
    await client.close()
    assert reported[0] is failure
    assert [str(error) for error in reported[1:3]] == ["True", "False"]


async def test_a_client_is_started_once_and_may_be_closed_unstarted(scripted: Scripted) -> None:
    client = client_at(lambda: None)
    assert not client.publish(b"a", b"")
    with pytest.raises(DisconnectedError):
        await client.wait_connected(0.01)
    client.start()
    with pytest.raises(RuntimeError):
        client.start()
    waiting = asyncio.create_task(client.wait_connected(DEADLINE_S))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(DisconnectedError, match="closed"):
        await waiting
    unstarted = client_at(scripted.address)
    await unstarted.close()
    with pytest.raises(RuntimeError):
        unstarted.start()
    assert scripted.connections == 0
