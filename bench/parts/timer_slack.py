"""What it saves to let timers of nats-server end late."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least, log_at_most
from bench.load.fill import fill_map
from bench.load.loads import GET, POST
from bench.load.spread import cost_table, measure_spread
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.processes import BenchError
from bench.servers.cluster import three_members
from bench.servers.precise import SLACK_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.options import Options
    from bench.servers.cluster import ClusterMember

CONNECTIONS: Final = 64
CPU_BAR: Final = 0.9
RATE_BAR: Final = 1.0
_PRECISE: Final = "precise timers"
_MEANING: Final = (
    "Three members in memory, 64 connections, in turns with three whose nats-servers have timers "
    "as precise as Linux has them (50 µs). The members have theirs end up to 2 ms late."
)


def measured(options: Options) -> list[Section]:
    """Measure POST and GET with late timers, and with precise ones.

    Raises:
        BenchError: the servers of both have the same timers.
    """
    with three_members() as late, three_members(module="bench.servers.precise") as precise:
        both = {"": late.all, f", {_PRECISE}": precise.all}
        if _slack_ns(precise.all) != {SLACK_NS} or _slack_ns(late.all) & {SLACK_NS}:
            raise BenchError("the timers of both are the same: nothing would be compared")
        contenders = {}
        for whose, members in both.items():
            fill_map(members[0].server.port, 0, KEYS, VALUE_BYTES)
            for load in (POST, GET):
                sized = replace(load, connections=CONNECTIONS)
                contenders[f"{load.method}{whose}"] = partial(
                    measure_spread, members, sized, options.seconds
                )
        seen = alternate(contenders, options.rounds)
    verdicts = []
    for name in (POST.method, GET.method):
        pair = seen[name], seen[f"{name}, {_PRECISE}"]
        compared = f"{name}: late ÷ {_PRECISE}"
        verdicts.append(log_at_most(f"{compared}, CPU of nats-servers", *pair, CPU_BAR))
        verdicts.append(at_least(f"{compared}, rate", *pair, RATE_BAR))
    notes = [cost_table(list(seen.values()))]
    return [Section("Late timers of the servers", _MEANING, list(seen.values()), verdicts, notes)]


def _slack_ns(members: Sequence[ClusterMember]) -> set[int]:
    files = (Path(f"/proc/{member.log_pid}/timerslack_ns") for member in members)
    return {int(file.read_text(encoding="ascii")) for file in files}
