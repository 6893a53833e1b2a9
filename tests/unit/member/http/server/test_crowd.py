"""Thousands of clients at one `grid-member` process, and values as large as they may be."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.running import configuration
from tests.unit.member.wire import Wire, once, request
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.member.running import MemberProcess

    Start = Callable[..., MemberProcess]

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"
LIMIT_BYTES = 8 << 20
POLLS = 5000
FEW_FILES = 256
AT_ONCE = 500
LEAVING = ("close", "reset", "half-close")
POLL = request("DELETE", f"{QUEUE}/120")


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process open as many connections as the tests need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def port(member_process: Start) -> int:
    """The port of a member that was started with few files allowed."""
    few_files = ("sh", "-c", f'ulimit -S -n {FEW_FILES}; exec "$@"', "sh")
    process = member_process(configuration(), before=few_files)
    process.wait_for("ready")
    return process.port


async def open_connections(port: int) -> int | None:
    """Return how many there are, None when this one is one too many."""
    reply = await once(port, "GET", "/grid/rest/cluster")
    return int(reply.json["connectionCount"]) - 1 if reply.status == 200 else None


async def until_open(port: int, count: int) -> None:
    async def so_many() -> bool:
        return await open_connections(port) == count

    await eventually(so_many)


async def waiting(port: int, count: int) -> list[Wire]:
    """Open connections and send a poll on each; the member has read them all in the end."""
    wires: list[Wire] = []
    while len(wires) < count:
        more = min(AT_ONCE, count - len(wires))
        wires += await asyncio.gather(*(Wire.connect(port) for _ in range(more)))
    for wire in wires:
        wire.send(POLL)
    await until_open(port, count)
    return wires


def leave(wire: Wire, how: str) -> None:
    plain: socket.socket = wire.writer.get_extra_info("socket")
    if how == "half-close":
        wire.writer.write_eof()
        return
    if how == "reset":
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.writer.close()


async def offer(port: int, count: int) -> None:
    async with await Wire.connect(port) as producer:
        for start in range(0, count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, count))
            producer.send(b"".join(request("POST", QUEUE, b"%d" % n) for n in numbers))
            for _ in numbers:
                assert (await producer.reply()).status == 200


@pytest.mark.usefixtures("many_files")
async def test_five_thousand_polls_wait_and_each_gets_one_item(port: int) -> None:
    wires = await waiting(port, POLLS)
    async with await Wire.connect(port) as probe:
        for _ in range(20):
            async with asyncio.timeout(1):
                assert (await probe.call("GET", "/grid/health/ready")).status == 200
    gone = {n: LEAVING[n % len(LEAVING)] for n in range(0, POLLS, 10)}
    for n, how in gone.items():
        leave(wires[n], how)
    staying = [wire for n, wire in enumerate(wires) if n not in gone]
    await until_open(port, len(staying))
    await offer(port, len(staying) + 7)
    replies = await asyncio.gather(*(wire.reply() for wire in staying))
    async with await Wire.connect(port) as last:
        rest = [await last.call("DELETE", f"{QUEUE}/5") for _ in range(7)]
        assert (await last.call("DELETE", f"{QUEUE}/0")).status == 204
    assert sorted(int(r.body) for r in [*replies, *rest]) == list(range(len(staying) + 7))
    await asyncio.gather(*(wire.close() for wire in wires))


@pytest.mark.usefixtures("many_files")
async def test_polls_whose_clients_have_just_left_lose_nothing(port: int) -> None:
    count = 600
    wires = await waiting(port, count)
    staying = wires[::4]
    async with await Wire.connect(port) as producer:
        for n, wire in enumerate(wires):
            if n % 4:
                leave(wire, LEAVING[n % 4 - 1])
        await asyncio.sleep(0)  # a connection closes on the next turn of the loop
        producer.send(b"".join(request("POST", QUEUE, b"%d" % n) for n in range(count)))
        for _ in range(count):
            assert (await producer.reply()).status == 200
        found = [(await wire.reply()).body for wire in staying]
        while (reply := await producer.call("DELETE", f"{QUEUE}/1")).status == 200:
            found.append(reply.body)
    assert sorted(map(int, found)) == list(range(count))
    await asyncio.gather(*(wire.close() for wire in wires))


@pytest.mark.parametrize("connections", [1, 8])
async def test_large_values_by_several_connections(port: int, connections: int) -> None:
    rounds = 3

    async def client(number: int) -> None:
        async with await Wire.connect(port) as wire:
            for n in range(rounds):
                value = bytes([number, n, 0, 255]) * (LIMIT_BYTES // 4)
                path = f"{MAP}/{number}"
                assert (await wire.call("POST", path, value)).status == 200
                assert (await wire.call("GET", path)).body == value
                head = await wire.call("HEAD", path)
                assert head.header("Content-Length") == str(LIMIT_BYTES)

    await asyncio.gather(*(client(number) for number in range(connections)))
    async with await Wire.connect(port) as wire:
        wire.send(request("POST", f"{MAP}/0", bytes(LIMIT_BYTES + 1)))
        assert (await wire.reply()).status == 413
    assert len((await once(port, "GET", f"{MAP}/0")).body) == LIMIT_BYTES


async def test_slow_readers_of_large_values_disturb_nobody(port: int) -> None:
    value = bytes(range(256)) * (LIMIT_BYTES // 256)
    await once(port, "POST", f"{MAP}/k", value)
    slow = [await asyncio.open_connection("127.0.0.1", port, limit=4096) for _ in range(10)]
    for _, writer in slow:
        writer.write(request("GET", f"{MAP}/k") * 3)
    async with await Wire.connect(port) as other:
        for n in range(200):
            async with asyncio.timeout(2):
                assert (await other.call("POST", f"{MAP}/other", b"%d" % n)).status == 200

    async def read(reader: asyncio.StreamReader) -> None:
        for _ in range(3):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert await reader.readexactly(LIMIT_BYTES) == value

    await asyncio.gather(*(read(reader) for reader, _ in slow))
    for _, writer in slow:
        writer.close()
        await writer.wait_closed()


async def test_a_reader_that_stalls_and_leaves_gives_its_item_back(port: int) -> None:
    large = bytes(LIMIT_BYTES)
    for item in (large, b"second"):
        assert (await once(port, "POST", QUEUE, item)).status == 200
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(request("DELETE", f"{QUEUE}/0"))
    async with asyncio.timeout(20):
        while (await once(port, "GET", f"{QUEUE}/size")).body != b"1":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    await until_open(port, 0)
    assert (await once(port, "DELETE", f"{QUEUE}/5")).body == large
    assert (await once(port, "DELETE", f"{QUEUE}/5")).body == b"second"
