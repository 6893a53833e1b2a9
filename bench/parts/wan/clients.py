"""What clients of a source notice of WAN replication at the highest rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least
from bench.load.fill import fill_map
from bench.load.loads import GET, MIX, POST
from bench.load.wrk import KEYS, VALUE_BYTES, measure
from bench.parts.persistence import disk_filesystem
from bench.servers.wan_members import Publishing, wan_source
from bench.servers.wan_sink import sink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.figures import Figure, Verdict
    from bench.load.wrk import Load, Sample
    from bench.options import Options
    from bench.servers.wan_site import WanSite

NONE: Final = "no WAN replication"
OFF: Final = "a publisher, the map without a reference"
PAUSED: Final = "PAUSED"
REPLICATING: Final = "REPLICATING"
BARS: Final = {
    OFF: {"POST": 0.98, "GET": 0.98},
    PAUSED: {"POST": 0.88, "GET": 0.97},
    REPLICATING: {"POST": 0.70, "GET": 0.95},
}
"""Of the rate without WAN replication."""
DISK_BARS: Final = {REPLICATING: {"POST": 0.85, "GET": 0.95}}
LOADS: Final = {"POST": POST, "GET": GET, "80 % GET, 20 % POST": MIX}
_MEANING: Final = (
    "One member in memory without WAN replication; with a publisher to which no map refers; with "
    "the map replicated and the publisher PAUSED, so that the queue grows up to all keys; and with "
    "the publisher REPLICATING to a sink, which acknowledges each batch at once and keeps nothing. "
    "The sink and wrk share the cores with the member that is asked."
)
_DISK_MEANING: Final = (
    "One member that syncs each write to one disk ({kind}) before the answer, without WAN "
    "replication and REPLICATING to a sink."
)


def measured(options: Options) -> list[Section]:
    """Measure POST and GET of a member in memory."""
    with (
        sink() as target,
        wan_source(None) as none,
        wan_source(Publishing((target.port,), referred=False)) as off,
        wan_source(Publishing((target.port,), state=PAUSED)) as paused,
        wan_source(Publishing((target.port,))) as replicating,
    ):
        sources = {NONE: none, OFF: off, PAUSED: paused, REPLICATING: replicating}
        seen = _rates(sources, LOADS, options)
    title = "WAN replication: what clients of a source notice"
    verdicts = _verdicts("WAN", seen, BARS)
    return [Section(title, _MEANING, [*seen.values()], verdicts, beside(seen, LOADS, BARS))]


def disk(options: Options) -> list[Section]:
    """Measure POST and GET of a member with fsync.

    Raises:
        BenchError: the directory is on no disk.
    """
    kind = disk_filesystem(options.data_directory)
    with (
        sink() as target,
        wan_source(None, options.data_directory) as none,
        wan_source(Publishing((target.port,)), options.data_directory) as replicating,
    ):
        loads = {"POST": POST, "GET": GET}
        seen = _rates({NONE: none, REPLICATING: replicating}, loads, options)
    title = "WAN replication with fsync"
    verdicts = _verdicts("WAN, fsync", seen, DISK_BARS)
    notes = beside(seen, loads, DISK_BARS)
    return [Section(title, _DISK_MEANING.format(kind=kind), [*seen.values()], verdicts, notes)]


def named(kind: str, who: str = NONE) -> str:
    """Return the name of a figure."""
    return f"{kind}, {who}"


def beside(
    seen: Mapping[str, Figure], kinds: Mapping[str, Load], others: Mapping[str, object]
) -> list[str]:
    """Say how figures are beside those without WAN replication."""
    return [
        f"{name}: {of.rate / seen[named(kind)].rate:.2f} x the rate of {NONE}, "
        f"{seen[named(kind)].cpu_us / of.cpu_us:.2f} x the requests for the same CPU "
        f"({of.cpu_us - seen[named(kind)].cpu_us:+.1f} µs a request)."
        for kind in kinds
        for who in others
        for name, of in [(named(kind, who), seen.get(named(kind, who)))]
        if of is not None
    ]


def _rates(
    sources: Mapping[str, WanSite], loads: Mapping[str, Load], options: Options
) -> dict[str, Figure]:
    for source in sources.values():
        fill_map(source.server.port, 0, KEYS, VALUE_BYTES)
    sources[REPLICATING].drain()

    def turn(who: str, load: Load) -> Sample:
        sample = measure(sources[who].server, load, options.seconds)
        if who == REPLICATING:
            sources[who].drain()  # what it still sends would cost the next one
        return sample

    contenders = {
        named(kind, who): (lambda who=who, load=load: turn(who, load))
        for kind, load in loads.items()
        for who in sources
    }
    return alternate(contenders, options.rounds)


def _verdicts(
    title: str, seen: Mapping[str, Figure], bars: Mapping[str, Mapping[str, float]]
) -> list[Verdict]:
    return [
        at_least(f"{title}, {kind}: {who} ÷ {NONE}", seen[named(kind, who)], seen[named(kind)], bar)
        for who, of in bars.items()
        for kind, bar in of.items()
    ]
