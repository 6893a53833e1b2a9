"""Waiting polls: many at once, clients that leave, and the stop of the member."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.http.fastpath.connection import FastPathConnection
from grid_member.http.routes import data
from grid_member.http.wire.connection import ConnectionProtocol
from tests.unit.member.wire import Wire, once, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from grid_member.engine.api import Done, Engine, Item, Poll, Refused
    from tests.unit.member.running import RunningMember

QUEUE = "/grid/rest/queues/default"
BASE = "/grid/rest/management/cluster"


def connections(member: RunningMember) -> list[ConnectionProtocol | FastPathConnection]:
    """Return those that are open, of every listener."""
    found = [one for opened in member.listeners._open for one in opened.factory.context.watch]
    return [one for one in found if isinstance(one, ConnectionProtocol | FastPathConnection)]


def in_progress(member: RunningMember) -> int:
    """Count the connections that have a request in work."""
    return sum(
        one._pending > 0
        if isinstance(one, FastPathConnection)
        else one._current_request is not None
        for one in connections(member)
    )


def stalled(member: RunningMember) -> bool:
    """Tell whether an answer waits for the kernel to take more of it."""
    return any(
        one._unread is not None if isinstance(one, FastPathConnection) else one.writing_paused
        for one in connections(member)
    )


async def waiting(member: RunningMember, count: int, seconds: int = 60) -> list[Wire]:
    wires = [await Wire.connect(member.port) for _ in range(count)]
    for wire in wires:
        wire.send(request("DELETE", f"{QUEUE}/{seconds}"))
    await until(lambda: in_progress(member) == count)
    return wires


async def test_a_thousand_waiting_polls_disturb_nobody(member: RunningMember) -> None:
    count = 1000
    wires = await waiting(member, count)
    assert (await once(member.port, "GET", "/grid/health/ready")).status == 200
    async with await Wire.connect(member.port) as producer:
        for n in range(count):
            assert (await producer.call("POST", QUEUE, b"%d" % n)).status == 200
    replies = await asyncio.gather(*(wire.reply() for wire in wires))
    assert sorted(int(reply.body) for reply in replies) == list(range(count))
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == b"0"
    await asyncio.gather(*(wire.close() for wire in wires))


async def test_a_client_that_left_takes_nothing(member: RunningMember) -> None:
    for reset in (False, True):
        (wire,) = await waiting(member, 1)
        if reset:
            plain: socket.socket = wire.writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await wire.close()
        await until(lambda: in_progress(member) == 0)
        assert (await once(member.port, "POST", QUEUE, b"item")).status == 200
        assert (await once(member.port, "DELETE", f"{QUEUE}/0")).body == b"item"


async def test_an_item_only_half_sent_goes_back_to_the_head(member: RunningMember) -> None:
    large = bytes(8 << 20)
    for item in (large, b"second"):
        assert (await once(member.port, "POST", QUEUE, item)).status == 200
    plain = socket.create_connection(("127.0.0.1", member.port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.sendall(request("DELETE", f"{QUEUE}/0"))
    await until(lambda: stalled(member))
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == b"1"
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()
    await until(lambda: member.listeners.counts().clients == 0)
    assert (await once(member.port, "DELETE", f"{QUEUE}/0")).body == large
    assert (await once(member.port, "DELETE", f"{QUEUE}/0")).body == b"second"


async def test_a_slow_client_gets_its_item_once(member: RunningMember) -> None:
    large = bytes(8 << 20)
    await once(member.port, "POST", QUEUE, large)
    async with await Wire.connect(member.port) as wire:
        wire.send(request("DELETE", f"{QUEUE}/0"))
        await until(lambda: stalled(member))
        assert (await wire.reply()).body == large
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == b"0"
    assert (await once(member.port, "DELETE", f"{QUEUE}/0")).status == 204


@dataclass
class Leaving:
    """An engine whose client leaves the moment its poll is answered, or right before that."""

    engine: Engine
    unseen: bool
    task: asyncio.Task[object] | None = None

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        def answered(result: Item | Refused | None) -> None:
            assert self.task is not None
            if self.unseen:
                done(result)
                self.task.cancel()
                return
            self.task.cancel()
            done(result)

        return self.engine.queue_poll(name, timeout_s, answered)

    def queue_return(self, item: Item) -> None:
        self.engine.queue_return(item)


@pytest.mark.parametrize("unseen", [True, False])
@pytest.mark.parametrize("item", [b"item", None])
async def test_an_item_that_came_as_the_client_left_goes_back(
    member: RunningMember, unseen: bool, item: bytes | None
) -> None:
    leaving = Leaving(member.engine, unseen)
    polled = data._poll(cast("Engine", leaving), "default", 60 if item else 0.001)
    leaving.task = asyncio.create_task(polled)
    await asyncio.sleep(0)
    if item is not None:
        assert (await once(member.port, "POST", QUEUE, item)).status == 200
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(leaving.task, 20)
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == (b"1" if item else b"0")
    assert (await once(member.port, "DELETE", f"{QUEUE}/0")).body == (item or b"")


async def test_stop_ends_polls_with_204_and_refuses_what_is_new(member: RunningMember) -> None:
    wires = await waiting(member, 20)
    other = await Wire.connect(member.port)
    assert (await other.call("GET", "/grid/health/ready")).status == 200
    member.member.request_stop()
    assert (await other.call("GET", "/grid/health/ready")).status == 503
    await member.stop()
    for wire in wires:
        reply = await wire.reply()
        assert (reply.status, reply.header("Connection")) == (204, "close")
        assert await wire.ended()
        await wire.close()
    await other.close()


async def test_shutdown_over_rest_answers_first(member: RunningMember) -> None:
    reply = await once(member.port, "POST", f"{BASE}/memberShutdown", b"dev&")
    assert (reply.status, reply.body) == (200, b'{"status":"success"}')
    await asyncio.wait_for(member.member.wait_for_stop(), 10)
    assert (await once(member.port, "GET", "/grid/health/ready")).status == 503
    assert (await once(member.port, "GET", "/grid/health/node-state")).body == b'"PASSIVE"'
    assert (await once(member.port, "POST", f"{BASE}/memberShutdown", b"dev&")).status == 409
