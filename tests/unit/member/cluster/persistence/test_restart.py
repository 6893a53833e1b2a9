"""Promise: what a member answered is the same after it was killed and started again."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine import open_engine
from grid_member.engine.api import ClusterState
from tests.unit.engine.drive import Driver, FixedStructures
from tests.unit.member.durable import MAP, QUEUE, durable
from tests.unit.member.wire import once

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.durable import Start
    from tests.unit.member.running import MemberProcess

MAPS: Final = "/grid/rest/maps"
QUEUES: Final = "/grid/rest/queues"
STATE: Final = "/grid/rest/management/cluster"
CONFIGURED: Final = "  map: {default: {}, short: {time-to-live-seconds: 1}}\n"
STRUCTURES: Final = """  map:
    default: {}
    short: {time-to-live-seconds: 2}
    long: {time-to-live-seconds: 3600}
    volatile: {data-persistence: {enabled: false}}
    unsynced: {data-persistence: {enabled: true, fsync: false}}
"""
CONFIGURED_QUEUES: Final = "  queue: {default: {}, two: {max-size: 2}}\n"
STRUCTURED_QUEUES: Final = """  queue:
    default: {}
    volatile: {data-persistence: {enabled: false}}
    unsynced: {data-persistence: {enabled: true, fsync: false}}
"""


class Restarts:
    """A durable member that is killed and started again."""

    def __init__(self, start: Start, directory: Path) -> None:
        text = durable(directory)
        assert CONFIGURED in text
        assert CONFIGURED_QUEUES in text
        text = text.replace(CONFIGURED, STRUCTURES)
        self._text = text.replace(CONFIGURED_QUEUES, STRUCTURED_QUEUES)
        self._start = start
        self.member = self.start()

    def start(self) -> MemberProcess:
        self.member = self._start(self._text)
        self.member.wait_for("ready")
        return self.member

    def crash(self) -> None:
        self.member.kill()
        self.start()

    async def call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        reply = await once(self.member.port, method, path, body)
        return reply.status, reply.body


@pytest.fixture
def restarts(member_process: Start, tmp_path: Path) -> Restarts:
    return Restarts(member_process, tmp_path / "data")


async def test_a_time_to_live_goes_on(restarts: Restarts) -> None:
    for name in ("short", "long", "default"):
        assert await restarts.call("POST", f"{MAPS}/{name}/k", b"v") == (200, b"")
    written_s = time.monotonic()
    restarts.member.kill()
    # Down until the time is over; a deadline counted from the start would come later.
    await asyncio.sleep(max(0, written_s + 2.1 - time.monotonic()))
    restarts.start()
    assert await restarts.call("GET", f"{MAPS}/short/k") == (204, b"")
    assert await restarts.call("GET", f"{MAPS}/long/k") == (200, b"v")
    assert await restarts.call("GET", f"{MAPS}/default/k") == (200, b"v")


async def test_a_time_to_live_that_is_not_over_ends_in_time(restarts: Restarts) -> None:
    assert await restarts.call("POST", f"{MAPS}/short/k", b"v") == (200, b"")
    written_s = time.monotonic()
    restarts.crash()
    restarts.crash()
    async with asyncio.timeout(20):
        while (await restarts.call("GET", f"{MAPS}/short/k"))[0] == 200:
            pass
    restarted_s = time.monotonic()
    assert restarted_s - written_s > 1.9


@pytest.mark.parametrize(
    "content_type",
    ["application/json", 'text/plain; charset="utf-8"', "a/b", "APPLICATION/X;  y=z", None],
)
async def test_types_and_bytes(restarts: Restarts, content_type: str | None) -> None:
    value = bytes(range(256)) * 3
    headers = {} if content_type is None else {"Content_Type": content_type}
    for path in (f"{MAP}/%C3%BC%00%2F", QUEUE):
        assert (await once(restarts.member.port, "POST", path, value, **headers)).status == 200
    before = await once(restarts.member.port, "GET", f"{MAP}/%C3%BC%00%2F")
    assert before.body == value
    restarts.crash()
    after = await once(restarts.member.port, "GET", f"{MAP}/%C3%BC%00%2F")
    item = await once(restarts.member.port, "DELETE", f"{QUEUE}/0")
    assert after.body == item.body == value
    assert before.header("Content-Type") == after.header("Content-Type") == content_type
    if content_type is not None:
        assert item.header("Content-Type") == content_type


async def test_items_in_flight_are_at_their_places(restarts: Restarts) -> None:
    port = restarts.member.port
    large = bytes(8 << 20)
    for item in (b"taken", large, b"second", large[1:], b"last"):
        assert await restarts.call("POST", QUEUE, item) == (200, b"")
    assert await restarts.call("DELETE", f"{QUEUE}/0") == (200, b"taken")
    stalled = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
    try:
        await take_without_reading(stalled[0], port, b"3")
        assert await restarts.call("DELETE", f"{QUEUE}/0") == (200, b"second")
        await take_without_reading(stalled[1], port, b"1")
        # Behind this the confirmations are in the log.
        assert await restarts.call("POST", f"{MAP}/k", b"v") == (200, b"")
        restarts.crash()
    finally:
        for connection in stalled:
            connection.close()
    assert await restarts.call("GET", f"{QUEUE}/size") == (200, b"3")
    for item in (large, large[1:], b"last"):
        assert await restarts.call("DELETE", f"{QUEUE}/0") == (200, item)
    assert await restarts.call("DELETE", f"{QUEUE}/0") == (204, b"")


async def take_without_reading(connection: socket.socket, port: int, left: bytes) -> None:
    """Poll, and wait until the queue has lost the item."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(f"DELETE {QUEUE}/0 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    async with asyncio.timeout(20):
        while (await once(port, "GET", f"{QUEUE}/size")).body != left:
            pass


