"""How long the member waits for heads and bodies, and how many bytes of bodies it holds."""

from __future__ import annotations

import asyncio
import base64
import gc
import socket
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from grid_member.config.model.member import HttpConfig, Limits
from grid_member.http.wire.connection import ConnectionProtocol
from grid_member.http.wire.uploads import Uploads
from tests.unit.member.http.routes.test_polls import in_progress
from tests.unit.member.wire import Wire, once, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.member.running import RunningMember
    from tests.unit.member.wire import Reply

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"
PUT = f"POST {MAP}/k HTTP/1.1\r\nHost: a\r\n".encode()
CHUNKED = PUT + b"Transfer-Encoding: chunked\r\n\r\n"
GET = request("GET", f"{MAP}/k")
HEAD_PATIENCE_S = HttpConfig().head_timeout_s
BODY_PATIENCE_S = HttpConfig().body_timeout_s
FOREVER = 10_000_000
BUDGET_BYTES = 100_000
BARELY_S = 1.0
STATE = "/grid/rest/management/cluster/state"
OPERATOR = {"Authorization": "Basic " + base64.b64encode(b"op:s3cret").decode()}


class Clock:
    """The time of the loop, which can be put forward."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.time = loop.time
        self.ahead_s = 0.0

    def now(self) -> float:
        return self.time() + self.ahead_s


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    loop = asyncio.get_running_loop()
    clock = Clock(loop)
    monkeypatch.setattr(loop, "time", clock.now)
    return clock


async def seen(member: RunningMember) -> None:
    """Return when the member has read what was sent before, and done what was due."""
    for _ in range(2):
        assert (await once(member.port, "GET", "/grid/health/ready")).status == 200


async def wait(member: RunningMember, clock: Clock, seconds: float) -> None:
    await seen(member)
    clock.ahead_s += seconds
    await seen(member)


def refused(reply: Reply, status: int) -> None:
    assert (reply.status, reply.body, reply.header("Connection")) == (status, b"", "close")
    assert reply.header("X-Grid-Error")
    assert (reply.header("Retry-After") is not None) == (status == 503)


@pytest.mark.parametrize("begun", [b"G", b"\r\n\r\nGET", GET[:-1], GET + GET[:-3]])
async def test_a_head_that_does_not_end_is_408(
    member: RunningMember, clock: Clock, begun: bytes
) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(begun)
        await wait(member, clock, HEAD_PATIENCE_S + BARELY_S)
        if begun.startswith(GET):
            assert (await wire.reply()).status == 204
        refused(await wire.reply(), 408)
        assert await wire.ended()


async def test_every_head_has_its_own_time(member: RunningMember, clock: Clock) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(GET[:5])
        for _ in range(3):
            await wait(member, clock, HEAD_PATIENCE_S - BARELY_S)
            wire.send(GET[5:] + GET[:5])
            assert (await wire.reply()).status == 204


BODIES = {
    "length": (PUT + b"Content-Length: 3\r\n\r\n", b"a", b"b", b"c"),
    "chunks": (CHUNKED, b"1\r\na\r\n1\r\n", b"b\r\n1\r\n", b"c\r\n0\r\n\r\n"),
    "expecting": (
        PUT + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        b"a",
        b"b",
        b"c",
    ),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_may_be_slow(member: RunningMember, clock: Clock, name: str) -> None:
    async with await Wire.connect(member.port) as wire:
        for part in BODIES[name]:
            wire.send(part)
            await wait(member, clock, BODY_PATIENCE_S - BARELY_S)
        if name == "expecting":
            assert (await wire.reply()).status == 100
        assert (await wire.reply()).status == 200
        assert (await wire.call("GET", f"{MAP}/k")).body == b"abc"


@pytest.mark.parametrize(
    "begun",
    [
        PUT + b"Content-Length: 3\r\n\r\n",
        PUT + b"Content-Length: 3\r\n\r\nab",
        CHUNKED + b"3\r\nab",
        CHUNKED + b"3\r\nabc\r\n0\r\nX-A: b\r\n",
        # Not a byte of the body comes.
        CHUNKED + b"3;endless",
    ],
)
async def test_a_body_that_stands_still_is_408(
    member: RunningMember, clock: Clock, begun: bytes
) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(begun)
        await wait(member, clock, BODY_PATIENCE_S - BARELY_S)
        if begun.endswith(b"endless"):
            wire.send(b"endless")
        await wait(member, clock, 2 * BARELY_S)
        refused(await wire.reply(), 408)
        assert await wire.ended()
    assert (await once(member.port, "GET", f"{MAP}/k")).status == 204
    assert member.listeners.uploads("rest").held_bytes == 0


@pytest.mark.parametrize("sent", [b"", GET, GET + b"\r\n"])
async def test_an_idle_connection_stays(member: RunningMember, clock: Clock, sent: bytes) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(sent)
        if sent:
            assert (await wire.reply()).status == 204
        await wait(member, clock, 50 * HEAD_PATIENCE_S)
        assert (await wire.call("GET", f"{MAP}/k")).status == 204


async def test_a_waiting_poll_waits_on(member: RunningMember, clock: Clock) -> None:
    poll = request("DELETE", f"{QUEUE}/{FOREVER}")
    body = PUT + b"Content-Length: 3\r\n\r\na"
    trailers = CHUNKED + b"3\r\nabc\r\n0\r\nX-A"
    wires = [await Wire.connect(member.port) for _ in range(4)]
    for wire, behind in zip(wires, (b"", body, trailers, GET[:9]), strict=True):
        wire.send(poll + behind)
    await until(lambda: in_progress(member) == len(wires))
    await wait(member, clock, 50 * BODY_PATIENCE_S)
    assert in_progress(member) == len(wires)
    for wire in wires:
        assert (await once(member.port, "POST", QUEUE, b"item")).status == 200
        assert (await wire.reply()).body == b"item"
    # The body was not waited for before it was its turn; the head was.
    for wire, rest in zip(wires[1:3], (b"bc", b": b\r\n\r\n"), strict=True):
        wire.send(rest)
        assert (await wire.reply()).status == 200
    refused(await wires[3].reply(), 408)
    for wire in wires:
        await wire.close()


async def test_the_bodies_of_a_listener_share_a_budget(member: RunningMember) -> None:
    ports = {"rest": member.port, "management": member.management_port}
    for kind, port in ports.items():
        uploads = member.listeners.uploads(kind)
        uploads.limit_bytes = BUDGET_BYTES
        value = b"v" * (BUDGET_BYTES - 1)
        path, small = (f"{MAP}/a", b"small") if kind == "rest" else (STATE, b"dev&")
        async with await Wire.connect(port) as first, await Wire.connect(port) as second:
            first.send(request("POST", path, value, **OPERATOR)[:-1])
            await until(lambda held=uploads: held.held_bytes == BUDGET_BYTES - 2)  # type: ignore[misc]
            second.send(request("POST", path, small, **OPERATOR)[:-1])
            refused(await second.reply(), 503)
            assert await second.ended()
            first.send(b"v")
            assert (await first.reply()).status == (200 if kind == "rest" else 400)
        assert uploads.held_bytes == 0
        assert (await once(port, "POST", path, small, **OPERATOR)).status == 200


async def test_bodies_on_the_data_port_leave_the_management_port_its_own(
    member: RunningMember,
) -> None:
    uploads = member.listeners.uploads("rest")
    uploads.limit_bytes = BUDGET_BYTES
    value = b"v" * BUDGET_BYTES
    async with await Wire.connect(member.port) as wire:
        wire.send(request("POST", f"{MAP}/a", value)[:-1])
        await until(lambda: uploads.held_bytes == BUDGET_BYTES - 1)
        async with await Wire.connect(member.port) as other:
            other.send(request("POST", f"{MAP}/b", b"more")[:-1])
            refused(await other.reply(), 503)
        reply = await once(member.management_port, "POST", STATE, b"dev&", **OPERATOR)
        assert reply.json == {"status": "success", "state": "active"}
        assert uploads.held_bytes == BUDGET_BYTES - 1
        wire.send(b"v")
        assert (await wire.reply()).status == 200


def test_the_budget_is_enough_for_many_of_the_largest_values() -> None:
    assert Uploads().limit_bytes >= 8 * Limits().value_bytes


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is freed that others do not let go."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


REFUSED = {"malformed": (b"nonsense\r\n", 400), "too large": (b"\r\n1\r\nx", 413)}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("how", ["end", "half-close", "reset", "malformed", "too large"])
async def test_of_a_body_cut_short_nothing_stays(member: RunningMember, how: str) -> None:
    large = bytes(8 << 20)
    uploads = member.listeners.uploads("rest")
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(3):
        async with await Wire.connect(member.port) as wire:
            wire.send(CHUNKED + b"%x\r\n" % len(large) + large)
            await until(lambda: uploads.held_bytes == len(large))
            if how == "half-close":
                wire.writer.write_eof()
            elif how == "reset":
                plain: socket.socket = wire.writer.get_extra_info("socket")
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                wire.writer.transport.abort()
            elif how != "end":
                rest, status = REFUSED[how]
                wire.send(rest)
                assert (await wire.reply()).status == status
        await until(lambda: member.listeners.counts().total == 0)
        assert uploads.held_bytes == 0
    after, _ = tracemalloc.get_traced_memory()
    assert after - before < 1 << 20
    assert not any(isinstance(kept, ConnectionProtocol) for kept in gc.get_objects())


@pytest.mark.usefixtures("uncollected")
async def test_of_a_malformed_request_nothing_stays(member: RunningMember) -> None:
    async with await Wire.connect(member.port) as wire:
        wire.send(b"nonsense" + bytes(1 << 17))
        refused(await wire.reply(), 400)
    await until(lambda: member.listeners.counts().total == 0)
    assert not any(isinstance(kept, ConnectionProtocol) for kept in gc.get_objects())
