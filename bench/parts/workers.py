"""What worker processes on one port could bring on this machine. No bars."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.figures import Section, alternate, side_by_side
from bench.load.fill import fill_map
from bench.load.loads import POST, measuring
from bench.load.wrk import CONNECTIONS, KEYS, VALUE_BYTES, measure
from bench.processes import ask
from bench.servers.bare import bare
from bench.servers.members import member, post_request

if TYPE_CHECKING:
    from bench.figures import Figure
    from bench.load.wrk import Sample
    from bench.options import Options
    from bench.processes import Server


def measured(options: Options) -> list[Section]:
    """Measure servers that share nothing at all, which no worker design can beat."""
    request = post_request("1", b"v" * VALUE_BYTES)
    with member() as first, member() as second:
        for server in (first, second):
            fill_map(server.port, 0, KEYS, VALUE_BYTES)
        answer = ask(first.port, request)
        with bare(answer) as one, bare(answer, processes=2) as two:
            contenders = {
                "bare protocol, 1 process": measuring(one, POST, options),
                "bare protocol, 2 processes on one port": measuring(two, POST, options),
                "1 member": measuring(first, POST, options),
                "2 members that share nothing, a wrk each": lambda: _both(first, second, options),
            }
            figures = list(alternate(contenders, options.rounds).values())
    meaning = (
        "POST of map entries; two processes that share nothing are the most that "
        "`http.workers` could bring while the load generator needs the same cores."
    )
    return [Section("Worker processes", meaning, figures, (), _gains(figures))]


def _both(first: Server, second: Server, options: Options) -> Sample:
    half = replace(POST, connections=CONNECTIONS // 2)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(measure, s, half, options.seconds) for s in (first, second)]
        return side_by_side([run.result() for run in runs])


def _gains(figures: list[Figure]) -> list[str]:
    bare_one, bare_two, one, two = figures
    return [
        f"Two bare processes: {bare_two.rate / bare_one.rate:.2f} x the rate of one.",
        f"Two members that share nothing: {two.rate / one.rate:.2f} x the rate of one.",
    ]
