"""Times single writes beside other load: `python -m bench.load.timed PORT SECONDS`.

A process of its own: what offers the other load would delay what is timed.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from bench.processes import HOST, ROOT, STOP_PATIENCE_S, BenchError, answer_is_whole
from bench.servers.members import post_request

PERIOD_S: Final = 0.002
"""Between an answer and the next write."""
KEYS: Final = 1_000
_PATIENCE_S: Final = 30.0
_DONE: Final = b"HTTP/1.1 200"


@dataclass(frozen=True, slots=True)
class Latency:
    """Of writes, one at a time."""

    p50_ms: float
    p99_ms: float
    count: int


class Timing:
    """Times writes from the first look on; what offers load looks again and again."""

    def __init__(self, port: int, seconds: float) -> None:
        self._arguments = [str(port), str(seconds)]
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> int:
        """Begin; return 0."""
        if self._process is None:
            command = [sys.executable, "-m", "bench.load.timed", *self._arguments]
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        return 0

    def seen(self) -> Latency:
        """Return what was seen when it has ended.

        Raises:
            BenchError: a write was refused, or nothing was timed.
        """
        if self._process is None:
            raise BenchError("no write was timed")
        printed, _ = self._process.communicate(timeout=STOP_PATIENCE_S)
        if self._process.returncode:
            raise BenchError("the timing of writes failed")
        return latency(json.loads(printed))


def latency(times_ms: list[float]) -> Latency:
    """Return the percentiles."""
    return Latency(median(times_ms), quantiles(times_ms, n=100)[98], len(times_ms))


def times(port: int, seconds: float) -> list[float]:
    """Write for so long; return the milliseconds until each answer.

    Raises:
        BenchError: a write was refused.
    """
    found: list[float] = []
    until = time.monotonic() + seconds
    with socket.create_connection((HOST, port), _PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (began := time.perf_counter()) and time.monotonic() < until:
            connection.sendall(post_request(f"timed-{len(found) % KEYS}", b"%022d" % len(found)))
            answer = bytearray()
            while not answer_is_whole(answer):
                answer += connection.recv(1 << 16) or _closed()
            if not answer.startswith(_DONE):
                raise BenchError("a write was refused")
            found.append(1e3 * (time.perf_counter() - began))
            time.sleep(PERIOD_S)
    return found


def _closed() -> bytes:
    raise BenchError("the member closed a connection")


if __name__ == "__main__":
    print(json.dumps(times(int(sys.argv[1]), float(sys.argv[2]))))
