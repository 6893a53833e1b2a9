"""What a connection must not do in moments that are hard to come by."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import aiohttp.helpers
import pytest

from grid_member.http.fastpath import context as fast_path
from grid_member.http.wire import watch
from grid_member.http.wire.watch import PERIOD_S, Watch, end_writing
from tests.fuzz.fast_path_script import INBOX, Run
from tests.fuzz.fast_path_wire import Sockets
from tests.unit.member.http.fastpath.peers import Peer, ask, masked, request
from tests.unit.member.http.fastpath.scripts import OK, read
from tests.unit.member.http.fastpath.test_clients import (
    MAP,
    WAIT,
    alone,
    get,
    offer,
    put,
    remaining,
    small_buffers,
)
from tests.unit.member.http.fastpath.test_leaving import VALUE_BYTES
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.member.running import RunningMember

STATUS = re.compile(rb"HTTP/1\.1 (\d+) ")
POLL = b"DELETE /grid/rest/queues/other/9 HTTP/1.1\r\nHost: a\r\n\r\n"
OFFER = b"POST /grid/rest/queues/other HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\no"


@pytest.fixture
def start() -> Iterator[Callable[..., Run]]:
    """What begins a connection to a scripted engine."""
    runs: list[Run] = []

    def begin(*, measured: bool = False) -> Run:
        runs.append(Run(Sockets(), measured=measured))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def send(run: Run, data: bytes) -> None:
    run.inbox += data
    run.deliver()


def statuses(run: Run) -> list[int]:
    return [int(status) for status in STATUS.findall(run.transport.written)]


async def test_the_end_behind_a_large_answer_is_told_once(one: RunningMember) -> None:
    """Closing while the transport tells that it is empty has it tell twice that it is lost."""
    problems: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(context))
    await ask(one, put("large", bytes(VALUE_BYTES)))
    with closing(small_buffers(one.port)) as plain:
        await loop.sock_sendall(plain, get("large"))
        found = len(await loop.sock_recv(plain, 1 << 20))
        plain.shutdown(socket.SHUT_WR)
        while piece := await loop.sock_recv(plain, 1 << 20):
            found += len(piece)
    await alone(one)
    assert found > VALUE_BYTES
    assert problems == []


async def test_the_connection_header_of_old_proxies(
    pair: tuple[RunningMember, RunningMember],
) -> None:
    """The parser of aiohttp takes it for `Connection`, so it is none of the fast path's."""
    found: list[bytes] = []
    for member in pair:
        async with await Peer.connect(member.port) as peer:
            peer.send(request(f"GET {MAP}/k", "Proxy-Connection: close"))
            found.append(masked(await peer.to_end()))
    assert found[0] == found[1]
    assert found[0].endswith(b"\r\nConnection: close\r\n\r\n")


