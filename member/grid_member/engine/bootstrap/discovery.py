"""Discovering who is at the addresses of the list of members, as far as they tell.

told before, silent now ─▶ still of that cluster, until nobody is there
silent since it came    ─▶ unknown; after a while somebody who has no id to tell
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from grid_member.engine.bootstrap.incarnation import is_older_twin, twin_error
from grid_member.engine.bootstrap.member_probe import Occupant, probe
from grid_member.engine.bootstrap.polling import AddressPolling

if TYPE_CHECKING:
    from grid_member.engine.bootstrap.incarnation import Incarnation
    from grid_member.engine.cluster_settings import ClusterSettings

FIRST_LOOK_S: Final = 0.5
"""How long a first look at everybody is waited for: machines that are off answer nothing."""
SILENT_S: Final = 5.0
"""Whose server says nothing for so long has no id: it is of an earlier version, or refuses this
member. A shorter silence is that of a member that starts, ends or is busy."""


class Discovery(AddressPolling[Occupant]):
    """Looks for as long as its block lasts.

    Args:
        settings: the list.
        lot: of this member, which it does not see; empty: it sees itself as the others do.
        incarnation: this process, which asks the others for twins.
    """

    def __init__(
        self, settings: ClusterSettings, lot: str = "", incarnation: Incarnation | None = None
    ) -> None:
        super().__init__(settings, self._probe)
        self._settings = settings
        self._lot, self._incarnation = lot, incarnation
        self._clock = asyncio.get_running_loop().time
        self._begun_s = self._clock()
        self._open_addresses: set[str] = set()
        self._reports: dict[str, str] = {}
        self._silent_s: dict[str, float] = {}
        """Since when the server at an address tells nothing."""

    def refuse_twin(self) -> None:
        """Look whether an older process that is the same member was seen.

        Raises:
            TwinError: one was.
        """
        for address, found in self.occupants.items():
            if self._incarnation is None or found is None:
                continue
            twin, lot = found.twin, found.lot
            waits = lot is not None and is_older_twin(self._incarnation.lot, lot)
            if waits or (twin is not None and self._incarnation.yields_to(twin)):
                raise twin_error(self._incarnation, twin, address)

    @property
    def is_clear(self) -> bool:
        """Whether all were looked at whom a look can reach."""
        if self.is_complete:
            return True
        return (
            self._clock() - self._begun_s >= FIRST_LOOK_S
            and self._open_addresses <= self.occupants.keys()
        )

    async def _probe(self, host: str, port: int) -> Occupant | None:
        address, began_s = f"{host}:{port}", self._clock()
        reached = partial(self._open_addresses.add, address)
        found = await probe(self._settings, host, port, reached, self._incarnation)
        if found is None or found.lot == self._lot:
            self._reports.pop(address, None)
            self._silent_s.pop(address, None)
            return None
        if found.cluster is not None:
            self._reports[address] = found.cluster
            self._silent_s.pop(address, None)
            return found
        silent_s = self._clock() - self._silent_s.setdefault(address, began_s)
        told = self._reports.get(address, "")
        return Occupant(None, told if told or silent_s >= SILENT_S else None)
