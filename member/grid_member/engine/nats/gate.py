"""A member with data meets its own cluster, or nobody: before its server may talk to any other.

Servers believe each other by their logs. Of two clusters that meet, one takes the other's log for
its own, and its streams go. So nobody with data starts a server before it knows who is there:

    a server of another cluster           ─▶ wait, and say so
    a server of the own cluster           ─▶ start
    a majority of the list waits as well  ─▶ start, at the same time as they
    fewer, and no other cluster was seen  ─▶ start after a while: there may be nobody else; the
                                             server ends when another cluster comes

Who waits listens at the members' port and tells who it is. A member that is new, or whose cluster
is older than ids, has no id: it is no stranger.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.listening import close_servers
from grid_member.engine.nats.cluster_id import short
from grid_member.engine.nats.hail import Present, hail, waiting_line
from grid_member.engine.nats.lookout import Lookout
from grid_member.engine.nats.meeting import LINGER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.engine.cluster_settings import ClusterSettings

ALONE_S: Final = 15.0
"""Who has seen fewer than a majority, and no stranger, for so long starts nevertheless."""
FIRST_LOOK_S: Final = 0.5
"""How long a start waits for a first look at everybody: machines that are off answer nothing."""
_LOT_BYTES: Final = 8


class Verdict(NamedTuple):
    """What follows from who is there."""

    go: bool
    stranger: tuple[str, str] | None = None
    """The address of a member of another cluster that is in the way, and that one's id."""


def verdict(own: str, size: int, seen: Mapping[str, Present | None]) -> Verdict:
    """Return whether a server of that cluster may be started.

    Args:
        own: the id of the cluster.
        size: how many members the list names.
        seen: by address who is there, this member itself left out.
    """
    here = {address: found for address, found in seen.items() if found is not None}
    strangers = [
        (found.lot is not None, address, found.cluster)
        for address, found in here.items()
        if found.cluster not in {"", own}
    ]
    first = min(strangers, default=None)  # one that has a server, if there is any
    if first is not None and not first[0]:
        return Verdict(False, first[1:])
    served = any(found.lot is None for found in here.values())
    if served or 2 * (1 + len(here) - len(strangers)) > size:
        return Verdict(True)
    return Verdict(False, None if first is None else first[1:])


async def admitted(
    settings: ClusterSettings, own: str, waiting: Callable[[str], None], *, wary: bool = False
) -> bool:
    """Return when this member's server may meet those of the others.

    Args:
        settings: the list of the members.
        own: the id of the cluster that this member's data is of.
        waiting: is told why that is not now.
        wary: whether a member of another cluster was met before.

    Returns:
        Whether it met its own cluster; False when it was alone for long enough.
    """
    lot = secrets.token_hex(_LOT_BYTES)

    async def look(host: str, port: int) -> Present | None:
        found = await hail(settings, host, port)
        # Itself it finds as nobody.
        return None if found is not None and found.lot == lot else found

    listener = await _listening(settings, lot, own)
    try:
        async with Lookout(settings, look) as lookout:
            met = await _let_in(lookout, settings, own, waiting, wary)
            if not any(found is not None and found.lot is None for found in lookout.seen.values()):
                await asyncio.sleep(LINGER_S)
        return met
    finally:
        if listener is not None:
            await close_servers([listener])


async def stranger_comes(
    settings: ClusterSettings, own: str, waiting: Callable[[str], None]
) -> bool:
    """Return whether who comes first is of another cluster, and tell that; this member is there."""

    async def look(host: str, port: int) -> Present | None:
        return await hail(settings, host, port)

    async with Lookout(settings, look) as lookout:
        while True:
            ids = {address: found.cluster for address, found in lookout.seen.items() if found}
            for address, cluster in ids.items():
                if cluster not in {"", own}:
                    waiting(_told(address, cluster, own, settings))
                    return True
            if [*ids.values()].count(own) > 1:
                return False
            await lookout.changed(FIRST_LOOK_S)


async def _let_in(
    lookout: Lookout[Present],
    settings: ClusterSettings,
    own: str,
    waiting: Callable[[str], None],
    wary: bool,
) -> bool:
    clock = asyncio.get_running_loop().time
    begun_s = clock()
    while True:
        found, waited_s = verdict(own, len(settings.members), lookout.seen), clock() - begun_s
        if found.stranger is not None:
            wary = True
            waiting(_told(*found.stranger, own, settings))
        looked = lookout.complete or waited_s >= FIRST_LOOK_S
        # Who met a stranger once is not sure to be where it belongs.
        if looked and (found.go or (waited_s >= ALONE_S and not wary)):
            return found.go
        await lookout.changed(FIRST_LOOK_S)


async def _listening(settings: ClusterSettings, lot: str, own: str) -> asyncio.Server | None:
    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(waiting_line(lot, own))
        writer.close()

    try:
        return await asyncio.start_server(answer, settings.host, settings.port)
    except OSError:
        return None  # the server meets the same difficulty, and its error says what to do


def _told(address: str, cluster: str, own: str, settings: ClusterSettings) -> str:
    return (
        f"the member at {address} is of another cluster of that name: its id is {short(cluster)}, "
        f"{settings.directory} holds data of {short(own)}; correct join.tcp-ip.member-list, or "
        "start on another base directory"
    )
