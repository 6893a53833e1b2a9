"""Too many connections, and clients that are idle or do not read: inside this process."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import TYPE_CHECKING

import pytest

from grid_member.http.fastpath.connection import FastPathConnection
from grid_member.http.server.admission import SPARE_CONNECTIONS, Admission, Room, room
from grid_member.http.wire.connection import CROWDED_PATIENCE_S
from grid_member.telemetry.logs import JsonLines
from tests.unit.member.http.routes.test_polls import connections
from tests.unit.member.http.wire.test_patience import BARELY_S, Clock, clock, refused, seen
from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire, once, request
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.unit.member.running import RunningMember
    from tests.unit.member.wire import Reply

    Limited = Callable[[str], Awaitable[RunningMember]]

__all__ = ["clock"]

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"
PROBES = ("/grid/health/ready", "/grid/health/node-state")
LARGE = bytes(8 << 20)
WRITE_S = 7
IDLE_S = 9
FEW = 3
RESERVE = SPARE_CONNECTIONS // 4


@pytest.fixture(params=[True, False], ids=["fast-path", "no-fast-path"])
async def limited(
    request: pytest.FixtureRequest, start_member: Callable[..., RunningMember]
) -> Limited:
    """Give a function that starts a member with these settings of `http`, fast path on and off."""

    async def start(settings: str) -> RunningMember:
        fast_path = str(request.param).lower()
        text = configuration(extra=f"  http: {{lane: {{enabled: {fast_path}}}, {settings}}}\n")
        return await start_member(text).start()

    return start


@pytest.fixture
async def crowded(limited: Limited) -> RunningMember:
    """A member that takes three connections."""
    return await limited(f"max-connections: {FEW}")


async def connected(port: int, count: int) -> list[Wire]:
    return [await Wire.connect(port) for _ in range(count)]


async def left(wires: list[Wire]) -> None:
    for wire in wires:
        await wire.close()


def told(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, object]]:
    lines = [json.loads(JsonLines().format(r)) for r in caplog.records]
    return [line for line in lines if line["message"] == message]


def too_many(reply: Reply, limit: int = FEW) -> None:
    refused(reply, 503)
    assert reply.header("X-Grid-Error") == (
        f"too many connections: http.max-connections is {limit}"
    )
    assert reply.header("Retry-After") == "1"


# Maximum connections


async def test_as_many_as_there_may_be_are_served(crowded: RunningMember) -> None:
    wires = await connected(crowded.port, FEW)
    for wire in wires:
        assert (await wire.call("GET", f"{MAP}/k")).status == 204
    too_many(await once(crowded.port, "GET", f"{MAP}/k"))
    for wire in wires:
        assert (await wire.call("POST", f"{MAP}/k", b"v")).status == 200
    await left(wires)
    await until(lambda: crowded.listeners.counts().total == 0)
    assert (await once(crowded.port, "GET", f"{MAP}/k")).body == b"v"


async def test_many_that_come_at_the_same_moment_are_counted(crowded: RunningMember) -> None:
    async def ask() -> int:
        # Those that are served stay until all have an answer.
        wire = await Wire.connect(crowded.port)
        status = (await wire.call("GET", f"{MAP}/k")).status
        asked.append(wire)
        await until(lambda: len(asked) == count)
        await wire.close()
        return status

    count = RESERVE // 2
    asked: list[Wire] = []
    statuses = await asyncio.gather(*(ask() for _ in range(count)))
    assert sorted(statuses) == [204] * FEW + [503] * (count - FEW)


async def test_a_probe_is_answered_though_it_is_one_too_many(crowded: RunningMember) -> None:
    wires = await connected(crowded.port, FEW)
    for path in PROBES:
        reply = await once(crowded.port, "GET", path)
        assert (reply.status, reply.header("Connection")) == (200, "close")
    for method, path in (("GET", "/grid/health"), ("POST", f"{MAP}/k"), ("GET", "/grid/%zz")):
        too_many(await once(crowded.port, method, path))
    too_many(await once(crowded.port, "POST", PROBES[0], b"body"))
    assert (await wires[0].call("GET", f"{MAP}/k")).status == 204
    await left(wires)


async def test_listeners_have_connections_of_their_own(crowded: RunningMember) -> None:
    wires = await connected(crowded.port, FEW)
    more = await connected(crowded.management_port, FEW)
    assert (await more[0].call("GET", "/grid/rest/instance")).status == 401
    too_many(await once(crowded.management_port, "GET", "/grid/rest/instance"))
    assert (await once(crowded.management_port, "GET", PROBES[0])).status == 200
    await left([*wires, *more])


async def test_when_even_the_reserve_is_full_it_is_said_at_once(crowded: RunningMember) -> None:
    wires = await connected(crowded.port, FEW + RESERVE)
    async with await Wire.connect(crowded.port) as wire:
        too_many(await wire.reply())
        assert await wire.ended()
    # One that is sending a lot reads it as well.
    async with await Wire.connect(crowded.port) as wire:
        wire.send(request("POST", f"{MAP}/k", LARGE))
        too_many(await wire.reply())
    await left(wires)


async def test_refused_ones_that_stay_are_cut(crowded: RunningMember, clock: Clock) -> None:
    wires = await connected(crowded.port, FEW + RESERVE)
    staying = await connected(crowded.port, 2 * RESERVE)
    for wire in staying:
        too_many(await wire.reply())
        assert await wire.ended()
    parting = crowded.listeners._open[0].factory.admission.parting
    assert len(parting) == RESERVE
    clock.ahead_s += 10
    await until(lambda: len(parting) == 0)
    await left([*wires, *staying])


async def test_one_too_many_that_says_nothing_is_waited_for_shortly(
    crowded: RunningMember, clock: Clock
) -> None:
    wires = await connected(crowded.port, FEW)
    silent, begun = await connected(crowded.port, 2)
    begun.send(b"GET /grid/health/ready HTTP/1.1\r\n")
    await until(lambda: crowded.listeners.counts().clients == FEW + 2)
    clock.ahead_s += CROWDED_PATIENCE_S + BARELY_S
    for wire in (silent, begun):
        too_many(await wire.reply())
        assert await wire.ended()
        await wire.close()
    for wire in wires:
        assert (await wire.call("GET", f"{MAP}/k")).status == 204
    await left(wires)


async def test_the_log_tells_of_refusals_ever_more_seldom(
    crowded: RunningMember, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    wires = await connected(crowded.port, FEW)
    for _ in range(20):
        too_many(await once(crowded.port, "GET", f"{MAP}/k"))
    lines = told(caplog, "too many connections: refused")
    assert [line["refused"] for line in lines] == [1, 2, 4, 8, 16]
    assert {(line["level"], line["listener"], line["max_connections"]) for line in lines} == {
        ("warning", "rest", FEW)
    }
    assert [figures.refused_count for figures in crowded.listeners.figures()] == [20, 0]
    await left(wires)


# Room


def test_with_files_enough_there_is_room_for_all() -> None:
    for files in (None, 1 << 20):
        assert room(10_000, files, 3) == Room(10_000, 64, 64, 16)


@pytest.mark.parametrize("listeners", [1, 2, 3])
@pytest.mark.parametrize("files", [128, 160, 256, 1024, 4096, 20_000])
def test_files_are_kept_free_for_the_store_and_the_log(files: int, listeners: int) -> None:
    found = room(10_000, files, listeners)
    just_accepted = 4 * found.accepted_at_once
    taken = found.connections + found.probes + found.parting + just_accepted
    assert taken * listeners <= files - 64
    assert 1 <= found.connections <= 10_000
    assert found.probes >= 1


def test_however_few_files_there_are_somebody_is_served() -> None:
    assert room(10_000, 0, 3).connections == 1


def test_refusing_names_the_number_that_holds() -> None:
    answer = Admission(Room(24, 6, 6, 1), "rest").refuse()
    assert ("X-Grid-Error", "too many connections: http.max-connections is 24") in answer.headers


# Idle connections


def timers() -> int:
    """Count what the loop will do later on."""
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return sum(not handle.cancelled() for handle in scheduled)


async def test_idle_connections_have_no_timers(limited: Limited) -> None:
    member = await limited("max-connections: 99")
    wires = await connected(member.port, 1)
    assert (await wires[0].call("GET", PROBES[0])).status == 200
    one = timers()
    wires += await connected(member.port, 40)
    for n, wire in enumerate(wires):
        path = (f"{MAP}/k", PROBES[0])[n % 2]
        assert (await wire.call("GET", path)).status in (200, 204)
        wire.send(b"GET /")
    await seen(member)
    # Some belong to the member, and may just be due.
    await until(lambda: timers() <= one + 2)
    await until(lambda: member.listeners.counts().clients == len(wires))
    await left(wires)


async def test_a_client_whose_machine_is_gone_is_noticed(limited: Limited) -> None:
    member = await limited("max-connections: 9")
    wires = await connected(member.port, 2)
    assert (await wires[0].call("GET", f"{MAP}/k")).status == 204
    assert (await wires[1].call("GET", PROBES[0])).status == 200
    for one in connections(member):
        transport = one._transport if isinstance(one, FastPathConnection) else one.transport
        assert transport is not None
        plain = transport.get_extra_info("socket")
        assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    await left(wires)


async def test_an_idle_connection_ends_after_its_time(limited: Limited, clock: Clock) -> None:
    member = await limited(f"idle-timeout-seconds: {IDLE_S}")
    fresh, used, blank, other = await connected(member.port, 4)
    assert (await used.call("GET", f"{MAP}/k")).status == 204
    assert (await other.call("GET", PROBES[0])).status == 200
    blank.send(b"\r\n")
    polling = await Wire.connect(member.port)
    polling.send(request("DELETE", f"{QUEUE}/60000"))
    await seen(member)
    clock.ahead_s += IDLE_S - BARELY_S
    await seen(member)
    assert (await used.call("GET", f"{MAP}/k")).status == 204
    clock.ahead_s += 2 * BARELY_S
    for wire in (fresh, blank, other):
        assert await wire.ended()
    assert (await used.call("POST", QUEUE, b"item")).status == 200
    assert (await polling.reply()).body == b"item"
    await left([fresh, used, blank, other, polling])


# Clients that do not read


async def deaf(port: int, sent: bytes) -> socket.socket:
    """Connect and send, with little room for what is answered."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    await loop.sock_sendall(client, sent)
    return client


