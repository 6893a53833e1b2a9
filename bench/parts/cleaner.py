"""What replacing their logs by snapshots costs members under load, and what it bounds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least
from bench.load.fill import fill_map
from bench.load.loads import GET, POST
from bench.load.spread import cost_table, measure_spread
from bench.load.wrk import KEYS
from bench.processes import BenchError, rss_bytes
from bench.servers.cluster import three_members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.options import Options
    from bench.servers.cluster import ClusterMember, Members

VALUE_BYTES: Final = 1024
CONNECTIONS: Final = (64, 512)
SECONDS: Final = 10
"""Of a run, at least: in less a log may not get large enough to be replaced."""
BAR: Final = 0.8
_WITHOUT: Final = "never cleaned"
SNAPSHOT_LOG_LINE: Final = "is replaced by a snapshot"
"""What a member logs of each that it makes."""
_MEANING: Final = (
    "Three members in memory, values of {value} bytes in {keys:,} keys, runs of {seconds} s, in "
    "turns with three that never replace a log by a snapshot. A log is due when it has 64 MiB and "
    "is more than twice as large as what lives: under POST that comes every few seconds."
)


def measured(options: Options) -> list[Section]:
    """Measure POST and GET with the cleaner at work, and without it."""
    seconds = max(options.seconds, SECONDS)
    with three_members() as cleaned, three_members(module="bench.servers.uncleaned") as others:
        contenders = {}
        both = {"": cleaned.all, f", {_WITHOUT}": others.all}
        for members in both.values():
            fill_map(members[0].server.port, 0, KEYS, VALUE_BYTES)
        names = [f"{kind}, {count}" for count in CONNECTIONS for kind in ("POST", "GET")]
        for count in CONNECTIONS:
            for load in (replace(POST, body_bytes=VALUE_BYTES), GET):
                sized = replace(load, connections=count)
                for whose, members in both.items():
                    contenders[f"{load.method}, {count}{whose}"] = partial(
                        measure_spread, members, sized, seconds
                    )
        seen = alternate(contenders, options.rounds)
        weights = {whose: _mebibytes(members) for whose, members in both.items()}
        snapshots = _snapshots(cleaned, others)
    verdicts = [
        at_least(f"{name} connections: cleaned ÷ {_WITHOUT}", seen[name], seen[_other(name)], BAR)
        for name in names
    ]
    notes = [
        cost_table(list(seen.values())),
        f"Logs were replaced by snapshots {snapshots} times, never in those that are {_WITHOUT}. "
        f"Afterwards the largest nats-server has {weights['']:,.0f} MiB in memory, where the logs "
        f"are {_WITHOUT} {weights[f', {_WITHOUT}']:,.0f} MiB.",
    ]
    meaning = _MEANING.format(value=VALUE_BYTES, keys=KEYS, seconds=seconds)
    return [Section("The cleaner under load", meaning, list(seen.values()), verdicts, notes)]


def _other(name: str) -> str:
    return f"{name}, {_WITHOUT}"


def _snapshots(cleaned: Members, others: Members) -> int:
    """Return how many snapshots were made.

    Raises:
        BenchError: it was none, or the others made some: nothing was compared.
    """
    made, unwanted = cleaned.count(SNAPSHOT_LOG_LINE), others.count(SNAPSHOT_LOG_LINE)
    if unwanted or not made:
        raise BenchError(f"{made} snapshots of the cleaned logs, {unwanted} of those {_WITHOUT}")
    return made


def _mebibytes(members: Sequence[ClusterMember]) -> float:
    """Return what the largest of the members' servers has in memory."""
    return max(rss_bytes((member.log_pid,)) for member in members) / (1 << 20)
