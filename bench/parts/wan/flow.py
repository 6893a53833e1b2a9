"""How many changes one member carries to another one, how late they are, and what each costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_most, alternate
from bench.load.loads import POST, measuring
from bench.load.paced import pacing
from bench.parts.wan.carried import Clusters, carried, pin
from bench.processes import cpu_time
from bench.servers.wan_members import Publishing, wan_source, wan_target

if TYPE_CHECKING:
    from bench.figures import Figure
    from bench.options import Options
    from bench.servers.wan_site import WanSite

SHARE: Final = 0.5
SOURCE_US: Final = 4.0
TARGET_US: Final = 9.0
CHANGES: Final = 200_000
"""Whose cost is looked at."""
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
    seen = carried(ONE, options)
    costs = _costs(options, "AUTO")
    plain = _costs(options, "NONE")
    verdicts = [
        *seen.verdicts,
        absolute_at_most("WAN, CPU of the source a change", costs.source_us, SOURCE_US, "µs"),
        absolute_at_most("WAN, CPU of the target a change", costs.target_us, TARGET_US, "µs"),
    ]
    notes = [
        *seen.notes,
        *(_told(name, of) for name, of in (("deflated", costs), ("as it is", plain))),
    ]
    title = "WAN replication: what is carried"
    return [Section(title, _MEANING, [seen.highest], verdicts, notes)]


def highest(alone: WanSite, options: Options) -> Figure:
    """Return the rate of one member."""
    contenders = {"POST, no WAN replication": measuring(alone.server, POST, options)}
    return next(iter(alternate(contenders, options.rounds).values()))


ONE: Final = Clusters("WAN", wan_source, wan_target, highest, SHARE)


def _costs(options: Options, compression: str) -> Costs:
    """Let a queue be sent to a member as fast as it goes."""
    with (
        wan_target() as (target, ports),
        wan_source(Publishing(ports, state="PAUSED", compression=compression)) as source,
    ):
        pin(source.servers, target.servers)
        with pacing(*source.ports) as pacer:
            pacer.offer(CHANGES / options.seconds, options.seconds)
        changes = source.queued()
        before = cpu_time(source.server.pids), cpu_time(target.server.pids)
        began = time.monotonic()
        source.tell("resumePublisher")
        source.drain()
        passed = time.monotonic() - began
        after = cpu_time(source.server.pids), cpu_time(target.server.pids)
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
