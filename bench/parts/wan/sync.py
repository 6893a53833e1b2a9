"""How long synchronisations take, what they send, and what clients notice meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_most, at_least, figure
from bench.load.fill import fill_varied
from bench.load.loads import MAP_LOADS
from bench.load.relay import relaying
from bench.load.wrk import VALUE_BYTES, measure
from bench.parts.wan.carried import pin
from bench.processes import BenchError, ask, cpu_time
from bench.servers.members import get_request
from bench.servers.wan_members import COMPARING, FULL, Publishing, wan_source, wan_target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.load.relay import Relay
    from bench.load.wrk import Load, Sample
    from bench.options import Options
    from bench.servers.wan_site import WanSite

ENTRIES: Final = 1_000_000
DIFFERENCES: Final = 1_000
FULL_S: Final = 40.0
DELTA_TIME: Final = 0.25
DELTA_BYTES: Final = 0.05
CLIENT_BARS: Final = {"POST": 0.6, "GET": 0.8}
"""Of the rate while no synchronisation is under way."""
_DURING: Final = "during a full synchronisation"
_MEANING: Final = (
    f"One member in memory with {ENTRIES:,} entries of {VALUE_BYTES}-byte values that deflate "
    "badly, and an empty one, each on a core of its own; wrk and the relay that counts the bytes "
    "of both directions run on either. A full synchronisation sends everything. Then "
    f"{DIFFERENCES:,} entries get another value while the publisher is STOPPED, and a "
    "synchronisation that compares sends those. Times are from the call until the progress is "
    "FINISHED. What clients notice is measured in full synchronisations of entries that the target "
    "has already."
)


@dataclass(frozen=True, slots=True)
class Sync:
    """What a synchronisation took."""

    seconds: float
    passed_bytes: int
    source_s: float
    target_s: float


def measured(options: Options) -> list[Section]:
    """Measure a full synchronisation, one of few differences, and the clients meanwhile."""
    with wan_target() as (target, ports), relaying(ports[0]) as relay:
        publishing = Publishing((relay.port,), state="STOPPED", publishers=(COMPARING, FULL))
        with wan_source(publishing) as source:
            pin(source.servers, target.servers)
            fill_varied(source.ports[0], 0, ENTRIES, seed=1)
            full = _synchronised(source, target, relay, FULL)
            _check(source, target, ENTRIES - 1)
            fill_varied(source.ports[0], 0, DIFFERENCES, seed=2)
            delta = _synchronised(source, target, relay, COMPARING)
            _check(source, target, DIFFERENCES - 1)
            same = _synchronised(source, target, relay, COMPARING)
            seen = {name: figure(name, samples) for name, samples in _clients(source, options)}
    time_ratio = delta.seconds / full.seconds
    bytes_ratio = delta.passed_bytes / full.passed_bytes
    verdicts = [
        absolute_at_most(f"WAN, full sync of {ENTRIES:,} entries", full.seconds, FULL_S, "s"),
        absolute_at_most(
            f"WAN, sync of {DIFFERENCES:,} differences ÷ full, time", time_ratio, DELTA_TIME, "x"
        ),
        absolute_at_most(
            f"WAN, sync of {DIFFERENCES:,} differences ÷ full, bytes", bytes_ratio, DELTA_BYTES, "x"
        ),
        *(
            at_least(
                f"WAN, {kind} {_DURING} ÷ without", seen[f"{kind}, {_DURING}"], seen[kind], bar
            )
            for kind, bar in CLIENT_BARS.items()
        ),
    ]
    notes = [
        _told("Full", full),
        _told(f"With {DIFFERENCES:,} differences", delta),
        _told("Without differences", same),
    ]
    title = "WAN replication: synchronisations"
    return [Section(title, _MEANING, [*seen.values()], verdicts, notes)]


def _synchronised(source: WanSite, target: WanSite, relay: Relay, publisher: str) -> Sync:
    sites, before, began = (source, target), relay.passed_bytes, time.monotonic()
    used = [-_cpu_s(site) for site in sites]
    source.end_sync(source.begin_sync(publisher))
    seconds = time.monotonic() - began
    source_s, target_s = (early + _cpu_s(site) for early, site in zip(used, sites, strict=True))
    return Sync(seconds, relay.passed_bytes - before, source_s, target_s)


def _cpu_s(site: WanSite) -> float:
    used = cpu_time(site.server.pids)
    return used.user_s + used.system_s


def _check(source: WanSite, target: WanSite, key: int) -> None:
    """Look whether an entry has arrived.

    Raises:
        BenchError: it has not.
    """
    here, there = (
        ask(site.ports[0], get_request(str(key))).partition(b"\r\n\r\n")[2]
        for site in (source, target)
    )
    if here != there:
        raise BenchError("the target does not have what the synchronisation sent")


def _clients(source: WanSite, options: Options) -> Iterator[tuple[str, list[Sample]]]:
    """Yield what is measured of POST and GET, without and during a synchronisation."""
    for kind in CLIENT_BARS:
        without, during = [], []
        for _ in range(options.rounds):
            without.append(measure(source.server, MAP_LOADS[kind], options.seconds))
            during.append(_during_sync(source, MAP_LOADS[kind], options))
        yield kind, without
        yield f"{kind}, {_DURING}", during


def _during_sync(source: WanSite, load: Load, options: Options) -> Sample:
    """Measure while a synchronisation is under way.

    Raises:
        BenchError: the synchronisation was over too early.
    """
    uuid = source.begin_sync(FULL)
    sample = measure(source.server, load, options.seconds)
    if source.is_synchronised(uuid):
        raise BenchError("a synchronisation ended before the rate beside it was known")
    source.end_sync(uuid)
    return sample


def _told(name: str, of: Sync) -> str:
    return (
        f"{name}: {of.seconds:.2f} s, {of.passed_bytes / 1e6:.2f} MB, {of.source_s:.2f} s of CPU "
        f"at the source, {of.target_s:.2f} s at the target."
    )
