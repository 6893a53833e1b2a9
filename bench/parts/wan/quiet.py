"""What two members that replicate to each other still hold when clients have gone quiet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_most
from bench.load.fill import empty_map, fill_map
from bench.load.wrk import VALUE_BYTES
from bench.processes import BenchError, ask, rss_bytes
from bench.servers.members import get_request
from bench.servers.wan_members import wan_pair

if TYPE_CHECKING:
    from bench.options import Options
    from bench.servers.wan_site import WanSite

ENTRIES: Final = 100_000
REMOVED: Final = 50_000
"""Of those, half on each side."""
QUIET_S: Final = 60.0
_MEANING: Final = (
    f"Two members in memory that replicate to each other. Clients store {ENTRIES:,} entries in the "
    f"first and remove {REMOVED:,} of them, half in each; then nobody calls. Tombstones stay for "
    "`wan.tombstone-retention-seconds` (decision 0067), so all of them are there."
)


def measured(_options: Options) -> list[Section]:
    """Look at queues and tombstones a minute after the last change."""
    with wan_pair() as sites:
        first, second = sites
        fill_map(first.ports[0], 0, ENTRIES, VALUE_BYTES)
        _settle(sites)
        empty_map(first.ports[0], 0, REMOVED // 2)
        empty_map(second.ports[0], REMOVED // 2, REMOVED // 2)
        _settle(sites)
        time.sleep(QUIET_S)
        queued = [site.queued() for site in sites]
        tombstones = [site.tombstones() for site in sites]
        mebibytes = [rss_bytes(site.server.pids) / (1 << 20) for site in sites]
        for site in sites:
            _check(site)
    name = f"WAN, queued keys of a pair after {QUIET_S:.0f} s of quiet"
    verdict = absolute_at_most(name, sum(queued), 0, "keys")
    notes = [
        f"Queued keys: {queued[0]} and {queued[1]}. Tombstones: {tombstones[0]:,} and "
        f"{tombstones[1]:,}. Resident memory: {mebibytes[0]:.0f} and {mebibytes[1]:.0f} MiB."
    ]
    return [Section("WAN replication: a pair at rest", _MEANING, (), [verdict], notes)]


def _settle(sites: tuple[WanSite, ...]) -> None:
    for site in (*sites, *sites):  # what arrives may be queued for the way back
        site.drain()


def _check(site: WanSite) -> None:
    """Look whether removals have arrived, and entries stayed.

    Raises:
        BenchError: not so.
    """
    codes = {0: b"204", REMOVED - 1: b"204", REMOVED: b"200", ENTRIES - 1: b"200"}
    for key, code in codes.items():
        if not ask(site.ports[0], get_request(str(key))).startswith(b"HTTP/1.1 " + code):
            raise BenchError(f"the entry {key} of {site.name} is not as it was left")
