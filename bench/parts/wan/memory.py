"""What WAN replication keeps of an entry: nothing, a stamp, a place in a queue, a tombstone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_most
from bench.load.fill import empty_map, fill_map
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.processes import rss_bytes
from bench.servers.wan_members import Publishing, wan_source
from bench.servers.wan_sink import sink

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.options import Options

ENTRIES: Final = 300_000
"""Of a map whose memory is looked at."""
OFF_BYTES: Final = 1.0
"""Of an entry: what is allocated in pieces of 256 KiB says no less."""
STAMP_BYTES: Final = 100.0
QUEUED_BYTES: Final = 170.0
TOMBSTONE_BYTES: Final = 170.0
_STOPPED: Final = "STOPPED"
_MEANING: Final = (
    f"What resident memory of a member grows by while {ENTRIES:,} entries are stored; sizes of "
    "dictionaries jump. A publisher that is STOPPED queues nothing. Tombstones are those of keys "
    "that the map never had: of keys that were there the memory of the entries would be free."
)


def measured(_options: Options) -> list[Section]:
    """Measure what an entry takes: alone, with a stamp, with a place in a queue, as a tombstone."""
    with sink() as target:
        ports = (target.port,)
        none = _entry_bytes(None)
        off = _entry_bytes(Publishing(ports, referred=False))
        stamped = _entry_bytes(Publishing(ports, state=_STOPPED))
        queued = _entry_bytes(Publishing(ports, state="PAUSED"))
        tombstone = _tombstone_bytes(Publishing(ports, state=_STOPPED))
    named = {
        "entry with a publisher and without a reference": (off - none, OFF_BYTES),
        "stamp": (stamped - none, STAMP_BYTES),
        "queued key": (queued - stamped, QUEUED_BYTES),
        "tombstone": (tombstone, TOMBSTONE_BYTES),
    }
    verdicts = [
        absolute_at_most(f"WAN, memory, {name}", seen, bar, "B")
        for name, (seen, bar) in named.items()
    ]
    notes = [
        f"An entry takes {none:.1f} bytes without WAN replication, {off:.1f} with a publisher to "
        f"which the map does not refer, {stamped:.1f} with a stamp, {queued:.1f} with a stamp and "
        f"a place in a queue. A tombstone takes {tombstone:.1f} bytes."
    ]
    return [Section("WAN replication: memory", _MEANING, (), verdicts, notes)]


def _entry_bytes(publishing: Publishing | None) -> float:
    return _bytes_each(publishing, lambda port: fill_map(port, 0, ENTRIES, VALUE_BYTES))


def _tombstone_bytes(publishing: Publishing) -> float:
    return _bytes_each(publishing, lambda port: empty_map(port, 0, ENTRIES))


def _bytes_each(publishing: Publishing | None, act: Callable[[int], int]) -> float:
    with wan_source(publishing) as source:
        fill_map(source.server.port, ENTRIES, KEYS, VALUE_BYTES)
        before = rss_bytes(source.server.pids)
        count = act(source.server.port)
        return (rss_bytes(source.server.pids) - before) / count