@pytest.mark.parametrize("state", [ClusterState.PASSIVE, ClusterState.FROZEN])
async def test_the_cluster_state(
    member_process: Start, tmp_path: Path, state: ClusterState
) -> None:
    engine = open_engine(FixedStructures(), tmp_path / "data")
    await engine.start()
    driver = Driver(engine)
    await driver.put("default", "k", b"v")
    await driver.change_state(state)
    await engine.stop()
    restarts = Restarts(member_process, tmp_path / "data")
    for crash in (restarts.crash, lambda: None):
        _, answer = await restarts.call("POST", f"{STATE}/state", b"dev&")
        assert f'"state":"{state.value}"'.encode() in answer
        assert await restarts.call("GET", f"{MAP}/k") == (200, b"v")
        writes = 503 if state is ClusterState.PASSIVE else 200
        assert (await restarts.call("POST", f"{MAP}/l", b"w"))[0] == writes
        crash()


async def test_only_what_is_persistent_comes_back(restarts: Restarts) -> None:
    names = ("default", "unsynced", "volatile")
    for name in names:
        for number in range(20):
            path = f"{MAPS}/{name}/k{number}"
            assert await restarts.call("POST", path, b"%d" % number) == (200, b"")
            assert await restarts.call("POST", f"{QUEUES}/{name}", b"%d" % number) == (200, b"")
        assert await restarts.call("DELETE", f"{QUEUES}/{name}/0") == (200, b"0")
        assert await restarts.call("DELETE", f"{MAPS}/{name}/k0") == (200, b"")
    assert await restarts.call("POST", f"{MAP}/settled", b"v") == (200, b"")
    restarts.crash()
    for name in names:
        kept = name != "volatile"
        for number in range(1, 20):
            expected = (200, b"%d" % number) if kept else (204, b"")
            assert await restarts.call("GET", f"{MAPS}/{name}/k{number}") == expected
            assert await restarts.call("DELETE", f"{QUEUES}/{name}/0") == expected
        assert await restarts.call("GET", f"{MAPS}/{name}/k0") == (204, b"")
        assert await restarts.call("POST", f"{MAPS}/{name}/k0", b"new") == (200, b"")
