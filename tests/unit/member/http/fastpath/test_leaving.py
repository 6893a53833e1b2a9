"""Items whose clients leave at the worst moment, and a member that stops in the middle."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Item
from grid_member.engine.leasehold import LATE, steady_s
from grid_member.http.wire.watch import LostClients
from tests.unit.member.http.fastpath.peers import Peer, ask, cut, request, turns
from tests.unit.member.http.fastpath.scripts import OK, read
from tests.unit.member.http.fastpath.test_clients import (
    MAP,
    POLL,
    SIZE,
    WAIT,
    alone,
    get,
    offer,
    put,
    remaining,
    small_buffers,
)
from tests.unit.waiting import until

if TYPE_CHECKING:
    from grid_member.engine.api import Done, Poll, Refused
    from tests.unit.member.running import RunningMember

VALUE_BYTES = 8 << 20
"""More than the kernel takes for a client that does not read."""


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("waits", [False, True])
async def test_the_client_leaves_as_its_item_comes(
    one: RunningMember, monkeypatch: pytest.MonkeyPatch, resets: bool, waits: bool
) -> None:
    """The member has not read yet that it has left."""
    plain = socket.create_connection(("127.0.0.1", one.port))
    if resets:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    poll = one.engine.queue_poll

    def queue_poll(name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        def leave(result: Item | Refused | None) -> None:
            plain.close()
            done(result)

        return poll(name, timeout_s, leave)

    monkeypatch.setattr(one.engine, "queue_poll", queue_poll)
    if not waits:
        assert read(await ask(one, offer(b"item"))) == OK
    plain.sendall(WAIT)
    await turns()
    if waits:
        assert read(await ask(one, offer(b"item"))) == OK
    await until(lambda: plain.fileno() < 0)
    await alone(one)
    monkeypatch.undo()
    assert read(await ask(one, request(f"DELETE {MAP}/nothing"))) == OK
    assert await remaining(one) == [b"item"]


async def test_an_item_goes_back_when_nobody_can_tell_who_is_there(
    pair: tuple[RunningMember, RunningMember],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, _ = pair

    def follow(self: LostClients, transport: asyncio.BaseTransport) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LostClients, "follow", follow)
    assert read(await ask(one, offer(b"item"))) == OK
    async with await Peer.connect(one.port) as peer:
        peer.send(POLL)
        assert await peer.to_end() == b""
    assert "nobody can tell whether a client is there" in caplog.text
    monkeypatch.undo()
    assert read(await ask(one, WAIT))[1] == b"item"  # once its return is in the log


async def test_an_item_that_somebody_else_may_have_is_not_written(
    one: RunningMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member stood still right before it would have been written."""
    poll = one.engine.queue_poll

    def queue_poll(name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        def late(result: Item | Refused | None) -> None:
            assert isinstance(result, Item)
            result.until_s = steady_s()
            done(result)

        return poll(name, timeout_s, late)

    assert read(await ask(one, offer(b"item"))) == OK
    monkeypatch.setattr(one.engine, "queue_poll", queue_poll)
    answer = await ask(one, POLL)
    assert answer.startswith(b"HTTP/1.1 503")
    assert LATE.message.encode() in answer
    await alone(one)
    monkeypatch.undo()
    assert read(await ask(one, request(f"DELETE {MAP}/nothing"))) == OK
    assert await remaining(one) == [b"item"]


async def test_an_item_half_sent_goes_back_to_the_head(one: RunningMember) -> None:
    items = [bytes(VALUE_BYTES), b"second", b"third"]
    async with await Peer.connect(one.port) as peer:
        for item in items:
            assert read(await peer.ask(offer(item))) == OK
    plain = small_buffers(one.port)
    await asyncio.get_running_loop().sock_sendall(plain, POLL * 3)
    async with asyncio.timeout(20):
        while read(await ask(one, SIZE))[1] == b"3":
            await turns()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()
    await alone(one)
    assert read(await ask(one, request(f"DELETE {MAP}/nothing"))) == OK
    assert await remaining(one) == items


@pytest.mark.parametrize("before", [[], [put("other", b"1"), get("other")]])
async def test_a_stop_in_the_middle_of_a_body(one: RunningMember, before: list[bytes]) -> None:
    """What has begun to come is answered, as the last, when the rest comes in time."""
    data = put("k", b"0123456789")
    first, second = cut(data, [len(data) - 4])
    async with await Peer.connect(one.port) as peer:
        await peer.send_pieces([b"".join([*before, first])])
        for _ in before:
            await peer.answer()
        one.member.request_stop()
        closing = asyncio.create_task(one.listeners.close(20))
        await turns()
        peer.send(second)
        answer = await peer.answer()
        assert (read(answer), b"\r\nConnection: close\r\n" in answer) == (OK, True)
        assert await peer.to_end() == b""
    await closing
    stored = one.engine.map_peek("default", "k")
    assert stored in (b"0123456789", (b"0123456789", None))


@pytest.mark.parametrize("behind", [b"", get("k")], ids=["nothing", "a read"])
async def test_a_poll_that_waits_ends_with_the_member(one: RunningMember, behind: bytes) -> None:
    async with await Peer.connect(one.port) as peer:
        peer.send(put("k", b"v") + WAIT + behind)
        assert read(await peer.answer()) == OK
        await turns()
        one.member.request_stop()
        closing = asyncio.create_task(one.listeners.close(20))
        await one.engine.stop()
        found = await peer.to_end()
    await closing
    assert found.startswith(b"HTTP/1.1 204 ")
    assert found.endswith(b"\r\nConnection: close\r\n\r\n")
    assert found.count(b"\r\nConnection: close\r\n") == 1
