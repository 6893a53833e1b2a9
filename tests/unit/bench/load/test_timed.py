"""Writes that are timed one by one."""

from __future__ import annotations

import pytest

from bench.load.timed import Timing, latency
from bench.processes import BenchError
from bench.servers.bare import bare


def test_percentiles_are_those_of_all_writes() -> None:
    seen = latency([*(1.0 for _ in range(980)), *(50.0 for _ in range(20))])
    assert (seen.p50_ms, seen.p99_ms, seen.count) == (1.0, 50.0, 1000)


def test_writes_are_timed_from_the_first_look_on() -> None:
    with bare(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as server:
        timing = Timing(server.port, 0.2)
        assert timing.look() == timing.look() == 0
        assert timing.seen().count > 1


def test_a_refused_write_is_an_error() -> None:
    with bare(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") as server:
        timing = Timing(server.port, 0.2)
        timing.look()
        with pytest.raises(BenchError, match="timing"):
            timing.seen()


def test_without_a_look_nothing_is_timed() -> None:
    with pytest.raises(BenchError, match="no write"):
        Timing(1, 1).seen()
