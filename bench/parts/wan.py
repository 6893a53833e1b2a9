"""What WAN replication costs a member's clients, its memory and its target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_most, alternate, at_least
from bench.load.fill import fill_map
from bench.load.loads import GET, MIX, POST
from bench.load.wrk import KEYS, VALUE_BYTES, measure
from bench.parts import wan_flow
from bench.processes import rss_bytes
from bench.servers.wan import Publishing, sink, wan_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.figures import Figure, Verdict
    from bench.load.wrk import Load, Sample
    from bench.options import Options

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
LOADS: Final = {"POST": POST, "GET": GET, "80 % GET, 20 % POST": MIX}
ENTRIES: Final = 300_000
"""Of a map whose memory is looked at."""
OFF_BYTES: Final = 1.0
"""Of an entry: what is allocated in pieces of 256 KiB says no less."""
STAMP_BYTES: Final = 100.0
QUEUED_BYTES: Final = 170.0
_MEANING: Final = (
    "One member in memory without WAN replication; with a publisher to which no map refers; with "
    "the map replicated and the publisher PAUSED, so that the queue grows up to all keys; and with "
    "the publisher REPLICATING to a sink, which acknowledges each batch at once and keeps nothing. "
    "The sink and wrk share the cores with the member that is asked."
)


def measured(options: Options) -> list[Section]:
    """Measure POST and GET of a replicated map, the memory of its entries, and what is carried."""
    seen = _rates(options)
    memory, notes = _memory()
    verdicts = [
        at_least(f"WAN, {kind}: {who} ÷ {NONE}", seen[_name(kind, who)], seen[_name(kind)], bar)
        for who, bars in BARS.items()
        for kind, bar in bars.items()
    ]
    title = "WAN replication: what clients of a source notice"
    return [
        Section(title, _MEANING, list(seen.values()), [*verdicts, *memory], [*notes, *_more(seen)]),
        *wan_flow.measured(options),
    ]


def _name(kind: str, who: str = NONE) -> str:
    return f"{kind}, {who}"


def _rates(options: Options) -> dict[str, Figure]:
    with (
        sink() as target,
        wan_source(None) as none,
        wan_source(Publishing(target.port, referred=False)) as off,
        wan_source(Publishing(target.port, state=PAUSED)) as paused,
        wan_source(Publishing(target.port)) as replicating,
    ):
        sources = {NONE: none, OFF: off, PAUSED: paused, REPLICATING: replicating}
        for source in sources.values():
            fill_map(source.server.port, 0, KEYS, VALUE_BYTES)
        replicating.drain()

        def turn(who: str, load: Load) -> Sample:
            sample = measure(sources[who].server, load, options.seconds)
            if who == REPLICATING:
                replicating.drain()  # what it still sends would cost the next one
            return sample

        contenders = {
            _name(kind, who): (lambda who=who, load=load: turn(who, load))
            for kind, load in LOADS.items()
            for who in sources
        }
        return alternate(contenders, options.rounds)


def _memory() -> tuple[list[Verdict], list[str]]:
    """Measure what an entry takes: alone, with a stamp, and with a place in a queue as well."""
    with sink() as target:
        none = _entry_bytes(None)
        off = _entry_bytes(Publishing(target.port, referred=False))
        stamped = _entry_bytes(Publishing(target.port, state="STOPPED"))
        queued = _entry_bytes(Publishing(target.port, state=PAUSED))
    verdicts = [
        absolute_at_most(f"WAN, memory an entry: {OFF}", off - none, OFF_BYTES, "B"),
        absolute_at_most("WAN, memory of a stamp", stamped - none, STAMP_BYTES, "B"),
        absolute_at_most("WAN, memory of a queued key", queued - stamped, QUEUED_BYTES, "B"),
    ]
    notes = [
        f"An entry of {ENTRIES:,} takes {none:.1f} bytes without WAN replication, {off:.1f} with a "
        f"publisher to which the map does not refer, {stamped:.1f} with a stamp, {queued:.1f} with "
        "a stamp and a place in a queue (resident memory, sizes of dictionaries jump)."
    ]
    return verdicts, notes


def _entry_bytes(publishing: Publishing | None) -> float:
    with wan_source(publishing) as source:
        fill_map(source.server.port, ENTRIES, KEYS, VALUE_BYTES)
        before = rss_bytes(source.server.pids)
        fill_map(source.server.port, 0, ENTRIES, VALUE_BYTES)
        return (rss_bytes(source.server.pids) - before) / ENTRIES


def _more(seen: Mapping[str, Figure]) -> list[str]:
    return [
        f"{name}: {of.rate / seen[_name(kind)].rate:.2f} x the rate, "
        f"{of.cpu_us - seen[_name(kind)].cpu_us:+.1f} µs of CPU a request, of {NONE}."
        for kind in LOADS
        for who in BARS
        for name, of in [(_name(kind, who), seen[_name(kind, who)])]
    ]
