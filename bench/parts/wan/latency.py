"""How much longer writes take at half of the highest rate while they are replicated."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_most
from bench.load.paced import pacing
from bench.load.timed import Timing
from bench.parts.wan.carried import HALF, OFFER_S, highest_rate, pin
from bench.parts.wan.clients import NONE, REPLICATING
from bench.parts.wan.flow import ONE
from bench.servers.wan_members import Publishing, wan_source
from bench.servers.wan_sink import sink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.load.paced import Pacer
    from bench.load.timed import Latency
    from bench.options import Options
    from bench.servers.wan_site import WanSite

P99_BAR: Final = 1.2
_MEANING: Final = (
    "One member in memory on a core of its own, without WAN replication and in turns with one that "
    "replicates to a sink on the other core. Each is offered half of the highest rate in "
    "64 connections, each write with a key of its own, while one more connection writes and waits "
    "for the answer, again and again: it is timed."
)


def measured(options: Options) -> list[Section]:
    """Measure p99 of POST with and without WAN replication."""
    highest = highest_rate(ONE, options)
    seconds = max(options.seconds, OFFER_S)
    with (
        sink() as target,
        wan_source(None) as none,
        wan_source(Publishing((target.port,))) as replicating,
    ):
        pin((*none.servers, *replicating.servers), (target,))
        sites = {NONE: none, REPLICATING: replicating}
        seen: dict[str, list[Latency]] = {who: [] for who in sites}
        with pacing(none.ports[0]) as one, pacing(replicating.ports[0]) as other:
            pacers = {NONE: one, REPLICATING: other}
            for _ in range(options.rounds):
                for who, site in sites.items():
                    seen[who].append(_timed(site, pacers[who], highest.rate * HALF, seconds))
                replicating.drain()
    p99 = {who: median(each.p99_ms for each in of) for who, of in seen.items()}
    ratio = p99[REPLICATING] / p99[NONE]
    name = f"WAN, POST at half of the highest rate, p99: {REPLICATING} ÷ {NONE}"
    title = "WAN replication: latency of writes"
    verdict = absolute_at_most(name, ratio, P99_BAR, "x")
    return [Section(title, _MEANING, [highest], [verdict], _notes(seen))]


def _timed(site: WanSite, pacer: Pacer, rate: float, seconds: int) -> Latency:
    timing = Timing(site.ports[0], seconds - 1)
    pacer.offer(rate, seconds, timing.look)
    return timing.seen()


def _notes(seen: Mapping[str, Sequence[Latency]]) -> list[str]:
    return [
        f"{who}: p50 {median(each.p50_ms for each in of):.2f} ms, p99 "
        f"{', '.join(f'{each.p99_ms:.2f}' for each in of)} ms, of "
        f"{sum(each.count for each in of):,} writes."
        for who, of in seen.items()
    ]
