"""The requests that are measured, by name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.load.wrk import VALUE_BYTES, Load, measure
from bench.servers.members import MAP, QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.load.wrk import Sample
    from bench.options import Options
    from bench.processes import Server

_ENTRY: Final = f"/grid/rest/maps/{MAP}/#"
GET: Final = Load("GET", _ENTRY)
POST: Final = Load("POST", _ENTRY, body_bytes=VALUE_BYTES)
MIX: Final = Load("GET", _ENTRY, body_bytes=VALUE_BYTES, writes_percent=20)
MAP_LOADS: Final = {"GET": GET, "POST": POST}
OFFER: Final = Load("POST", f"/grid/rest/queues/{QUEUE}", keys=1, body_bytes=VALUE_BYTES)
POLL: Final = Load("DELETE", f"/grid/rest/queues/{QUEUE}/1", keys=1)


def sized(load: Load, value_bytes: int) -> Load:
    """Return the same with bodies of another size, if it has any."""
    return replace(load, body_bytes=value_bytes) if load.body_bytes else load


def measuring(server: Server, load: Load, options: Options) -> Callable[[], Sample]:
    """Return what measures one round."""
    return partial(measure, server, load, options.seconds)
