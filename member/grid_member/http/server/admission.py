"""How many connections a listener takes, and what those that are too many are told.

    open connections   0 ──── room.connections ──── + room.probes ────▶
    a further one        is served   │  for probes alone   │  503 at once, unread
                                     │  503 for the rest   │

A member that is merely crowded must not look dead, hence the second column. Files are kept free
for the store and the log: accepting never fails for want of them.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from grid_member.http.table import ROUTES, RoutingTable
from grid_member.http.wire.answers import error, head_bytes
from grid_member.http.wire.paths import MalformedError, split_target
from grid_member.http.wire.watch import LINGER_S, Watch, end_writing
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from aiohttp import web

    from grid_member.http.wire.answers import Answer

SPARE_CONNECTIONS: Final = 256
"""Beyond the maximum: for probes, for refused ones that still read, for some just accepted."""
KEPT_FILES: Final = 64
"""Of the process, not for connections: the store, a backup, the log, listening sockets."""
_TURNS: Final = 4
"""How many turns of the loop pass from accepting a connection to its socket being closed."""
_PROBES: Final = RoutingTable(tuple(row for row in ROUTES if row.probe))
_log: Final = logging.getLogger("grid.http")


@dataclass(frozen=True, slots=True)
class Room:
    """How many connections one listener has room for."""

    connections: int
    """That are served."""
    probes: int
    """Beyond those, for probes alone."""
    parting: int
    """Beyond those, refused and given time to read that."""
    accepted_at_once: int
    """In one turn of the loop: they are not counted yet."""


def open_files_limit() -> int | None:
    """Return how many files this process may have open; None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def room(wanted: int, files: int | None, listeners: int) -> Room:
    """Return what each of the listeners has room for.

    Args:
        wanted: the connections that each of them shall serve.
        files: how many files the process may have open.
        listeners: how many share them.
    """
    spare, connections = SPARE_CONNECTIONS, wanted
    if files is not None:
        share = max(0, files - KEPT_FILES) // max(1, listeners)
        spare = min(spare, share // 2)
        connections = max(1, min(wanted, share - spare))
    return Room(connections, spare // 4, spare // 4, max(1, spare // 4 // _TURNS))


def warn_of_room(found: Room, wanted: int, files: int | None) -> None:
    """Say in the log when there is less room than is wanted."""
    if found.connections < wanted:
        event(
            _log,
            logging.WARNING,
            "the limit of open files leaves each listener fewer connections than "
            "http.max-connections: raise the hard limit (ulimit -Hn) or lower the setting",
            open_files=files,
            max_connections=wanted,
            connections=found.connections,
        )


class Admission:
    """Refuses the connections of one listener that are too many; seldom says so in the log."""

    def __init__(self, room: Room, listener: str) -> None:
        self.room = room
        self.refused_count = 0
        """How many connections were."""
        self.parting = Watch()
        """Those that may still read why."""
        self._listener = listener
        self._next_warning = 1

    def refuse(self) -> Answer:
        """Count a refused connection; return what it is told."""
        self.refused_count += 1
        if self.refused_count >= self._next_warning:
            self._next_warning *= 2
            event(
                _log,
                logging.WARNING,
                "too many connections: refused",
                listener=self._listener,
                max_connections=self.room.connections,
                refused=self.refused_count,
            )
        reason = f"too many connections: http.max-connections is {self.room.connections}"
        return error(503, reason, close=True, retry=True)


class Parting(asyncio.Protocol):
    """A refused connection: it is told why, and then has a moment to read that."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._transport: asyncio.Transport | None = None
        self._until_s = asyncio.get_running_loop().time() + LINGER_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say why. Closing with bytes unread would reset the connection, perhaps before that."""
        # Not checked: other event loops have transports of their own kind.
        self._transport = told = cast("asyncio.Transport", transport)
        answer = self._admission.refuse()
        told.write(head_bytes(answer, keep_alive=False, http_1_0=False))
        parting = self._admission.parting
        if len(parting) < self._admission.room.parting:
            end_writing(told)
            parting.add(self)
        else:
            told.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for the next."""
        self._admission.parting.discard(self)

    def look(self, now_s: float) -> None:
        """Wait no longer than a moment."""
        if now_s >= self._until_s:
            self.abort()

    async def finish(self) -> None:
        """Close."""
        self.abort()

    def abort(self) -> None:
        """Close."""
        if self._transport is not None:
            self._transport.abort()


def is_probe(request: web.BaseRequest) -> bool:
    """Tell whether this is what Kubernetes asks a member again and again."""
    if request.body_exists:
        return False
    try:
        return _PROBES.match(split_target(request.raw_path).parts) is not None
    except MalformedError:
        return False
