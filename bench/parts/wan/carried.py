"""How many changes two clusters carry from one to the other, and how late they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from bench.figures import absolute_at_least, absolute_at_most
from bench.load.fill import fill_map
from bench.load.paced import Prober, pacing
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.servers.wan_members import Publishing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from bench.figures import Figure, Verdict
    from bench.load.paced import Paced, Pacer
    from bench.options import Options
    from bench.processes import Server
    from bench.servers.wan_site import WanSite

SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Of the source's highest rate, tried in this order until one is too much."""
HALF: Final = 0.5
"""Of the source's highest rate, at which the lag is looked at."""
LAG_P50_MS: Final = 20.0
LAG_P99_MS: Final = 250.0
OFFER_S: Final = 10
"""Of a share, at least: a queue that grows slowly must have time for it."""
HOLD_S: Final = 60
"""Of the share that is asked for."""
GROWTH_S: Final = 0.2
"""A queue grows when it ends longer than it began by what is written in so long: places are
acknowledged in one record of the log every 100 ms."""
LATE: Final = 0.97
"""Of the offered rate: a source that answers less cannot do more."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """What is looked at.

    Attributes:
        name: of the bars.
        sources: runs what sends, or the same without WAN replication.
        targets: runs what takes it, and tells the ports of its WAN listeners.
        highest: returns the highest rate of a source.
        share: of that rate, which it must keep up.
    """

    name: str
    sources: Callable[[Publishing | None], AbstractContextManager[WanSite]]
    targets: Callable[[], AbstractContextManager[tuple[WanSite, tuple[int, ...]]]]
    highest: Callable[[WanSite, Options], Figure]
    share: float


@dataclass(frozen=True, slots=True)
class Carried:
    """What was seen of two clusters."""

    highest: Figure
    verdicts: list[Verdict]
    notes: list[str]


def carried(clusters: Clusters, options: Options) -> Carried:
    """Measure what keeps up, and the lag."""
    highest = highest_rate(clusters, options)
    rate = highest.rate * clusters.share
    with (
        clusters.targets() as (target, ports),
        clusters.sources(Publishing(ports)) as source,
    ):
        pin(source.servers, target.servers)
        with pacing(*source.ports) as pacer:
            lags = _lags(source, target, pacer, highest.rate * HALF, options)
            kept, notes = _keeps_up(source, pacer, highest.rate, options)
            held = pacer.offer(rate, HOLD_S, source.queued)
            source.drain()
    share = f"{clusters.name}, share of the source's highest rate"
    grown = f"{clusters.name}, growth of the queue in {HOLD_S} s at {clusters.share} of it"
    verdicts = [
        absolute_at_least(share, kept, clusters.share, "x"),
        absolute_at_most(grown, max(0.0, growth(held)) / rate, GROWTH_S, "s"),
        *_lag_verdicts(clusters.name, lags),
    ]
    notes += [
        f"For {HOLD_S} s at {clusters.share} of the highest rate {held.rate:,.0f}/s were answered, "
        f"and the queue ended with {_last(held):,.0f} keys. Its growth is given in seconds of what "
        "was offered."
    ]
    return Carried(highest, verdicts, [*notes, _lag_note(lags)])


def _lag_verdicts(name: str, lags: Sequence[float]) -> list[Verdict]:
    lag = f"{name}, lag at half of that rate"
    return [
        absolute_at_most(f"{lag}, p50", median(lags), LAG_P50_MS, "ms"),
        absolute_at_most(f"{lag}, p99", _p99(lags), LAG_P99_MS, "ms"),
    ]


def _lag_note(lags: Sequence[float]) -> str:
    return (
        f"Lag of {len(lags)} keys: {median(lags):.1f} ms p50, {_p99(lags):.1f} ms p99, "
        f"{max(lags):.1f} ms at most."
    )


def _p99(times: Sequence[float]) -> float:
    return quantiles(times, n=100)[98]


def pin(sources: Iterable[Server], targets: Iterable[Server]) -> None:
    """Give sources and targets a core each, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    for servers, core in zip((sources, targets), cores, strict=False):
        for pid in [pid for server in servers for pid in server.pids]:
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), {core})


def highest_rate(clusters: Clusters, options: Options) -> Figure:
    """Return the rate of a source without WAN replication, on a core of its own."""
    with clusters.sources(None) as alone:
        pin(alone.servers, ())
        fill_map(alone.ports[0], 0, KEYS, VALUE_BYTES)
        return clusters.highest(alone, options)


def growth(seen: Paced) -> float:
    """Return by how much the queue was longer in the last third of the time than in the first."""
    lengths = [length for _, length in seen.looked]
    third = max(1, len(lengths) // 3)
    return median(lengths[-third:]) - median(lengths[:third])


def _keeps_up(
    source: WanSite, pacer: Pacer, highest: float, options: Options
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


def _last(seen: Paced) -> float:
    lengths = [length for _, length in seen.looked]
    return median(lengths[-max(1, len(lengths) // 3) :])


def _lags(
    source: WanSite, target: WanSite, pacer: Pacer, rate: float, options: Options
) -> Sequence[float]:
    prober = Prober(source.ports[0], target.ports[0])
    pacer.offer(rate, max(options.seconds, OFFER_S), prober.look)
    source.drain()
    return prober.lags_ms
