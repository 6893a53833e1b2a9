"""What WAN replication costs three members, and what three carry to three others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least
from bench.load.fill import fill_map
from bench.load.loads import GET, POST
from bench.load.spread import cost_table, measure_spread
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.parts.wan.carried import Clusters, carried
from bench.parts.wan.clients import NONE, PAUSED, REPLICATING, beside, named
from bench.servers.wan_members import Publishing, wan_sources, wan_targets
from bench.servers.wan_sink import sink

if TYPE_CHECKING:
    from bench.figures import Figure
    from bench.load.wrk import Load, Sample
    from bench.options import Options
    from bench.servers.wan_site import WanSite

FEW: Final = 64
MANY: Final = 512
SHARE: Final = 0.6
BARS: Final = {PAUSED: {"POST": 0.95}, REPLICATING: {"POST": 0.85, "GET": 0.95}}
"""Of the rate without WAN replication, at 64 connections."""
_LOADS: Final = {
    f"{load.method}, {count}": replace(load, connections=count)
    for count in (FEW, MANY)
    for load in (POST, GET)
}
_MEANING: Final = (
    "Three members in memory without WAN replication; and three that replicate to a sink, whose "
    "publisher is REPLICATING, or PAUSED on all of them. The connections are shared out over the "
    "members and driven by a wrk with one thread for each. All processes share the cores."
)
_CARRIED_MEANING: Final = (
    "Three members in memory that replicate to three others over loopback, the members of a "
    f"cluster and their servers on one core. Every write has a key of its own; {FEW} connections "
    "are shared out over the sources. The highest rate is that at which three wrk drive the "
    f"sources with {MANY} connections while they replicate nothing."
)


def measured(options: Options) -> list[Section]:
    """Measure POST and GET of three members."""
    with (
        sink() as target,
        wan_sources(None) as none,
        wan_sources(Publishing((target.port,))) as sending,
    ):
        for site in (none, sending):
            fill_map(site.ports[0], 0, KEYS, VALUE_BYTES)
        sending.drain()
        contenders = {}
        for kind, load in _LOADS.items():
            contenders[named(kind)] = partial(measure_spread, none.cluster, load, options.seconds)
            contenders[named(kind, REPLICATING)] = partial(_replicating, sending, load, options)
            if load.method in BARS[PAUSED]:
                contenders[named(kind, PAUSED)] = partial(_paused, sending, load, options)
        seen = alternate(contenders, options.rounds)
    verdicts = [
        at_least(
            f"WAN, 3 members, {kind} connections: {who} ÷ {NONE}",
            seen[named(kind, who)],
            seen[named(kind)],
            bar,
        )
        for who, bars in BARS.items()
        for kind, bar in ((f"{method}, {FEW}", bar) for method, bar in bars.items())
    ]
    notes = [cost_table([*seen.values()]), *beside(seen, _LOADS, BARS)]
    title = "WAN replication of three members"
    return [Section(title, _MEANING, [*seen.values()], verdicts, notes)]


def flow(options: Options) -> list[Section]:
    """Measure what three members carry to three others."""
    seen = carried(THREE, options)
    title = "WAN replication: what three members carry"
    return [Section(title, _CARRIED_MEANING, [seen.highest], seen.verdicts, seen.notes)]


def highest(alone: WanSite, options: Options) -> Figure:
    """Return the rate of three members."""
    load = _LOADS[f"POST, {MANY}"]
    contenders = {
        f"POST, {MANY}, no WAN replication": partial(
            measure_spread, alone.cluster, load, options.seconds
        )
    }
    return next(iter(alternate(contenders, options.rounds).values()))


THREE: Final = Clusters("WAN, 3 members", wan_sources, wan_targets, highest, SHARE)


def _replicating(source: WanSite, load: Load, options: Options) -> Sample:
    sample = measure_spread(source.cluster, load, options.seconds)
    source.drain()
    return sample


def _paused(source: WanSite, load: Load, options: Options) -> Sample:
    source.tell("pausePublisher")
    sample = measure_spread(source.cluster, load, options.seconds)
    source.tell("resumePublisher")
    source.drain()
    return sample
