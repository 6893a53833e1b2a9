"""Latency in open loop: requests are sent when they are due, whether or not answers came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate
from bench.load.fill import fill_map
from bench.load.loads import MAP_LOADS, measuring
from bench.load.oha import INSTALL, find_oha, offered
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.servers.members import member

if TYPE_CHECKING:
    from bench.load.oha import Offer
    from bench.options import Options

PERCENT: Final = (25, 50, 75, 90)
OFFERED_SHARE: Final = 0.98
"""With less than this of the wanted rate the load generator could not offer it."""
SECONDS_FACTOR: Final = 2
"""Tails need longer runs than rates."""
_MEANING: Final = (
    "Latency at shares of the highest rate that wrk measured in closed loop just before, offered "
    "by oha on {connections} connections and counted from the moment at which each request was "
    "due (`--latency-correction`), so that a stall is seen by all requests that it held up; one "
    "run of {seconds} s each."
)


def measured(options: Options) -> list[Section]:
    """Measure latency at shares of the highest rate."""
    oha = find_oha()
    if oha is None:
        note = f"Not measured: oha is not installed (`{INSTALL}`)."
        return [Section("Latency in open loop", "Needs oha.", notes=[note])]
    lines = [
        "| offered | of the maximum | answered | p50 ms | p90 ms | p99 ms | p99.9 ms | oha CPU |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    figures = []
    seconds = SECONDS_FACTOR * options.seconds
    with member() as server:
        fill_map(server.port, 0, KEYS, VALUE_BYTES)
        for method, load in MAP_LOADS.items():
            name = f"{method}, closed loop (wrk)"
            most = alternate({name: measuring(server, load, options)}, options.rounds)[name]
            figures.append(most)
            for percent in PERCENT:
                rate = int(most.rate * percent / 100)
                offer = offered(oha, server, load, rate, seconds)
                lines.append(_line(f"{method} {rate:,}/s", percent, offer))
    meaning = _MEANING.format(connections=MAP_LOADS["GET"].connections, seconds=seconds)
    return [Section("Latency in open loop", meaning, figures, (), ["\n".join(lines)])]


def _line(name: str, percent: int, offer: Offer) -> str:
    answered = f"{offer.rate:,.0f}/s"
    if offer.bad:
        answered += f", FAILED: {offer.bad} not 2xx"
    elif offer.rate < OFFERED_SHARE * offer.wanted:
        answered += ", less than offered: latency grows with the length of the run"
    tail = " | ".join(f"{ms:.2f}" for ms in offer.percentiles_ms)
    return f"| {name} | {percent} % | {answered} | {tail} | {offer.cpu_percent:.0f} % |"
