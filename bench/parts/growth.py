"""What becomes of the rates as a map and the number of connections grow. No bars."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate
from bench.load.fill import fill_map
from bench.load.loads import MAP_LOADS, measuring
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.processes import rss_bytes
from bench.servers.members import member

if TYPE_CHECKING:
    from bench.figures import Figure
    from bench.options import Options

SPREAD_KEYS: Final = 100_000
"""Of a larger map so many entries are used, at even distances: too many for the caches."""
MANY: Final = 1_000
"""From so many connections on opening them takes a share of the time that counts."""
MANY_SECONDS: Final = 5


def entries(options: Options) -> list[Section]:
    """Measure GET and POST in a map that grows, and weigh it."""
    figures: list[Figure] = []
    notes: list[str] = []
    held = 0
    with member() as server:
        for size in options.entries:
            before, began = rss_bytes(server.pids), time.monotonic()
            until = began + options.load_limit_s
            added = fill_map(server.port, held, size - held, VALUE_BYTES, until)
            passed, grown = time.monotonic() - began, rss_bytes(server.pids) - before
            held += added
            used = min(held, SPREAD_KEYS) if held > KEYS else held
            contenders = {
                f"{method}, {held:,} entries": measuring(
                    server, replace(load, keys=used, stride=held // used), options
                )
                for method, load in MAP_LOADS.items()
            }
            figures += alternate(contenders, options.rounds).values()
            notes.append(
                f"{held:,} entries: {rss_bytes(server.pids) / (1 << 20):,.0f} MiB; the last "
                f"{added:,} took {passed:.1f} s (pipelined) and {grown / added:.0f} bytes each."
            )
            if held < size:
                notes.append(f"Not {size:,}: filling stopped after {options.load_limit_s} s.")
                break
    meaning = f"One map in memory; {SPREAD_KEYS:,} of its entries are used, spread evenly."
    return [Section("As a map grows", meaning, figures, (), notes)]


def connections(options: Options) -> list[Section]:
    """Measure GET and POST on more and more connections at once."""
    figures: list[Figure] = []
    with member() as server:
        fill_map(server.port, 0, KEYS, VALUE_BYTES)
        for method, load in MAP_LOADS.items():
            contenders = {
                f"{method}, {count:,} connections": measuring(
                    server, replace(load, connections=count), _long_enough(count, options)
                )
                for count in options.connections
            }
            figures += alternate(contenders, options.rounds).values()
    meaning = (
        "All connections busy: each sends its next request when it has its answer, so the waiting "
        "grows with their number. Opening them is within the measured time, which is at least "
        f"{MANY_SECONDS} s for {MANY:,} and more."
    )
    return [Section("As connections grow", meaning, figures)]


def _long_enough(count: int, options: Options) -> Options:
    if count < MANY:
        return options
    return replace(options, seconds=max(options.seconds, MANY_SECONDS))
