"""A `grid-member` process with thousands of connections, and one that may have few files."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.http.server.test_crowd import many_files, until_open
from tests.unit.member.running import configuration, open_files
from tests.unit.member.wire import Wire, once, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.member.running import MemberProcess
    from tests.unit.member.wire import Reply

    Start = Callable[..., MemberProcess]

__all__ = ["many_files"]

MAP = "/grid/rest/maps/default"
READY = "/grid/health/ready"
FEW_FILES = 160
"""What is left of them for each of two listeners: 24 connections and 6 probes."""
FEW = 24
RESERVE = 6
STORE_FILES = 40
"""So many are always left for the store."""
FLOOD = 500
AT_ONCE = 250
MOST = 10_000
OWN_FILES = 1000
"""Of this process, not for connections."""
MAX_KIB_EACH = 20
SOURCES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
BOTH_PATHS = pytest.mark.parametrize("fast_path", [True, False], ids=["fast-path", "no-fast-path"])
HEAD = f"POST {MAP}/k HTTP/1.1\r\nHost: a\r\n".encode()
BODY = HEAD + b"Content-Length: 9000\r\n\r\n"


def settings(fast_path: bool, more: str = "") -> str:
    return f"  http: {{lane: {{enabled: {str(fast_path).lower()}}}{more}}}\n"


def resident_kib(process: MemberProcess) -> int:
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1])


def too_many(reply: Reply) -> bool:
    reason = f"too many connections: http.max-connections is {FEW}"
    return (reply.status, reply.body, reply.header("Connection"), reply.header("X-Grid-Error")) == (
        503,
        b"",
        "close",
        reason,
    )


# Few files


@pytest.fixture
def few(member_process: Start, tmp_path: Path) -> Iterator[MemberProcess]:
    """A member on disk that may have few files; it never lacked any."""
    persistence = f"  persistence: {{enabled: true, base-dir: {tmp_path}/data}}\n"
    process = member_process(configuration(extra=persistence), open_files=FEW_FILES)
    process.wait_for("ready")
    yield process
    process.process.terminate()
    assert process.end() == 0
    assert [e for e in process.log if e["level"] == "error"] == []
    refusals = [e["refused"] for e in process.log if "too many connections" in e["message"]]
    assert refusals == [1 << n for n in range(len(refusals))]


def test_a_low_limit_of_files_is_told_at_the_start(few: MemberProcess) -> None:
    (line,) = [e for e in few.log if e["level"] == "warning"]
    assert "http.max-connections" in line["message"]
    assert (line["open_files"], line["max_connections"], line["connections"]) == (
        FEW_FILES,
        10_000,
        FEW,
    )


async def test_with_few_files_probes_are_answered_and_the_store_writes(few: MemberProcess) -> None:
    wires = [await Wire.connect(few.port) for _ in range(FEW)]
    for n, wire in enumerate(wires):
        assert (await wire.call("POST", f"{MAP}/{n}", b"%d" % n)).status == 200
    for _ in range(RESERVE * 2):
        assert (await once(few.port, "GET", READY)).status == 200
        assert too_many(await once(few.port, "GET", f"{MAP}/0"))
    assert (await once(few.management_port, "GET", READY)).status == 200
    for n, wire in enumerate(wires):
        assert (await wire.call("GET", f"{MAP}/{n}")).body == b"%d" % n
        await wire.close()


async def test_a_flood_takes_no_file_from_the_store(few: MemberProcess) -> None:
    wires = [await Wire.connect(few.port) for _ in range(FEW)]
    for wire in wires:
        assert (await wire.call("GET", f"{MAP}/k")).status == 204
    most = 0

    async def flood() -> bool:
        nonlocal most
        try:
            async with await Wire.connect(few.port) as wire:
                reply = await wire.reply()
                most = max(most, len(open_files(few.process.pid)))
                return too_many(reply)
        except (ConnectionError, EOFError):
            return False  # closed at once: there were too many even for a refusal

    # The reserve is taken as well, by some that say nothing.
    idle = [await Wire.connect(few.port) for _ in range(RESERVE)]
    told = await asyncio.gather(*(flood() for _ in range(FLOOD)))
    assert sum(told) >= FLOOD // 2
    assert most <= FEW_FILES - STORE_FILES
    for n, wire in enumerate(wires):
        assert (await wire.call("POST", f"{MAP}/{n}", b"v")).status == 200
    for wire in (*idle, *wires):
        await wire.close()
    await until_open(few.port, 0)


# Many connections


def as_many_as_possible() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if hard == resource.RLIM_INFINITY else min(MOST, hard - OWN_FILES)


@pytest.fixture
def start_large(member_process: Start) -> Callable[[bool], MemberProcess]:
    """Give a function that starts a member with one listener for very many connections."""

    def start(fast_path: bool) -> MemberProcess:
        text = configuration(extra=settings(fast_path, f", max-connections: {2 * MOST}"))
        alone = text.replace("management: {enabled: true", "management: {enabled: false")
        process = member_process(alone)
        process.wait_for("ready")
        return process

    return start


async def opened(port: int, count: int) -> list[Wire]:
    wires: list[Wire] = []
    while len(wires) < count:
        source = SOURCES[len(wires) // AT_ONCE % len(SOURCES)]
        more = range(min(AT_ONCE, count - len(wires)))
        wires += await asyncio.gather(*(Wire.connect(port, source=source) for _ in more))
    return wires


def leave(wires: list[Wire]) -> None:
    """Reset the connections: ended in the usual way, they would hold their ports for a minute."""
    for wire in wires:
        plain = wire.writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.writer.transport.abort()


def send_some(wires: list[Wire], nth: int) -> None:
    """Send a byte on each: a third of them idle, a third in a head, a third in a body."""
    for n, wire in enumerate(wires):
        begun = (b"", HEAD, BODY)[n % 3]
        wire.send((begun if nth == 0 else b"x") if n % 3 else b"")


@BOTH_PATHS
@pytest.mark.usefixtures("many_files")
async def test_ten_thousand_connections_that_do_little_disturb_nobody(
    start_large: Callable[[bool], MemberProcess], fast_path: bool
) -> None:
    process = start_large(fast_path)
    async with await Wire.connect(process.port) as other:
        for _ in range(100):
            assert (await other.call("POST", f"{MAP}/other", b"v")).status == 200
            assert (await once(process.port, "GET", READY)).status == 200
        before_kib, before_files = resident_kib(process), len(open_files(process.process.pid))
        count = as_many_as_possible()
        wires = await opened(process.port, count)
        for nth in range(3):
            send_some(wires, nth)
            for n in range(100):
                async with asyncio.timeout(5):
                    assert (await other.call("POST", f"{MAP}/other", b"%d" % n)).status == 200
                    assert (await other.call("GET", f"{MAP}/other")).body == b"%d" % n
            assert (await once(process.port, "GET", READY)).status == 200
        await until_open(process.port, count + 1)
        assert len(open_files(process.process.pid)) >= count
        assert (resident_kib(process) - before_kib) / count <= MAX_KIB_EACH
        # Those that were idle are connections like any other.
        for wire in wires[:3000:300]:
            assert (await wire.call("GET", f"{MAP}/k")).status == 204
        leave(wires)
        await until_open(process.port, 1)
        assert len(open_files(process.process.pid)) <= before_files + 1
        assert (await other.call("GET", f"{MAP}/other")).status == 200


@BOTH_PATHS
@pytest.mark.usefixtures("many_files")
async def test_thousands_that_come_and_go_leave_nothing(
    start_large: Callable[[bool], MemberProcess], fast_path: bool
) -> None:
    process = start_large(fast_path)
    count = as_many_as_possible() // 5
    sizes_kib = []
    for _ in range(5):
        wires = await opened(process.port, count)
        send_some(wires, 0)
        for wire in wires[::3]:
            wire.send(request("GET", f"{MAP}/k"))
        for wire in wires[::3]:
            assert (await wire.reply()).status == 204
        leave(wires)
        await until_open(process.port, 0)
        sizes_kib.append(resident_kib(process))
    assert sizes_kib[-1] - sizes_kib[1] <= 0.25 * MAX_KIB_EACH * count
