"""Offers requests at a fixed rate, through oha."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from bench.processes import HOST, ROOT, BenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.load.wrk import Load
    from bench.processes import Server

INSTALL: Final = "cargo install oha --locked"
PLACE: Final = ROOT / "build" / "bench-tools"
"""Where `make bench` installs it."""
_PERCENTILES: Final = ("p50", "p90", "p99", "p99.9")


@dataclass(frozen=True, slots=True)
class Offer:
    """What became of requests that were offered at a wanted rate.

    Attributes:
        percentiles_ms: p50, p90, p99 and p99.9 from the moment at which each was due.
    """

    wanted: float
    rate: float
    percentiles_ms: tuple[float, ...]
    bad: int
    cpu_percent: float


class Printed(TypedDict):
    """What is used of the JSON that oha prints; times in seconds."""

    summary: dict[str, float]
    latencyPercentiles: dict[str, float | None]
    statusCodeDistribution: dict[str, int]
    errorDistribution: dict[str, int]


def find_oha() -> str | None:
    """Return the command that runs oha, if there is one."""
    return shutil.which("oha", path=f"{PLACE / 'bin'}:{os.environ.get('PATH', '')}")


def offered(oha: str, server: Server, load: Load, rate: int, seconds: int) -> Offer:
    """Offer requests at this rate for so long.

    Raises:
        BenchError: oha failed.
    """
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as printed:
        urls = Path(directory) / "urls"
        base = f"http://{HOST}:{server.port}{load.path}\n"
        urls.write_text("".join(base.replace("#", str(n)) for n in range(load.keys)))
        began = time.monotonic()
        process = subprocess.Popen(
            [oha, *arguments(load, rate, seconds), str(urls)],
            stdout=printed,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        passed = time.monotonic() - began
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    if process.returncode:
        raise BenchError(f"oha failed with {process.returncode}")
    return parse(text, rate, 100 * (usage.ru_utime + usage.ru_stime) / passed)


def arguments(load: Load, rate: int, seconds: int) -> Sequence[str]:
    """Return the arguments of oha, but for the file of addresses that they end with."""
    body = ["-d", "v" * load.body_bytes] if load.body_bytes else []
    return [
        *("--no-tui", "--output-format", "json", "--latency-correction", "-w"),
        *("-z", f"{seconds}s", "-q", str(rate), "-c", str(load.connections)),
        *("-m", load.method, *body, "--urls-from-file"),
    ]


def parse(text: str, wanted: float, cpu_percent: float) -> Offer:
    """Read what oha printed."""
    printed: Printed = json.loads(text)
    codes = printed["statusCodeDistribution"]
    refused = sum(count for code, count in codes.items() if not code.startswith("2"))
    broken = sum(
        count for why, count in printed["errorDistribution"].items() if "deadline" not in why
    )
    times = [printed["latencyPercentiles"].get(name) for name in _PERCENTILES]
    return Offer(
        wanted=wanted,
        rate=printed["summary"]["requestsPerSec"],
        percentiles_ms=tuple(1e3 * (seconds or 0.0) for seconds in times),
        bad=refused + broken,
        cpu_percent=cpu_percent,
    )
