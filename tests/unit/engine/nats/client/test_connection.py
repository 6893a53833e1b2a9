"""One connection with a transport that only takes notes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.nats.client.connection import SILENT_INTERVALS, NatsConnection
from tests.unit.engine.nats.served import INFO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grid_member.engine.nats.client.wire import Message

NEVER_S = 3600.0
LIMIT_BYTES = 1000


class NotedTransport(asyncio.Transport):
    """Keeps each write; what is written is taken at once."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return 0


class NotedOwner:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def greeting(self) -> bytes:
        return b"CONNECT {}\r\nSUB a 1\r\n"

    def note_open(self, connection: NatsConnection) -> None:
        self.told.append("opened")

    def note_close(self, connection: NatsConnection) -> None:
        self.told.append("closed")

    def take(self, sid: int, messages: Sequence[Message]) -> None:
        self.told.append((sid, [message.payload for message in messages]))

    def report_error(self, text: str) -> None:
        self.told.append(text)


class Pair:
    """A connection between the two."""

    def __init__(self) -> None:
        self.owner = NotedOwner()
        self.transport = NotedTransport()
        self.connection = NatsConnection(self.owner, LIMIT_BYTES, NEVER_S)
        self.connection.connection_made(self.transport)

    def is_open(self) -> bool:
        return self.connection.open

    def aborted(self) -> bool:
        return self.transport.aborted

    async def sent(self) -> list[bytes]:
        """Return the writes up to the end of this tick."""
        await asyncio.sleep(0)
        writes, self.transport.writes = self.transport.writes, []
        return writes

    async def open(self) -> None:
        self.connection.data_received(INFO)
        assert await self.sent() == [b"CONNECT {}\r\nSUB a 1\r\nPING\r\n"]
        self.connection.data_received(b"PONG\r\n")
        assert self.is_open()
        assert self.owner.told == ["opened"]
        self.owner.told.clear()

    def lose(self) -> None:
        self.connection.connection_lost(None)


async def test_a_server_speaks_first_and_may_introduce_itself_again() -> None:
    pair = Pair()
    assert await pair.sent() == []
    for at in range(len(INFO)):
        pair.connection.data_received(INFO[at : at + 1])
    assert await pair.sent() == [b"CONNECT {}\r\nSUB a 1\r\nPING\r\n"]
    assert not pair.is_open()
    pair.connection.data_received(INFO.replace(b"1000", b"500") + b"PONG\r\n" + INFO)
    assert pair.is_open()
    pair.connection.data_received(INFO.replace(b"1000", b"700"))
    assert pair.connection.info is not None
    assert pair.connection.info.max_payload_bytes == 700
    assert await pair.sent() == []
    assert pair.owner.told == ["opened"]
    pair.lose()


async def test_what_is_sent_in_a_tick_is_one_write() -> None:
    pair = Pair()
    await pair.open()
    pair.connection.send(b"one")
    pair.connection.send(b"two")
    pair.connection.data_received(b"PING\r\n")
    assert pair.connection.pending_bytes == len(b"onetwoPONG\r\n")
    assert await pair.sent() == [b"onetwoPONG\r\n"]
    assert pair.connection.pending_bytes == 0
    pair.connection.send(b"three")
    assert await pair.sent() == [b"three"]
    pair.lose()


async def test_the_messages_of_a_read_come_as_one_list_for_each_subscription() -> None:
    pair = Pair()
    await pair.open()
    one, two = b"MSG a 1 1\r\n%d\r\n", b"MSG b 2 1\r\n%d\r\n"
    pair.connection.data_received(one % 1 + two % 2 + b"PING\r\n" + one % 3 + two[:5])
    assert pair.owner.told == [(1, [b"1", b"3"]), (2, [b"2"])]
    pair.connection.data_received(two[5:] % 4)
    assert pair.owner.told[2:] == [(2, [b"4"])]
    assert await pair.sent() == [b"PONG\r\n"]
    pair.lose()


async def test_what_is_no_nats_ends_the_connection() -> None:
    pair = Pair()
    await pair.open()
    pair.connection.data_received(b"MSG a 1 1001\r\n")
    assert pair.aborted()
    assert not pair.is_open()
    pair.connection.send(b"more")
    assert await pair.sent() == []
    pair.lose()
    assert pair.owner.told == ["closed"]
    assert pair.connection.ended.done()
    pair.connection.drop("again")
    assert "longer" in pair.connection.reason


async def test_the_end_of_a_server_does_not_wait_for_what_is_unsent() -> None:
    pair = Pair()
    await pair.open()
    pair.connection.eof_received()
    assert pair.aborted()
    pair.lose()
    assert pair.connection.reason == "the server hung up"


@pytest.mark.parametrize(
    ("said", "refused"),
    [("Authorization Violation", True), ("maximum connections exceeded", False)],
)
async def test_a_complaint_before_the_first_answer(said: str, refused: bool) -> None:
    pair = Pair()
    pair.connection.data_received(INFO + b"-ERR '%b'\r\n" % said.encode())
    pair.connection.connection_lost(OSError("reset"))
    assert pair.owner.told == [said, "closed"]
    assert pair.connection.refused is refused
    assert said in pair.connection.reason
    assert not pair.connection.was_open


async def test_a_finished_connection_ends_when_the_server_has_read_all() -> None:
    pair = Pair()
    await pair.open()
    pair.connection._tick()
    assert await pair.sent() == [b"PING\r\n"]
    pair.connection.send(b"last")
    pair.connection.finish()
    assert not pair.is_open()
    assert await pair.sent() == [b"lastPING\r\n"]
    pair.connection.data_received(b"PONG\r\n")
    assert not pair.aborted()
    pair.connection.data_received(b"PONG\r\n")
    assert pair.aborted()
    pair.lose()


async def test_a_finish_before_the_first_answer_ends_at_once() -> None:
    pair = Pair()
    pair.connection.data_received(INFO)
    pair.connection.finish()
    assert pair.aborted()
    pair.lose()


async def test_silence_ends_a_connection_and_any_byte_is_a_sign_of_life() -> None:
    pair = Pair()
    await pair.open()
    for _ in range(3 * SILENT_INTERVALS):
        for _ in range(SILENT_INTERVALS):
            pair.connection._tick()
        assert b"PING\r\n" in b"".join(await pair.sent())
        pair.connection.data_received(b"M")
        pair.connection.data_received(b"SG a 1 0\r\n\r\n")
    assert not pair.aborted()
    for _ in range(SILENT_INTERVALS + 1):
        pair.connection._tick()
    assert pair.aborted()
    assert "no sign of life" in pair.connection.reason
    pair.lose()


async def test_a_server_that_never_answers_the_greeting_is_given_up() -> None:
    pair = Pair()
    pair.connection.data_received(INFO)
    for _ in range(SILENT_INTERVALS + 1):
        pair.connection.data_received(INFO)
        pair.connection._tick()
    assert pair.aborted()
    pair.lose()
