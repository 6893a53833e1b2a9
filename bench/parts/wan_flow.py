"""How many changes a source and a target carry, how late they are, and what each costs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_least, absolute_at_most, alternate
from bench.load.fill import fill_map
from bench.load.loads import POST, measuring
from bench.load.paced import Prober, pacing
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.processes import cpu_time
from bench.servers.wan import Publishing, wan_source, wan_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.figures import Figure
    from bench.load.paced import Paced, Pacer
    from bench.options import Options
    from bench.processes import Server
    from bench.servers.wan import WanMember

SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Of the source's highest rate, tried in this order until one is too much."""
KEEPS_UP_BAR: Final = 0.5
HALF: Final = 0.5
"""Of the source's highest rate, at which the lag is looked at."""
LAG_P50_MS: Final = 20.0
LAG_P99_MS: Final = 250.0
SOURCE_US: Final = 4.0
TARGET_US: Final = 9.0
OFFER_S: Final = 10
"""Of a share, at least: a queue that grows slowly must have time for it."""
CHANGES: Final = 200_000
"""Whose cost is looked at."""
GROWTH_S: Final = 0.2
"""A queue grows when it ends longer than it began by what is written in so long: places are
acknowledged in one record of the log every 100 ms."""
LATE: Final = 0.97
"""Of the offered rate: a source that answers less cannot do more."""
_MEANING: Final = (
    "One member in memory that replicates to another one over loopback, each pinned to a core of "
    "its own; the load generator runs on either. Every write has a key of its own and a value that "
    "deflates badly, in 64 connections at a fixed rate: shares of the rate at which wrk drives the "
    "source alone while it replicates nothing."
)


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one change, on its way from a queue to the target."""

    source_us: float
    target_us: float
    sent_bytes: float
    rate: float


def measured(options: Options) -> list[Section]:
    """Measure what keeps up, the lag and the costs."""
    with wan_target() as (target, port), wan_source(Publishing(port)) as source:
        _pin(source.server, target)
        highest = _highest(options)
        with pacing(source.server.port) as pacer:
            kept, shares = _keeps_up(source, pacer, highest.rate, options)
            lags = _lags(source, target, pacer, highest.rate * HALF, options)
    costs = _costs(options, "AUTO")
    plain = _costs(options, "NONE")
    p50, p99 = median(lags), quantiles(lags, n=100)[98]
    verdicts = [
        absolute_at_least("WAN, share of the source's highest rate", kept, KEEPS_UP_BAR, "x"),
        absolute_at_most("WAN, lag at half of that rate, p50", p50, LAG_P50_MS, "ms"),
        absolute_at_most("WAN, lag at half of that rate, p99", p99, LAG_P99_MS, "ms"),
        absolute_at_most("WAN, CPU of the source a change", costs.source_us, SOURCE_US, "µs"),
        absolute_at_most("WAN, CPU of the target a change", costs.target_us, TARGET_US, "µs"),
    ]
    notes = [
        *shares,
        f"Lag of {len(lags)} keys: {p50:.1f} ms p50, {p99:.1f} ms p99, {max(lags):.1f} ms at most.",
        *(_told(name, of) for name, of in (("deflated", costs), ("as it is", plain))),
    ]
    return [Section("WAN replication: what is carried", _MEANING, [highest], verdicts, notes)]


def _pin(source: Server, target: Server) -> None:
    """Give source and target a core each, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    for server, core in zip((source, target), cores, strict=False):
        for pid in server.pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), {core})


def _highest(options: Options) -> Figure:
    with wan_source(None) as alone:
        _pin(alone.server, alone.server)
        fill_map(alone.server.port, 0, KEYS, VALUE_BYTES)
        contenders = {"POST, no WAN replication": measuring(alone.server, POST, options)}
        return next(iter(alternate(contenders, options.rounds).values()))


def _keeps_up(
    source: WanMember, pacer: Pacer, highest: float, options: Options
) -> tuple[float, list[str]]:
    """Return the greatest share at which the queue does not grow, and what was seen of each."""
    kept, notes = 0.0, []
    for share in SHARES:
        rate = highest * share
        seen = pacer.offer(rate, max(options.seconds, OFFER_S), source.queued)
        grows = growth(seen) > rate * GROWTH_S
        notes.append(
            f"{share:.1f} of the highest rate, {rate:,.0f}/s: {seen.rate:,.0f}/s were answered, "
            f"the queue {'grew' if grows else 'held'} at {_last(seen):,.0f} keys."
        )
        source.drain()
        if grows or seen.rate < rate * LATE:
            break
        kept = share
    return kept, notes


def growth(seen: Paced) -> float:
    """Return by how much the queue was longer in the last third of the time than in the first."""
    lengths = [length for _, length in seen.looked]
    third = max(1, len(lengths) // 3)
    return median(lengths[-third:]) - median(lengths[:third])


def _last(seen: Paced) -> float:
    lengths = [length for _, length in seen.looked]
    return median(lengths[-max(1, len(lengths) // 3) :])


def _lags(
    source: WanMember, target: Server, pacer: Pacer, rate: float, options: Options
) -> Sequence[float]:
    prober = Prober(source.server.port, target.port)
    pacer.offer(rate, max(options.seconds, OFFER_S), prober.look)
    source.drain()
    return prober.lags_ms


def _costs(options: Options, compression: str) -> Costs:
    """Let a queue be sent to a member as fast as it goes."""
    with (
        wan_target() as (target, port),
        wan_source(Publishing(port, state="PAUSED", compression=compression)) as source,
    ):
        _pin(source.server, target)
        with pacing(source.server.port) as pacer:
            pacer.offer(CHANGES / options.seconds, options.seconds)
        changes = source.queued()
        before = cpu_time(source.server.pids), cpu_time(target.pids)
        began = time.monotonic()
        source.tell("resumePublisher")
        source.drain()
        passed = time.monotonic() - began
        after = cpu_time(source.server.pids), cpu_time(target.pids)
        sent_bytes = source.sent_bytes()
    used = [
        1e6 * (late.user_s + late.system_s - early.user_s - early.system_s) / changes
        for early, late in zip(before, after, strict=True)
    ]
    return Costs(used[0], used[1], sent_bytes / changes, changes / passed)


def _told(name: str, of: Costs) -> str:
    return (
        f"A change that travels {name}: {of.sent_bytes:.0f} bytes, {of.source_us:.1f} µs of CPU "
        f"at the source, {of.target_us:.1f} µs at the target; {CHANGES:,} that wait are sent at "
        f"{of.rate:,.0f}/s."
    )
