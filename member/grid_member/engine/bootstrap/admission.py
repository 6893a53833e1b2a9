"""A member with data meets its own cluster, or nobody: before its server may talk to any other.

Servers believe each other by their logs. Of two clusters that meet, one takes the other's log for
its own, and its streams go. So nobody with data starts a server before it knows who is there:

    a server of another cluster           ─▶ wait, and say so
    a server of the own cluster           ─▶ start
    a majority of the list waits as well  ─▶ start, at the same time as they
    fewer, and no other cluster was seen  ─▶ start after a while: there may be nobody else; the
                                             server ends when another cluster comes
    fewer, and another cluster only waits ─▶ start in turn with it: the server ends when its member
                                             has not joined by the end of the turn
    somebody says the others are lost     ─▶ start, unless a server of another cluster is there
    another process is the same member    ─▶ end, if that one was started before

Who waits listens at the members' port and tells who it is. A member that is new, or whose cluster
is older than ids, has no id: it is no stranger.
"""

from __future__ import annotations

import asyncio
import enum
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.bootstrap.cluster_id import short
from grid_member.engine.bootstrap.discovery import FIRST_LOOK_S, Discovery
from grid_member.engine.bootstrap.member_probe import Occupant, listen_and_say, waiting_line
from grid_member.engine.bootstrap.staggered_start import LINGER_S
from grid_member.engine.io.listening import close_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.engine.bootstrap.incarnation import Incarnation
    from grid_member.engine.cluster_settings import ClusterSettings

ALONE_S: Final = 15.0
"""Who has seen fewer than a majority, and no stranger, for so long starts nevertheless."""
TURN_S: Final = 20.0
"""Who sees strangers that wait has a turn after so long, or after some times of it; and how long a
member in its turn has to join before it gives way."""
_LOT_BYTES: Final = 8


class AdmissionReason(enum.Enum):
    """Why a server may be started."""

    OWN = "the own cluster is there"
    ALONE = "nobody is"
    TURN = "members of other clusters wait, and it is the turn of this one"


class AdmissionDecision(NamedTuple):
    """What follows from who is there."""

    go: bool
    stranger: tuple[str, Occupant] | None = None
    """The address of a member of another cluster that is in the way, and who it is."""


class AdmissionWait:
    """How long a member waits that sees too few of its own.

    Members of different clusters that see each other wait count from the same moment, and no two
    of them for as long: the servers of two never start at once.

    Args:
        lot: of this member.
        gave_way: whether it had a turn before: the others are first then.
        now_s: seconds that only go forward.
    """

    def __init__(self, lot: str, gave_way: bool, now_s: float) -> None:
        self._lot = lot
        self._gave_way = gave_way
        self._quiet_s = now_s
        """Since when no stranger is there."""
        self._waiting_s: float | None = None
        """Since when strangers are there and none of them has a server."""

    def reason(self, found: AdmissionDecision, now_s: float) -> AdmissionReason | None:
        """Return why the wait is over, None when it is not."""
        if found.go:
            return AdmissionReason.OWN
        if found.stranger is None:
            return AdmissionReason.ALONE if now_s - self._quiet_s >= ALONE_S else None
        self._quiet_s = now_s
        lot = found.stranger[1].lot
        if lot is None:
            self._waiting_s = None
            return None
        if self._waiting_s is None:
            self._waiting_s = now_s
        turns = 1 + (self._lot > lot) + 2 * self._gave_way
        return AdmissionReason.TURN if now_s - self._waiting_s >= turns * TURN_S else None


def admission_decision(
    own: str, size: int, seen: Mapping[str, Occupant | None]
) -> AdmissionDecision:
    """Return whether a server of that cluster may be started.

    Args:
        own: the id of the cluster.
        size: how many members the list names.
        seen: by address who is there, this member itself left out.
    """
    here = {
        address: found
        for address, found in seen.items()
        if found is not None and found.cluster is not None
    }
    strangers = [
        (found.lot is not None, found.lot or "", address, found)
        for address, found in here.items()
        if found.cluster not in {"", own}
    ]
    # One that has a server, if there is any; else the one whose turn is first.
    stranger = min(strangers)[2:] if strangers else None
    if stranger is not None and stranger[1].lot is None:
        return AdmissionDecision(False, stranger)
    served = any(found.lot is None for found in here.values())
    if served or 2 * (1 + len(here) - len(strangers)) > size:
        return AdmissionDecision(True)
    return AdmissionDecision(False, stranger)


