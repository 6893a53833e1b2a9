"""The fast path makes no task, no future and no timer for a request."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.http.fastpath.connection import FastPathConnection
from tests.unit.engine.drive import condition
from tests.unit.member.http.fastpath.peers import Peer, request, settings
from tests.unit.member.running import open_files

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tests.unit.member.running import RunningMember

REQUESTS = 1000
FEW = 30
"""The test's own, and what looks after all connections now and then."""
MAP, QUEUE = "/grid/rest/maps/default/k", "/grid/rest/queues/default"
ROUND = (
    request(f"POST {MAP}", body=b"value"),
    request(f"GET {MAP}"),
    request(f"DELETE {MAP}"),
    request(f"POST {QUEUE}", body=b"item"),
    request(f"GET {QUEUE}/size"),
    request(f"DELETE {QUEUE}/60"),
)


@pytest.fixture
def log() -> str:
    """A log on a disk has a thread, which is told what to do by futures."""
    return "memory"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What the loop has made since the test began."""
    counts: Counter[str] = Counter()
    loop = asyncio.get_event_loop_policy().get_event_loop()
    future, timer = loop.create_future, loop.call_at

    def create_future() -> asyncio.Future[Any]:
        counts["futures"] += 1
        return future()

    def call_at(*args: Any, **named: Any) -> asyncio.TimerHandle:
        counts["timers"] += 1
        return timer(*args, **named)

    def task(
        running: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **named: Any
    ) -> asyncio.Task[Any]:
        counts["tasks"] += 1
        return asyncio.Task(coroutine, loop=running, **named)

    monkeypatch.setattr(loop, "create_future", create_future)
    monkeypatch.setattr(loop, "call_at", call_at)
    loop.set_task_factory(task)  # type: ignore[arg-type] # the stubs want more of it than is true
    return counts


def play(port: int, depth: int) -> int:
    """Send requests, so many at a time, from another thread; return how many were answered."""
    answered = 0
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        while answered < REQUESTS:
            batch = [ROUND[(answered + n) % len(ROUND)] for n in range(depth)]
            plain.sendall(b"".join(batch))
            found = b""
            while found.count(b"HTTP/1.1 200 OK\r\n") < depth:
                piece = plain.recv(1 << 16)
                assert piece
                found += piece
            answered += depth
    return answered


@pytest.mark.parametrize("depth", [1, 6])
async def test_requests_make_nothing(
    one: RunningMember, made: Counter[str], path: str, depth: int
) -> None:
    made.clear()
    answered = await asyncio.to_thread(play, one.port, depth)
    assert answered >= REQUESTS
    most = max(made[what] for what in ("tasks", "futures", "timers"))
    # Without the fast path there are many: they would be seen.
    assert (most < FEW) == (path == "fast-path"), made


async def test_small_answers_do_not_wait_for_each_other(one: RunningMember, path: str) -> None:
    """The kernel would else hold one back until the client acknowledges that before it."""
    async with await Peer.connect(one.port) as peer:
        assert (await peer.ask(ROUND[0])).startswith(b"HTTP/1.1 200 OK")
        (connection,) = one.listeners._open[0].factory.context.watch
        transport = getattr(connection, "_transport" if path == "fast-path" else "transport")
        plain: socket.socket = transport.get_extra_info("socket")
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is freed that others do not let go."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def fast_path_connections() -> int:
    """Return how many are in memory."""
    return sum(isinstance(kept, FastPathConnection) for kept in gc.get_objects())


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("how", ["lost", "handed over"])
async def test_a_connection_that_is_over_does_not_stay(one: RunningMember, how: str) -> None:
    """With it would stay what it has read, until somebody looks for garbage."""
    before = fast_path_connections()
    async with await Peer.connect(one.port) as peer:
        for data in ROUND:
            assert (await peer.ask(data)).startswith(b"HTTP/1.1 200 OK")
        if how == "handed over":
            assert (await peer.ask(request("GET /grid/health/ready"))).startswith(b"HTTP/1.1 ")
            assert fast_path_connections() == before
    await condition(lambda: not one.listeners._open[0].factory.context.watch)
    assert fast_path_connections() == before


@pytest.mark.usefixtures("uncollected")
async def test_a_member_that_has_ended_leaves_no_file_open(
    start_member: Callable[..., RunningMember], path: str, log: str, tmp_path: Path
) -> None:
    async def live() -> None:
        member = await start_member(settings(path, log, tmp_path)).start()
        async with await Peer.connect(member.port) as peer:
            for data in ROUND:
                assert (await peer.ask(data)).startswith(b"HTTP/1.1 200 OK")
            await member.stop()

    await live()  # the loop keeps what it needs for the first one
    before = open_files()
    await live()
    await condition(lambda: open_files() == before)
