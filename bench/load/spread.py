"""Load on several members at once: a wrk for each, or a bare engine for each."""

from __future__ import annotations

import json
import math
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.figures import side_by_side
from bench.load.wrk import Sample, measure
from bench.processes import HOST, BenchError, cpu_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.figures import Figure
    from bench.load.wrk import Load
    from bench.processes import Server
    from bench.servers.cluster import ClusterMember

_LATE_S: Final = 30.0
"""How long after its end a run of a bare engine may wait for its last answers."""


def measure_spread(members: Sequence[ClusterMember], load: Load, seconds: int) -> Sample:
    """Drive all members at the same time, with the load's connections shared out over them."""
    return _together(members, _runs([member.both for member in members], load, seconds))


def measure_constant(servers: Sequence[Server], load: Load, seconds: int) -> Sample:
    """Drive servers without a log in the same way."""
    return _together((), _runs(servers, load, seconds))


def measure_bare(
    members: Sequence[ClusterMember], method: str, in_flight: int, seconds: int
) -> Sample:
    """Keep so many operations in flight, shared out over the bare engines."""
    runs = [
        partial(_driven, member.both, method, share, seconds)
        for member, share in zip(members, shares(in_flight, len(members)), strict=True)
    ]
    return _together(members, runs)


def shares(total: int, count: int) -> list[int]:
    """Share a number out as evenly as it can be."""
    return [total // count + (place < total % count) for place in range(count)]


def cost_table(figures: Sequence[Figure]) -> str:
    """Return what a request costs each kind of process, as a table in Markdown."""
    lines = [
        "| CPU µs a request | members | nats-servers | load generators |",
        "|---|---:|---:|---:|",
    ]
    for of in figures:
        cells = (of.name, *(f"{us:.1f}" for us in (of.cpu_us - of.log_us, of.log_us, of.wrk_us)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _runs(servers: Sequence[Server], load: Load, seconds: int) -> list[Callable[[], Sample]]:
    return [
        partial(measure, server, replace(load, connections=share), seconds)
        for server, share in zip(servers, shares(load.connections, len(servers)), strict=True)
    ]


def _together(members: Sequence[ClusterMember], runs: Sequence[Callable[[], Sample]]) -> Sample:
    pids = [member.log_pid for member in members]
    before = cpu_time(pids)
    with ThreadPoolExecutor(len(runs)) as pool:
        samples = [each.result() for each in [pool.submit(run) for run in runs]]
    after = cpu_time(pids)
    log_s = after.user_s + after.system_s - before.user_s - before.system_s
    return replace(side_by_side(samples), log_s=log_s)


def _driven(server: Server, method: str, in_flight: int, seconds: int) -> Sample:
    before = cpu_time(server.pids)
    with socket.create_connection((HOST, server.port), seconds + _LATE_S) as connection:
        connection.sendall(f"{method} {in_flight} {seconds}\n".encode())
        with connection.makefile("rb") as answer:
            line = answer.readline()
    after = cpu_time(server.pids)
    if not line:
        raise BenchError("a bare engine hung up")
    seen = json.loads(line)
    if not seen["answered"]:
        raise BenchError("a bare engine did nothing")
    return Sample(
        requests=seen["answered"],
        seconds=seen["seconds"],
        user_s=after.user_s - before.user_s,
        system_s=after.system_s - before.system_s,
        wrk_percent=0.0,
        p50_ms=math.nan,
        p99_ms=math.nan,
        bad=seen["refused"],
    )