async def await_admission(
    settings: ClusterSettings,
    own: str,
    waiting: Callable[[str], None],
    trusted: Callable[[], bool] = lambda: False,
    *,
    gave_way: bool = False,
    incarnation: Incarnation | None = None,
) -> AdmissionReason:
    """Return when this member's server may meet those of the others, and why.

    Args:
        settings: the list of the members.
        own: the id of the cluster that this member's data is of.
        waiting: is told why that is not now.
        trusted: whether somebody says that the data of this member is to go on.
        gave_way: whether a server of this member ended for another cluster before.
        incarnation: this process, where another one may be the same member.

    Raises:
        TwinError: an older process is the same member.
    """
    lot = secrets.token_hex(_LOT_BYTES) if incarnation is None else incarnation.lot
    listener = await listen_and_say(settings, waiting_line(settings, lot, own))
    try:
        async with Discovery(settings, lot, incarnation) as discovery:
            patience = AdmissionWait(lot, gave_way, asyncio.get_running_loop().time())
            entry = await _wait(discovery, settings, own, waiting, trusted, patience)
            if not any(
                found is not None and found.lot is None for found in discovery.occupants.values()
            ):
                await asyncio.sleep(LINGER_S)
        return entry
    finally:
        if listener is not None:
            await close_servers([listener])


async def watch_strangers(
    settings: ClusterSettings,
    own: str,
    entry: AdmissionReason,
    incarnation: Incarnation | None = None,
) -> str | None:
    """Return what to say of a member of another cluster before which this one's server has to end.

    Args:
        settings: the list of the members.
        own: the id of the cluster that this member's data is of.
        entry: why the server was started. In its turn it ends for those who wait after that.
        incarnation: this process, where another one may be the same member.

    Returns:
        None: one of the own cluster is there.

    Raises:
        TwinError: an older process is the same member.
    """
    clock = asyncio.get_running_loop().time
    yields_s = clock() + (TURN_S if entry is AdmissionReason.TURN else 0.0)
    async with Discovery(settings, "", incarnation) as discovery:
        while True:
            discovery.refuse_twin()
            here = {address: found for address, found in discovery.occupants.items() if found}
            for address, found in here.items():
                strange = found.cluster not in {None, "", own}
                if strange and (found.lot is None or clock() >= yields_s):
                    return _stranger_report(address, found, own, settings)
            if [found.cluster for found in here.values()].count(own) > 1:
                return None
            await discovery.await_change(FIRST_LOOK_S)


async def _wait(
    discovery: Discovery,
    settings: ClusterSettings,
    own: str,
    waiting: Callable[[str], None],
    trusted: Callable[[], bool],
    patience: AdmissionWait,
) -> AdmissionReason:
    clock = asyncio.get_running_loop().time
    while True:
        discovery.refuse_twin()
        found = admission_decision(own, len(settings.members), discovery.occupants)
        if found.stranger is not None:
            waiting(_stranger_report(*found.stranger, own, settings))
        entry = patience.reason(found, clock())
        if trusted() and (found.stranger is None or found.stranger[1].lot is not None):
            entry = AdmissionReason.OWN
        if discovery.is_clear and entry is not None:
            return entry
        await discovery.await_change(FIRST_LOOK_S)


def _stranger_report(address: str, found: Occupant, own: str, settings: ClusterSettings) -> str:
    does = "runs" if found.lot is None else "waits"
    return (
        f"the member at {address} is of another cluster of that name, and {does}: its data has the "
        f"id {short(found.cluster or '')}, {settings.directory} that of {short(own)}; correct "
        "join.tcp-ip.member-list, or stop the one of the two whose data is out of date and start "
        "it on an empty base directory"
    )