async def read(client: socket.socket, count: int) -> bytes:
    """Read so many bytes."""
    got = bytearray()
    while len(got) < count:
        data = await asyncio.get_running_loop().sock_recv(client, min(1 << 16, count - len(got)))
        assert data, "cut off"
        got += data
    return bytes(got)


async def later(member: RunningMember, clock: Clock, seconds: float) -> None:
    clock.ahead_s += seconds
    await seen(member)


async def test_a_client_that_reads_nothing_is_cut_off(
    limited: Limited, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    member = await limited(f"write-timeout-seconds: {WRITE_S}")
    assert (await once(member.port, "POST", f"{MAP}/k", LARGE)).status == 200
    client = await deaf(member.port, request("GET", f"{MAP}/k") * 3)
    await seen(member)
    await until(lambda: member.listeners.counts().clients == 1)
    await later(member, clock, BARELY_S)
    await later(member, clock, WRITE_S - BARELY_S / 2)
    await until(lambda: member.listeners.counts().clients == 1)
    assert told(caplog, "client does not read its answer") == []
    await later(member, clock, 2 * BARELY_S)
    await until(lambda: member.listeners.counts().clients == 0)
    (line,) = told(caplog, "client does not read its answer")
    assert (line["level"], line["remote"]) == ("info", "127.0.0.1")
    client.close()


async def test_an_item_that_is_not_read_goes_back(limited: Limited, clock: Clock) -> None:
    member = await limited(f"write-timeout-seconds: {WRITE_S}")
    for item in (LARGE, b"second"):
        assert (await once(member.port, "POST", QUEUE, item)).status == 200
    client = await deaf(member.port, request("DELETE", f"{QUEUE}/60"))
    await seen(member)
    await later(member, clock, BARELY_S)
    assert (await once(member.port, "GET", f"{QUEUE}/size")).body == b"1"
    await later(member, clock, WRITE_S + BARELY_S)
    await until(lambda: member.listeners.counts().clients == 0)
    assert (await once(member.port, "DELETE", f"{QUEUE}/0")).body == LARGE
    assert (await once(member.port, "DELETE", f"{QUEUE}/0")).body == b"second"
    client.close()


async def test_a_client_that_reads_slowly_gets_everything(limited: Limited, clock: Clock) -> None:
    member = await limited(f"write-timeout-seconds: {WRITE_S}")
    assert (await once(member.port, "POST", f"{MAP}/k", LARGE)).status == 200
    client = await deaf(member.port, request("GET", f"{MAP}/k"))
    await seen(member)
    got = await read(client, 1 << 20)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    for _ in range(6):
        await later(member, clock, WRITE_S - BARELY_S)
        body += await read(client, 1 << 20)
    assert body + await read(client, len(LARGE) - len(body)) == LARGE
    client.close()
