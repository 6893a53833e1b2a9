"""One member and three beside as many of the product that they replace, on this machine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.cluster import SIZE, three_members
from bench.figures import Section, alternate, at_least
from bench.loads import MAP_LOADS, measuring
from bench.members import member
from bench.replaced import PATH, VERSION, missing, replaced
from bench.spread import measure_constant, measure_spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.figures import Figure, Verdict
    from bench.options import Options
    from bench.processes import Server

TITLE: Final = "Beside the replaced product"
ALONE_BAR: Final = 3.0
BARS: Final = {64: 2.5, 512: 4.0}
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
    figures: list[Figure] = []
    verdicts: list[Verdict] = []
    with member() as alone, replaced(1) as others:
        _warm(others)
        contenders = {}
        for kind, load in MAP_LOADS.items():
            contenders[_name(kind, 64, 1, "")] = measuring(alone, load, options)
            theirs = partial(measure_constant, others, replace(load, path=PATH), options.seconds)
            contenders[_name(kind, 64, 1, "replaced")] = theirs
        seen = alternate(contenders, options.rounds)
    figures += seen.values()
    verdicts += [_verdict(seen, kind, 64, 1, ALONE_BAR) for kind in MAP_LOADS]
    with three_members() as members, replaced(SIZE) as others:
        _warm(others)
        contenders = {}
        for connections in BARS:
            for kind, load in MAP_LOADS.items():
                sized = replace(load, connections=connections)
                own = partial(measure_spread, members.all, sized, options.seconds)
                contenders[_name(kind, connections, SIZE, "")] = own
                theirs = partial(
                    measure_constant, others, replace(sized, path=PATH), options.seconds
                )
                contenders[_name(kind, connections, SIZE, "replaced")] = theirs
        seen = alternate(contenders, options.rounds)
    figures += seen.values()
    verdicts += [
        _verdict(seen, kind, connections, SIZE, bar)
        for connections, bar in BARS.items()
        for kind in MAP_LOADS
    ]
    notes = [
        _cost(over.name, over, under)
        for over, under in zip(figures[::2], figures[1::2], strict=True)
    ]
    return [Section(TITLE, _MEANING, figures, verdicts, notes)]


def _name(kind: str, connections: int, count: int, whose: str) -> str:
    members = "1 member" if count == 1 else f"{count} members"
    return f"{members}, {kind}, {connections}{f', {whose}' if whose else ''}"


def _warm(servers: Sequence[Server]) -> None:
    for load in MAP_LOADS.values():
        measure_constant(servers, replace(load, path=PATH, connections=512), WARM_S)


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
