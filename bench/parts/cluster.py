"""Three members on one machine: their rates, and what a request costs them and their servers."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least, at_least_rate
from bench.load.fill import fill_map, fill_queue
from bench.load.loads import GET, MIX, OFFER, POLL, POST, measuring
from bench.load.spread import cost_table, measure_bare, measure_constant, measure_spread
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.parts.persistence import disk_filesystem
from bench.processes import ask
from bench.servers.bare import bare
from bench.servers.cluster import SIZE, three_engines, three_members
from bench.servers.members import get_request, member, queue_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.figures import Figure, Verdict
    from bench.load.wrk import Load, Sample
    from bench.options import Options
    from bench.servers.cluster import ClusterMember

FEW: Final = 64
MANY: Final = 512
GROWTH_BAR: Final = 1.5
BARE_BAR: Final = 0.6
ANCHORS: Final = {"POST": 15_000, "GET": 19_000}
"""Requests a second of three processes of the replaced product, at 64 and at 512 connections."""
ANCHOR_BARS: Final = {FEW: 2.5, MANY: 4.0}
POLLED_PER_S: Final = 60_000
"""More than three members on one machine have served: so many items must be ready."""
_BARS_FOR: Final = ("POST", "GET")
_LOADS: Final = {"POST": POST, "GET": GET, "80 % GET, 20 % POST": MIX}
_MEANING: Final = (
    "Three members on this machine over loopback, {kept}; the connections are shared out over them "
    "and driven by a wrk with one thread for each member, all at the same time. wrk CPU is that of "
    "the busiest of the three; CPU is that of members and nats-servers together, and apart in the "
    "second table. A GET is never stale: it waits until the member has heard of everything that "
    "was answered before."
)
_BESIDE: Final = (
    " Beside them one member that is alone (`MemoryLog`), three processes with the same engine and "
    "without HTTP that keep as many operations in flight, and three bare `asyncio.Protocol`s that "
    "answer whatever comes with a constant, the ceiling for HTTP under asyncio on this machine."
)
_CONSTANT: Final = "constant answers"


def memory(options: Options) -> list[Section]:
    """Measure three members in memory beside one member, and beside their engines alone."""
    with (
        three_members() as members,
        member() as alone,
        three_engines() as engines,
        contextlib.ExitStack() as stack,
    ):
        fill_map(alone.port, 0, KEYS, VALUE_BYTES)
        contenders = _contenders(members.all, options)
        answer = ask(alone.port, get_request("1"))
        constants = [stack.enter_context(bare(answer)) for _ in range(SIZE)]
        for connections in (FEW, MANY):
            sized = replace(GET, connections=connections)
            contenders[_name("GET", connections, _CONSTANT)] = partial(
                measure_constant, constants, sized, options.seconds
            )
            for kind, load in _LOADS.items():
                one = measuring(alone, replace(load, connections=connections), options)
                contenders[_name(kind, connections, "one member")] = one
            for kind in _BARS_FOR:
                contenders[_name(kind, connections, "bare")] = partial(
                    measure_bare, engines, kind, connections, options.seconds
                )
        seen = alternate(contenders, options.rounds)
    meaning = _MEANING.format(kept="in memory") + _BESIDE
    notes = [cost_table([of for name, of in seen.items() if "one member" not in name])]
    notes += [*_ratios(seen, "one member"), *_ratios(seen, _CONSTANT), *_turns(seen)]
    return [Section("Three members", meaning, list(seen.values()), _verdicts(seen), notes)]


def disk(options: Options) -> list[Section]:
    """Measure three members whose servers sync each record to disk.

    Raises:
        BenchError: the directory is on no disk.
    """
    kind = disk_filesystem(options.data_directory)
    with three_members(options.data_directory) as members, three_members() as in_memory:
        contenders = _contenders(members.all, options)
        for connections in (FEW, MANY):
            load = replace(POST, connections=connections)
            beside = partial(measure_spread, in_memory.all, load, options.seconds)
            contenders[_name("POST", connections, "in memory")] = beside
        seen = alternate(contenders, options.rounds)
    meaning = _MEANING.format(kept=f"persistence on one disk ({kind}), synced before each answer")
    notes = [cost_table(list(seen.values())), *_ratios(seen, "in memory")]
    return [Section("Three members with fsync", meaning, list(seen.values()), (), notes)]


def _name(kind: str, connections: int, whose: str = "") -> str:
    return f"{kind}, {connections}{f', {whose}' if whose else ''}"


def _contenders(
    members: Sequence[ClusterMember], options: Options
) -> dict[str, Callable[[], Sample]]:
    fill_map(members[0].server.port, 0, KEYS, VALUE_BYTES)
    contenders: dict[str, Callable[[], Sample]] = {}
    for connections in (FEW, MANY):
        for kind, load in {**_LOADS, "offer": OFFER}.items():
            sized = replace(load, connections=connections)
            contenders[_name(kind, connections)] = partial(
                measure_spread, members, sized, options.seconds
            )
        poll = replace(POLL, connections=connections)
        contenders[_name("poll of ready items", connections)] = partial(
            _polled, members, poll, options.seconds
        )
    return contenders


def _polled(members: Sequence[ClusterMember], load: Load, seconds: int) -> Sample:
    """Measure polls of a queue that is filled first, and count who found nothing."""
    port = members[0].server.port
    fill_queue(port, max(0, POLLED_PER_S * seconds - queue_size(port)), VALUE_BYTES)
    before = queue_size(port)
    sample = measure_spread(members, load, seconds)
    found = before - queue_size(port)
    return replace(sample, bad=sample.bad + max(0, sample.requests - found))


def _verdicts(seen: Mapping[str, Figure]) -> list[Verdict]:
    verdicts = []
    for kind in _BARS_FOR:
        few, many = seen[_name(kind, FEW)], seen[_name(kind, MANY)]
        name = f"{SIZE} members, {kind}: {MANY} ÷ {FEW} connections"
        verdicts.append(at_least(name, many, few, GROWTH_BAR))
        for connections, of in ((FEW, few), (MANY, many)):
            start = f"{SIZE} members, {kind}, {connections} connections ÷ "
            bare = seen[_name(kind, connections, "bare")]
            verdicts.append(at_least(f"{start}bare engines", of, bare, BARE_BAR))
            anchor = ANCHORS[kind]
            verdicts.append(
                at_least_rate(
                    f"{start}the replaced product's three",
                    of,
                    anchor,
                    ANCHOR_BARS[connections],
                    f"{anchor:,}/s on the project's reference machine",
                )
            )
    return verdicts


def _ratios(seen: Mapping[str, Figure], whose: str) -> list[str]:
    """Say how the rates are to those of somebody else, where there are any."""
    pairs = [(name, seen.get(f"{name}, {whose}"), of) for name, of in seen.items()]
    return [
        f"{name}: {of.rate / other.rate:.2f} x the rate, {of.cpu_us / other.cpu_us:.1f} x the CPU "
        f"of {whose}."
        for name, other, of in pairs
        if other is not None
    ]


def _turns(seen: Mapping[str, Figure]) -> list[str]:
    """Say how the rates are to those of engines and of HTTP that share the processors."""
    said = []
    for connections in (FEW, MANY):
        constant = seen[_name("GET", connections, _CONSTANT)]
        for kind in _BARS_FOR:
            bare = seen[_name(kind, connections, "bare")]
            both = 1 / (1 / bare.rate + 1 / constant.rate)
            ratio = seen[_name(kind, connections)].rate / both
            said.append(
                f"{_name(kind, connections)}: {ratio:.2f} x the rate of bare engines and constant "
                f"answers that take turns ({both:,.0f}/s)."
            )
    return said