async def test_a_client_that_leaves_a_body_unread_behind_its_poll(
    one: RunningMember, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads that it has left, and polls may wait for years."""
    monkeypatch.setattr(watch, "PERIOD_S", 0.02)
    async with await Peer.connect(one.port) as peer:
        peer.send(WAIT + put("k", bytes(VALUE_BYTES)))
        await until(lambda: one.listeners.counts().clients == 1)
        (connection,) = one.listeners._open[0].factory.context.watch
        transport = getattr(connection, "_transport" if path == "fast-path" else "transport")
        await until(lambda: not transport.is_reading())
        await peer.reset()
    await alone(one)
    assert read(await ask(one, offer(b"item"))) == OK
    assert await remaining(one) == [b"item"]


def gone() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection that the other one has reset."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
    client.close()
    server.send(b"unread")
    return server, client


@pytest.mark.asyncio(loop_factories=["asyncio"])  # uvloop closes such a connection by itself
async def test_the_end_of_writing_to_a_client_that_has_gone() -> None:
    server, _ = gone()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=server)
    with pytest.raises(OSError, match="not connected"):
        transport.write_eof()
    transport._eof = False  # type: ignore[attr-defined] # as if nothing had been tried
    end_writing(transport)
    assert transport.is_closing()


async def test_a_look_that_fails_does_not_end_the_watch() -> None:
    looks: list[str] = []
    cut: list[bool] = []
    loop, watching = asyncio.get_running_loop(), Watch()
    seen = asyncio.Event()

    class Broken:
        def look(self, now_s: float) -> None:
            looks.append("broken")
            raise ValueError

        async def finish(self) -> None:
            raise AssertionError

        def abort(self) -> None:
            cut.append(True)
            watching.discard(self)

    class Sound(Broken):
        def look(self, now_s: float) -> None:
            looks.append("sound")
            if looks.count("sound") == 2:
                seen.set()

    began_s = loop.time()
    sound = Sound()
    watching.add(Broken())
    watching.add(sound)
    async with asyncio.timeout(10 * PERIOD_S):
        await seen.wait()
    watching.discard(sound)
    assert loop.time() - began_s > PERIOD_S
    assert sorted(looks) == ["broken", "sound", "sound"]
    assert cut == [True]


def test_a_body_behind_a_poll_that_waits_is_not_taken_in(start: Callable[..., Run]) -> None:
    run = start()
    head, _, body = INBOX[b"z"].partition(b"\r\n\r\n")
    send(run, POLL + head + b"\r\n\r\n")
    send(run, body[:-1000])
    assert not run.transport.reading
    assert run.uploads.held_bytes == 0
    run.inbox += body[-1000:]
    run.settle()
    assert statuses(run) == [204, 200]


def test_a_client_that_leaves_unread_requests_behind_its_poll(start: Callable[..., Run]) -> None:
    run = start()
    send(run, POLL)
    send(run, OFFER * 1000)
    send(run, OFFER)
    assert not run.transport.reading
    run.second()
    assert not run.transport.is_closing()
    run.transport.client_left = True
    run.second()
    run.loop.turn()
    assert run.transport.lost
    assert run.engine.calls[0].cancelled


def test_an_item_that_nobody_is_there_for_costs_no_earlier_answer(
    start: Callable[..., Run],
) -> None:
    run = start()
    run.transport.full = True
    send(run, INBOX[b"G"] * 2 + POLL)
    run.transport.client_left = True
    run.engine.put("other", b"item", None)
    run.tell_all()
    run.loop.turn()
    assert run.transport.is_closing()
    assert (run.transport.buffered > 0, run.transport.lost) == (True, False)
    run.transport.drain()
    run.loop.turn()
    assert run.transport.lost
    assert run.engine.flying == {}


def test_reading_an_answer_is_not_idling(start: Callable[..., Run]) -> None:
    run = start()
    send(run, POLL)
    run.second()
    run.transport.full = True
    run.engine.put("other", b"item", None)
    run.tell_all()
    run.second()
    run.loop.now_s += 7200
    run.transport.drain()
    run.second()
    assert not run.transport.is_closing()
    run.hours()
    assert run.transport.is_closing()


def test_requests_of_clients_that_left_are_not_counted(start: Callable[..., Run]) -> None:
    run = start(measured=True)
    run.later()
    send(run, INBOX[b"W"] * 3)
    run.lose()
    run.tell_all()
    run.loop.turn()
    assert run.member.measurements is not None
    assert run.member.measurements.requests == {}


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_late_head_is_refused_behind_the_answers_before_it(
    start: Callable[..., Run], writes: int
) -> None:
    run = start()
    run.later()
    send(run, INBOX[b"W"] * writes + b"GET /grid")
    run.loop.now_s += 7200
    run.tell_all()
    run.fast_path.look(run.loop.now_s)
    run.loop.turn()
    run.fast_path.look(run.loop.now_s)
    assert statuses(run) == [200] * writes + [408]


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_request_before_the_answers_of_this_turn(start: Callable[..., Run], writes: int) -> None:
    run = start()
    send(run, INBOX[b"V"])
    run.later()
    send(run, INBOX[b"W"] * writes)
    run.tell_all()
    run.fast_path.data_received(INBOX[b"V"])
    run.loop.turn()
    answers = run.transport.written.split(b"HTTP/1.1 ")[1:]
    assert [answer[-2:] == b"w1" for answer in answers] == [*[False] * (writes + 1), True]


def test_the_date_follows_a_clock_that_is_set_back(
    start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"wall": 2_000_000_000.25}
    timers: list[tuple[float, Callable[[], None]]] = []
    clock = SimpleNamespace(time=lambda: now["wall"], monotonic=time.monotonic, gmtime=time.gmtime)
    monkeypatch.setattr(fast_path, "time", clock)
    monkeypatch.setattr(aiohttp.helpers, "time", clock)
    run = start()
    monkeypatch.setattr(run.loop, "call_later", lambda *timer: timers.append(timer))
    send(run, INBOX[b"V"])
    now["wall"] -= 3600
    [(delay_s, outdated)] = timers
    assert delay_s == 0.75
    outdated()
    send(run, INBOX[b"V"])
    dates = cast("list[bytes]", re.findall(rb"Date: .* (\S+) GMT", bytes(run.transport.written)))
    assert dates == [b"03:33:20", b"02:33:20"]
