"""Certificates of the members' TLS that are out of their time, or will be soon.

Servers that are connected stay so. One that is started again is taken by nobody then, so it is told
before: in the log each day, and as what is in the way while a member waits for others.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from grid_member.engine.io.certificates import concerns, concerns_of_authorities

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.cluster_settings import ClusterTls
    from grid_member.engine.io.certificates import Concern

LOOK_S: Final = 10.0
"""How often the files are read: as often as it is looked whether they have changed."""
_log: Final = logging.getLogger("grid.engine.nats")


def now_utc() -> datetime:
    """Return what the machine's clock says."""
    return datetime.now(UTC)


class Lifetimes:
    """Looks at the files that members know each other with."""

    def __init__(self, tls: ClusterTls | None, clock: Callable[[], datetime] = now_utc) -> None:
        """Look at nothing yet."""
        self._tls = tls
        self._clock = clock
        self._concerns: list[str] = []
        self.over: str | None = None
        """What is not valid now, and what to do; None: nothing is known."""

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while self._tls is not None:
            await self._look(self._tls)
            await asyncio.sleep(LOOK_S)

    async def _look(self, tls: ClusterTls) -> None:
        over, told = list[str](), list[str]()
        for what, concern in await asyncio.to_thread(_concerns, tls, self._clock()):
            told.append(f"{what}: {concern.why}")
            if not concern.valid:
                over.append(told[-1])
        self.over = "; ".join(over) or None
        for what in told:
            if what not in self._concerns:  # the days that are left are others each day
                _log.warning("%s", what)
        self._concerns = told


def _concerns(tls: ClusterTls, now: datetime) -> list[tuple[str, Concern]]:
    """Return what is the matter, each with the setting and the file. Blocks."""
    own, ca = tls.certificate_file, tls.ca_file
    found = [(f"certificate-file of the members' TLS, {own}", one) for one in concerns(own, now)]
    of_ca = concerns_of_authorities(ca, now, own)
    return found + [(f"ca-file of the members' TLS, {ca}", one) for one in of_ca]
