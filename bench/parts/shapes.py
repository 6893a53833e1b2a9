"""Requests of other shapes: queues, larger values, several at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least, cpu_at_most
from bench.load.fill import fill_map, fill_queue
from bench.load.loads import GET, MAP_LOADS, OFFER, POLL, POST, measuring, sized
from bench.load.wrk import KEYS, VALUE_BYTES, measure
from bench.processes import ask
from bench.servers.bare import bare
from bench.servers.members import get_request, member, post_request, queue_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.load.wrk import Sample
    from bench.options import Options
    from bench.processes import Server

QUEUE_BAR: Final = 0.7
KIB_BAR: Final = 0.8
MIB_BAR: Final = 0.7
PIPELINED_BAR: Final = 0.6
DEPTH: Final = 16
KIB: Final = 1 << 10
MIB: Final = 1 << 20
MIB_KEYS: Final = 16
"""Of a mebibyte each; ten thousand of them would measure the memory of the machine."""
POLLED_PER_S: Final = 150_000
"""More than any member has served: so many items a second of measurement must be ready."""


def queues(options: Options) -> list[Section]:
    """Measure offers, and polls that find an item, beside POST of map entries."""
    with member() as server:
        fill_map(server.port, 0, KEYS, VALUE_BYTES)
        contenders = {
            "POST of a map entry": measuring(server, POST, options),
            "offer": measuring(server, OFFER, options),
            "poll of ready items": _polling(server, options),
        }
        post, offer, poll = alternate(contenders, options.rounds).values()
    verdicts = [
        at_least("offer ÷ map POST", offer, post, QUEUE_BAR),
        at_least("poll of ready items ÷ map POST", poll, post, QUEUE_BAR),
    ]
    meaning = "Queue calls; a poll that finds no item (204) counts as a failure here."
    return [Section("Queues", meaning, (post, offer, poll), verdicts)]


def _polling(server: Server, options: Options) -> Callable[[], Sample]:
    """Return a measurement of polls that fills the queue first, and counts who found nothing."""

    def polled() -> Sample:
        missing = POLLED_PER_S * options.seconds - queue_size(server.port)
        fill_queue(server.port, max(0, missing), VALUE_BYTES)
        before = queue_size(server.port)
        sample = measure(server, POLL, options.seconds)
        found = before - queue_size(server.port)
        return replace(sample, bad=sample.bad + max(0, sample.requests - found))

    return polled


def values(options: Options) -> list[Section]:
    """Measure values of 1 KiB beside those of 22 bytes."""
    figures, verdicts = [], []
    with member() as small, member() as large:
        fill_map(small.port, 0, KEYS, VALUE_BYTES)
        fill_map(large.port, 0, KEYS, KIB)
        for method, load in MAP_LOADS.items():
            contenders = {
                f"{method}, {VALUE_BYTES} bytes": measuring(small, load, options),
                f"{method}, 1 KiB": measuring(large, sized(load, KIB), options),
            }
            tiny, kib = alternate(contenders, options.rounds).values()
            figures += [tiny, kib]
            verdicts.append(at_least(f"{method}: 1 KiB ÷ 22 bytes", kib, tiny, KIB_BAR))
    return [Section("Values of 1 KiB", "Map entries of two sizes.", figures, verdicts)]


def mebibytes(options: Options) -> list[Section]:
    """Measure values of 1 MiB beside a bare sender and a bare drainer."""
    get, post = (replace(sized(load, MIB), keys=MIB_KEYS) for load in (GET, POST))
    with member() as server:
        fill_map(server.port, 0, MIB_KEYS, MIB)
        sent = ask(server.port, get_request("1"))
        stored = ask(server.port, post_request("1", b"v" * MIB))
        with bare(sent) as sender, bare(stored, body_bytes=MIB) as drainer:
            gets = {
                "GET, 1 MiB": measuring(server, get, options),
                "GET, 1 MiB, bare sender": measuring(sender, get, options),
            }
            posts = {
                "POST, 1 MiB": measuring(server, post, options),
                "POST, 1 MiB, bare drainer": measuring(drainer, post, options),
            }
            got, was_sent = alternate(gets, options.rounds).values()
            posted, drained = alternate(posts, options.rounds).values()
    verdicts = [
        at_least("GET of 1 MiB ÷ bare sender", got, was_sent, MIB_BAR),
        at_least("POST of 1 MiB ÷ bare drainer", posted, drained, MIB_BAR),
    ]
    meaning = "Against `asyncio.Protocol`s that send, or read and forget, bodies of that size."
    figures = (got, was_sent, posted, drained)
    return [Section("Values of 1 MiB", meaning, figures, verdicts)]


def pipelined(options: Options) -> list[Section]:
    """Measure requests that are sent several at once."""
    figures, verdicts = [], []
    with member() as server:
        fill_map(server.port, 0, KEYS, VALUE_BYTES)
        for method, load in MAP_LOADS.items():
            contenders = {
                f"{method}, one by one": measuring(server, load, options),
                f"{method}, {DEPTH} at once": measuring(
                    server, replace(load, depth=DEPTH), options
                ),
            }
            single, batch = alternate(contenders, options.rounds).values()
            figures += [single, batch]
            name = f"{method}: {DEPTH} at once ÷ one by one, CPU"
            verdicts.append(cpu_at_most(name, batch, single, PIPELINED_BAR))
    meaning = f"{DEPTH} requests in one write; wrk has no percentiles for these."
    return [Section("Pipelined", meaning, figures, verdicts)]
