"""A connection in pieces: however its bytes arrive and end, the answers are the same."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from grid_member.http.wire import connection
from grid_member.http.wire.pieces import Pieces
from tests.unit.member.wire import Wire, once, request

if TYPE_CHECKING:
    from tests.unit.member.running import RunningMember

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"
READY = request("GET", "/grid/health/ready")
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n1;a=b\r\nx\r\n0\r\nX-T: y\r\n\r\n"
END = b"\r\n\r\n"
PADDED = READY[:-2] + b"X-A: " + b"a" * 30_000 + END


def head(method: str, path: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n".encode()


STREAM = b"".join(
    (
        request("POST", f"{MAP}/a", b"\r\n\r\nGET / HTTP/9\r\n\r\n"),
        head("POST", f"{MAP}/b") + CHUNKS,
        head("GET", f"{MAP}/a") + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        head("PUT", f"{MAP}/c") + b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
        b"Content-Length: 3\r\n\r\nabc",
        request("GET", f"{MAP}/b"),
        head("GET", f"{MAP}/%zz") + b"\r\n",
        request("GET", f"{MAP}/c"),
        b"\0 nonsense\r\n\r\n",
    )
)
ANSWERS = [
    (200, b""),
    (200, b""),
    (200, b"\r\n\r\nGET / HTTP/9\r\n\r\n"),
    (200, b""),
    (200, b"\r\n\r\nx"),
    (400, b""),
    (200, b"abc"),
    (400, b""),
]


async def answers(wire: Wire, count: int) -> list[tuple[int, bytes]]:
    return [((reply := await wire.reply()).status, reply.body) for _ in range(count)]


async def test_split_anywhere_it_is_answered_alike(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as other:
        for at in range(len(STREAM)):
            async with await Wire.connect(member.port) as wire:
                wire.send(STREAM[:at])
                # The member has read the first part when it answers on another connection.
                assert (await other.call("GET", "/grid/health/ready")).status == 200
                wire.send(STREAM[at:])
                assert await answers(wire, len(ANSWERS)) == ANSWERS, f"split at {at}"
                assert await wire.ended()


async def test_what_a_chunk_holds_is_not_cut(
    member: RunningMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = (b"x" + END) * (1 << 17)
    starts: list[int] = []

    class Counted(Pieces):
        def end(self, data: bytes, start: int) -> int:
            starts.append(start)
            return super().end(data, start)

    monkeypatch.setattr(connection, "Pieces", Counted)
    async with await Wire.connect(member.port) as wire:
        wire.send(head("POST", f"{MAP}/k") + b"Transfer-Encoding: chunked\r\n\r\n")
        wire.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(value), value))
        assert (await wire.reply()).status == 200
    # A few for every read, and a read is not much smaller than what was sent at once.
    assert len(starts) < 1000
    assert (await once(member.port, "GET", f"{MAP}/k")).body == value


async def test_what_was_right_is_done_however_much_was_behind_it(member: RunningMember) -> None:
    count = 100
    good = b"".join(request("POST", QUEUE, b"%d" % n) for n in range(count))
    async with await Wire.connect(member.port) as wire:
        wire.send(request("DELETE", f"{QUEUE}/1") + good + b"GET / HTTP/3.0\r\n\r\n")
        assert (await wire.reply()).status == 204
        for _ in range(count):
            assert (await wire.reply()).status == 200
        assert (await wire.reply()).status == 400
        assert await wire.ended()
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == b"%d" % count


@pytest.mark.parametrize("upgrade", ["websocket", "h2c"])
async def test_a_flood_behind_a_poll_is_held_back(member: RunningMember, upgrade: str) -> None:
    count = 400
    first = head("DELETE", f"{QUEUE}/60") + b"Connection: Upgrade\r\nUpgrade: "
    async with await Wire.connect(member.port) as wire:
        wire.send(first + upgrade.encode() + END + PADDED * count)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.writer.drain(), 0.3)
        (factory,) = (o.factory for o in member.listeners._open if o.config.users is None)
        (open_one,) = factory.connections
        assert len(open_one._backlog) < 1 << 20  # type: ignore[attr-defined]
        assert len(open_one._messages) <= 64
        assert (await once(member.port, "POST", QUEUE, b"item")).status == 200
        assert (await wire.reply()).body == b"item"
        for _ in range(count):
            assert (await wire.reply()).status == 200


@pytest.mark.parametrize("flooded", [False, True])
@pytest.mark.parametrize("reset", [False, True])
async def test_a_client_that_left_unseen_takes_nothing(
    member: RunningMember, reset: bool, flooded: bool
) -> None:
    # With so much behind the poll, the member does not read on and cannot see the end; it must not
    # be more than its kernel takes, else the end does not get there at all.
    client = socket.create_connection(("127.0.0.1", member.port))
    client.sendall(request("DELETE", f"{QUEUE}/60") + (PADDED * 5 if flooded else b""))
    async with await Wire.connect(member.port) as wire:
        assert (await wire.call("GET", "/grid/health/ready")).status == 200
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        # Sent before the member can have looked at the other connection.
        assert (await wire.call("POST", QUEUE, b"item")).status == 200
        assert (await wire.call("DELETE", f"{QUEUE}/5")).body == b"item"


@pytest.mark.parametrize("count", [1, 3, 50])
async def test_a_client_may_end_its_side_after_its_requests(
    member: RunningMember, count: int
) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(b"".join(request("POST", QUEUE, b"%d" % n) for n in range(count)))
        wire.writer.write_eof()
        for _ in range(count):
            assert (await wire.reply()).status == 200
        assert await wire.ended()
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == b"%d" % count


async def test_a_client_that_ends_its_side_gets_a_slow_answer_whole(member: RunningMember) -> None:
    large = bytes(8 << 20)
    await once(member.port, "POST", f"{MAP}/k", large)
    async with await Wire.connect(member.port) as wire:
        wire.send(request("GET", f"{MAP}/k"))
        wire.writer.write_eof()
        assert (await wire.reply()).body == large
        assert await wire.ended()


@pytest.mark.parametrize(
    "lines", [b"Content-Length: 5\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc"]
)
async def test_a_body_cut_short_is_refused(member: RunningMember, lines: bytes) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(head("POST", f"{MAP}/k") + lines)
        wire.writer.write_eof()
        assert (await wire.reply()).status == 400
        assert await wire.ended()
    assert (await once(member.port, "GET", f"{MAP}/k")).status == 204


async def test_a_poll_whose_client_sends_no_more_takes_nothing(
    member: RunningMember, caplog: pytest.LogCaptureFixture
) -> None:
    await once(member.port, "POST", QUEUE, b"item")
    for before in (b"", READY * 3):
        async with await Wire.connect(member.port) as wire:
            wire.send(before + request("DELETE", f"{QUEUE}/60") + READY)
            wire.writer.write_eof()
            for _ in range(before.count(END)):
                assert (await wire.reply()).status == 200
            rest = await asyncio.wait_for(wire.reader.read(), 20)
            assert rest == b"", "whoever sends no more has left: there is nothing to answer"
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == b"1"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\0" * (4 << 20), 400),
        (b"GET /" + b"p" * (4 << 20), 414),
        (head("GET", "/") + b"X-A: " + b"a" * (4 << 20), 431),
    ],
    ids=["garbage", "request line", "header"],
)
async def test_a_client_that_sends_on_can_read_its_refusal(
    member: RunningMember, data: bytes, status: int
) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(data)
        await wire.writer.drain()
        wire.send(data)
        reply = await wire.reply()
        assert (reply.status, reply.header("Connection")) == (status, "close")
        assert await wire.ended()
