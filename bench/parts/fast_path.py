"""The fast path beside the complete HTTP implementation, and beside a server that does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least, cpu_at_most, p99_at_most
from bench.load.fill import fill_map
from bench.load.loads import MAP_LOADS, measuring
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.processes import ask
from bench.servers.bare import bare
from bench.servers.members import get_request, member, post_request

if TYPE_CHECKING:
    from bench.figures import Figure
    from bench.options import Options

RATE_BAR: Final = 3.5
P99_BAR: Final = 1.0
CPU_BAR: Final = 1.4
ANCHORS: Final = {"GET": (57_000, 24.0), "POST": (49_000, 28.0)}
"""Requests a second and CPU-µs a request of the replaced product's single member."""
_MEANING: Final = (
    "The same member with `http.lane.enabled` true and false, in memory, beside a bare "
    "`asyncio.Protocol` that gives each read the member's own answer as a constant, all on the "
    "event loop that a member has when nothing is set. Where members are compiled, all are but the "
    "one that is called interpreted."
)


def measured(options: Options) -> list[Section]:
    """Measure GET and POST of map entries on the fast path, on aiohttp and on the bare server."""
    figures: list[Figure] = []
    verdicts = []
    notes = []
    for method in MAP_LOADS:
        seen = _figures(method, options)
        fast_path, plain, interpreted, aiohttp, constant = seen
        figures += seen
        verdicts += [
            at_least(f"{method}: fast path ÷ aiohttp, rate", fast_path, aiohttp, RATE_BAR),
            p99_at_most(f"{method}: fast path ÷ aiohttp, p99", fast_path, aiohttp, P99_BAR),
            cpu_at_most(f"{method}: fast path ÷ bare protocol, CPU", fast_path, constant, CPU_BAR),
        ]
        notes += [_beside("on asyncio's own loop", method, fast_path, plain)]
        notes += [_beside("interpreted, not compiled", method, fast_path, interpreted)]
        notes.append(_beside_the_anchor(method, fast_path))
    return [Section("Fast path, aiohttp and a bare protocol", _MEANING, figures, verdicts, notes)]


def _figures(method: str, options: Options) -> list[Figure]:
    load = MAP_LOADS[method]
    request = get_request("1") if method == "GET" else post_request("1", b"v" * VALUE_BYTES)
    with (
        member(fast_path=True) as fast_path,
        member(fast_path=True, event_loop="asyncio") as plain,
        member(fast_path=True, compiled="off") as interpreted,
        member(fast_path=False) as aiohttp,
    ):
        for one in (fast_path, plain, interpreted, aiohttp):
            fill_map(one.port, 0, KEYS, VALUE_BYTES)
        with bare(ask(fast_path.port, request)) as constant:
            contenders = {
                f"{method}, fast path": measuring(fast_path, load, options),
                f"{method}, fast path, asyncio's own loop": measuring(plain, load, options),
                f"{method}, fast path, interpreted": measuring(interpreted, load, options),
                f"{method}, aiohttp": measuring(aiohttp, load, options),
                f"{method}, bare protocol": measuring(constant, load, options),
            }
            return list(alternate(contenders, options.rounds).values())


def _beside(which: str, method: str, fast_path: Figure, other: Figure) -> str:
    return (
        f"{method}: {fast_path.rate / other.rate:.2f} x the rate at "
        f"{fast_path.cpu_us / other.cpu_us:.2f} x the CPU of the same {which}."
    )


def _beside_the_anchor(method: str, fast_path: Figure) -> str:
    rate, cpu_us = ANCHORS[method]
    return (
        f"{method}: {fast_path.rate / rate:.2f} x the rate of the replaced product's single member "
        f"({rate:,}/s, aim 3 x) at {fast_path.cpu_us / cpu_us:.2f} x its CPU time per request "
        f"({cpu_us:.0f} µs); its figures are of the project's reference machine, and on another "
        "one this comparison says little."
    )
