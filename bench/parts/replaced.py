"""One member and three beside as many of the product that they replace, on this machine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least
from bench.load.loads import MAP_LOADS
from bench.load.spread import measure_constant, measure_spread
from bench.load.wrk import measure
from bench.servers.cluster import SIZE, three_members
from bench.servers.members import member
from bench.servers.replaced import PATH, VERSION, missing, replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.figures import Figure, Verdict
    from bench.load.wrk import Load, Sample
    from bench.options import Options
    from bench.processes import Server

TITLE: Final = "Beside the replaced product"
ALONE_BARS: Final = {64: 3.0}
"""How many times its rate one member is to have, by connections."""
BARS: Final = {64: 2.5, 512: 4.0}
"""The same of three members."""
WARM_S: Final = 20
"""How long its members are driven with each load before: it compiles while it runs."""
_MEANING: Final = (
    f"Members beside as many of Hazelcast {VERSION}, the same requests to its REST interface, all "
    "in memory and with its own defaults (one backup, which a POST waits for; a GET is answered by "
    "whoever owns the key). Its members are driven for some time first."
)


def measured(options: Options) -> list[Section]:
    """Measure POST and GET on both, first one member, then three."""
    why = missing()
    if why is not None:
        return [Section(TITLE, f"{_MEANING}\n\n{why}.")]
    with member() as alone, replaced(1) as others:
        own = partial(measure, alone)
        seen = _beside(own, others, ALONE_BARS, options)
    with three_members() as members, replaced(SIZE) as others:
        own = partial(measure_spread, members.all)
        seen |= _beside(own, others, BARS, options)
    figures = list(seen.values())
    verdicts = [
        _verdict(seen, kind, connections, count, bar)
        for count, bars in ((1, ALONE_BARS), (SIZE, BARS))
        for connections, bar in bars.items()
        for kind in MAP_LOADS
    ]
    notes = [
        _cost(over.name, over, under)
        for over, under in zip(figures[::2], figures[1::2], strict=True)
    ]
    return [Section(TITLE, _MEANING, figures, verdicts, notes)]


def _beside(
    own: Callable[[Load, int], Sample],
    others: Sequence[Server],
    connections: Iterable[int],
    options: Options,
) -> dict[str, Figure]:
    """Measure both in turn, ours first, once the others are warm."""
    for load in MAP_LOADS.values():
        measure_constant(others, replace(load, path=PATH, connections=512), WARM_S)
    contenders: dict[str, Callable[[], Sample]] = {}
    for count in connections:
        for kind, load in MAP_LOADS.items():
            sized = replace(load, connections=count)
            theirs = replace(sized, path=PATH)
            contenders[_name(kind, count, len(others), "")] = partial(own, sized, options.seconds)
            contenders[_name(kind, count, len(others), "replaced")] = partial(
                measure_constant, others, theirs, options.seconds
            )
    return alternate(contenders, options.rounds)


def _name(kind: str, connections: int, count: int, whose: str) -> str:
    members = "1 member" if count == 1 else f"{count} members"
    return f"{members}, {kind}, {connections}{f', {whose}' if whose else ''}"


def _verdict(
    seen: Mapping[str, Figure], kind: str, connections: int, count: int, bar: float
) -> Verdict:
    over, under = (seen[_name(kind, connections, count, whose)] for whose in ("", "replaced"))
    name = f"{_name(kind, connections, count, '')} connections ÷ the replaced product, here"
    return at_least(name, over, under, bar)


def _cost(name: str, over: Figure, under: Figure) -> str:
    return (
        f"{name}: {over.rate / under.rate:.2f} x the rate at "
        f"{over.cpu_us / under.cpu_us:.2f} x the CPU of the replaced product."
    )
