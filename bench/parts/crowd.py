"""Idle and trickling connections beside busy ones."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench.figures import Section, figure, p99_at_most
from bench.load.fill import fill_map
from bench.load.loads import GET, measuring
from bench.load.wrk import CONNECTIONS, KEYS, VALUE_BYTES
from bench.processes import HOST, BenchError, rss_bytes
from bench.servers.members import member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.load.wrk import Sample
    from bench.options import Options
    from bench.processes import Server

P99_BAR: Final = 2.0
TRICKLE_PERIOD_S: Final = 5.0
"""Each connection sends one byte in this time."""
_SETTLE_S: Final = 1.0
_PAUSE_S: Final = 0.01
_HEAD: Final = b"GET /grid/rest/maps/bench/1 HTTP/1.1\r\nHost: bench\r\nX-Slow: "
_PLAIN: Final = f"GET, {CONNECTIONS} busy connections alone"


def measured(options: Options) -> list[Section]:
    """Measure 64 busy connections alone, beside idle ones and beside trickling ones."""
    beside_idle = f"beside {options.crowd:,} idle connections"
    beside_slow = f"beside {options.crowd:,} trickling connections"
    seen: dict[str, list[Sample]] = {_PLAIN: [], beside_idle: [], beside_slow: []}
    growth: list[float] = []
    with member() as server:
        fill_map(server.port, 0, KEYS, VALUE_BYTES)
        busy = measuring(server, GET, options)
        for _ in range(options.rounds):
            seen[_PLAIN].append(busy())
            before = rss_bytes(server.pids)
            with crowd(server, options.crowd) as connections:
                growth.append((rss_bytes(server.pids) - before) / options.crowd)
                seen[beside_idle].append(busy())
                with trickling(connections) as lost:
                    sample = busy()
                seen[beside_slow].append(replace(sample, bad=sample.bad + len(lost)))
    alone, idle, slow = (figure(name, samples) for name, samples in seen.items())
    verdicts = [
        p99_at_most(f"p99 {beside_idle} ÷ alone", idle, alone, P99_BAR),
        p99_at_most(f"p99 {beside_slow} ÷ alone", slow, alone, P99_BAR),
    ]
    # Memory that a first crowd took is used again by the next one.
    notes = [f"Memory per idle connection: {max(growth) / 1024:.1f} KiB."]
    meaning = (
        f"GET on the fast path; who trickles sends a byte of a head every {TRICKLE_PERIOD_S:.0f} s."
    )
    return [Section("A crowd of slow clients", meaning, (alone, idle, slow), verdicts, notes)]


@contextlib.contextmanager
def crowd(server: Server, count: int) -> Iterator[list[socket.socket]]:
    """Hold so many open connections until the end of the block.

    Raises:
        BenchError: the member refused or closed one of them.
    """
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection((HOST, server.port), 30.0))
            for _ in range(count)
        ]
        for connection in connections:
            connection.setblocking(False)
        time.sleep(_SETTLE_S)
        yield connections
        _complain_of_closed(connections)
    time.sleep(_SETTLE_S)


def _complain_of_closed(connections: list[socket.socket]) -> None:
    gone = 0
    for connection in connections:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection.recv(1)
            gone += 1
    if gone:
        raise BenchError(f"the member answered or closed {gone} of {len(connections)} idle ones")


@contextlib.contextmanager
def trickling(connections: list[socket.socket]) -> Iterator[list[int]]:
    """Send a byte of a head on each connection now and then; yield the list of those lost."""
    stopped = threading.Event()
    lost: list[int] = []
    thread = threading.Thread(target=_trickle, args=(connections, stopped, lost))
    thread.start()
    try:
        yield lost
    finally:
        stopped.set()
        thread.join()


def _trickle(connections: list[socket.socket], stopped: threading.Event, lost: list[int]) -> None:
    at_once = max(1, int(len(connections) * _PAUSE_S / TRICKLE_PERIOD_S))
    sent = 0
    while not stopped.wait(_PAUSE_S):
        for _ in range(at_once):
            place, turn = sent % len(connections), sent // len(connections)
            byte = _HEAD[turn : turn + 1] or b"a"
            try:
                connections[place].send(byte)
            except OSError:
                lost.append(place)
            sent += 1
