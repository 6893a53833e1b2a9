"""Discovering who is at the addresses of the list of members, as far as they tell.

told before, silent now ─▶ still of that cluster, until nobody is there
silent since it came    ─▶ unknown; after a while somebody who has no id to tell
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from grid_member.engine.bootstrap.incarnation import is_older_twin, twin_error
from grid_member.engine.bootstrap.member_probe import Occupant, probe
from grid_member.engine.io.ending import end_tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.engine.bootstrap.incarnation import Incarnation
    from grid_member.engine.cluster_settings import ClusterSettings

T = TypeVar("T")
ABSENT_LOOK_S: Final = 0.05
"""Between two looks at an address where nobody is, of who waits for that to change."""
EAGER_S: Final = 5.0
"""How long that is hurried so. Later on somebody is as rarely looked for as looked at."""
LOOK_S: Final = 1.0
"""Between two looks at somebody."""
FIRST_LOOK_S: Final = 0.5
"""How long a first look at everybody is waited for: machines that are off answer nothing."""
SILENT_S: Final = 5.0
"""Whose server says nothing for so long has no id: it is of an earlier version, or refuses this
member. A shorter silence is that of a member that starts, ends or is busy."""


class AddressPolling(Generic[T]):
    """Looks for as long as its block lasts.

    Args:
        settings: the list.
        look: returns who is at a host and port, None when nobody is.
        absent_s: seconds between two looks at an address where nobody is, at first.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        look: Callable[[str, int], Awaitable[T | None]],
        absent_s: float = ABSENT_LOOK_S,
    ) -> None:
        self.occupants: dict[str, T | None] = {}
        """What was found last, by address; none before the first look at it is over."""
        self._members = settings.members
        self._look = look
        self._absent_s = absent_s
        self._news = asyncio.Event()
        self._looking: list[asyncio.Task[None]] = []

    @property
    def is_complete(self) -> bool:
        """Whether every address was looked at."""
        return len(self.occupants) == len(set(self._members))

    async def await_change(self, within_s: float) -> None:
        """Return when somebody else is found somewhere, or after that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._news.wait()
        self._news.clear()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._looking = [loop.create_task(self._run(*one)) for one in set(self._members)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(*self._looking)

    async def _run(self, host: str, port: int) -> None:
        address, clock = f"{host}:{port}", asyncio.get_running_loop().time
        eager_until_s = clock() + EAGER_S
        while True:
            found = await self._look(host, port)
            if address not in self.occupants or self.occupants[address] != found:
                self.occupants[address] = found
                self._news.set()
            eager = not found and clock() < eager_until_s
            await asyncio.sleep(self._absent_s if eager else LOOK_S)


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
