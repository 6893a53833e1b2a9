"""One measurement: wrk drives servers, and what both cost is read beside it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from bench.processes import HOST, ROOT, BenchError, cpu_time

if TYPE_CHECKING:
    from bench.processes import Server

CONNECTIONS: Final = 64
KEYS: Final = 10_000
VALUE_BYTES: Final = 22
LIMITED_PERCENT: Final = 90.0
"""From this share of one core on wrk, not the server, may set the rate."""
_SCRIPT: Final = ROOT / "bench" / "load" / "requests.lua"
_MARK: Final = "BENCH "
_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk sends: requests with the keys of a path in turn.

    Attributes:
        path: a `#` in it stands for the number of the key.
        stride: the distance from one key's number to the next.
        body_bytes: 0 is no body.
        depth: how many requests are sent at once on a connection, before their answers.
        writes_percent: so many of the requests are a POST instead, and only those have a body.
    """

    method: str
    path: str
    keys: int = KEYS
    stride: int = 1
    body_bytes: int = 0
    depth: int = 1
    writes_percent: int = 0
    connections: int = CONNECTIONS
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen during one run of wrk.

    Attributes:
        p50_ms, p99_ms: NaN where they are unknown.
        wrk_percent: CPU time of wrk of the time that passed; 100 is one core for each thread.
        bad: answers other than 2xx, and connections that broke.
        wrk_s: CPU time of wrk.
        log_s: what of the CPU time is that of the servers that keep the members' log.
    """

    requests: int
    seconds: float
    user_s: float
    system_s: float
    wrk_percent: float
    p50_ms: float
    p99_ms: float
    bad: int
    wrk_s: float = 0.0
    log_s: float = 0.0


class Seen(TypedDict):
    """The line that the script prints at the end."""

    requests: int
    duration_us: int
    p50_us: int
    p99_us: int
    refused: int
    broken: int


def measure(server: Server, load: Load, seconds: int) -> Sample:
    """Drive a server for so long.

    Raises:
        BenchError: wrk failed, or it saw no answer at all.
    """
    before, began = cpu_time(server.pids), time.monotonic()
    text, wrk_cpu_s = _run(command(server.port, load, seconds))
    passed, after = time.monotonic() - began, cpu_time(server.pids)
    seen = parse(text)
    return Sample(
        requests=seen["requests"],
        seconds=seen["duration_us"] / 1e6,
        user_s=after.user_s - before.user_s,
        system_s=after.system_s - before.system_s,
        wrk_percent=100 * wrk_cpu_s / passed / load.threads,
        p50_ms=_ms(seen["p50_us"], load),
        p99_ms=_ms(seen["p99_us"], load),
        bad=seen["refused"] + seen["broken"],
        wrk_s=wrk_cpu_s,
    )


def _ms(percentile_us: int, load: Load) -> float:
    """Return milliseconds, or NaN where wrk's percentiles mean nothing.

    wrk corrects them for requests that a slow answer held back, by the mean time between two
    requests of a connection; with several requests at once that mean is none.
    """
    return percentile_us / 1e3 if load.depth == 1 and percentile_us else math.nan


def command(port: int, load: Load, seconds: int) -> list[str]:
    """Return the command that runs wrk."""
    numbers = (load.keys, load.stride, load.body_bytes, load.depth, load.writes_percent)
    size = ["-t", str(load.threads), "-c", str(load.connections), "-d", f"{seconds}s"]
    return [
        *("wrk", *size, "--timeout", f"{_TIMEOUT_S}s", "-s", str(_SCRIPT)),
        *(f"http://{HOST}:{port}", "--", load.method, load.path, *map(str, numbers)),
    ]


def parse(text: str) -> Seen:
    """Read the line of the script from what wrk printed.

    Raises:
        BenchError: there is none, or nothing was answered.
    """
    lines = [line for line in text.splitlines() if line.startswith(_MARK)]
    if not lines:
        raise BenchError(f"wrk printed no figures: {text[-500:]}")
    seen: Seen = json.loads(lines[-1].removeprefix(_MARK))
    if seen["requests"] == 0:
        raise BenchError("wrk got no answer")
    return seen


def _run(arguments: list[str]) -> tuple[str, float]:
    """Run to the end; return what was printed and the seconds of CPU that it took."""
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(arguments, stdout=printed, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    if process.returncode:
        raise BenchError(f"wrk failed: {text[-500:]}")
    return text, usage.ru_utime + usage.ru_stime
