"""Two clusters of a member each on machines of their own, with disks that can be full."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.unit.engine.volume import MIB, fill, volume
from tests.unit.member.processes.faults.two_sites import MAP, OK, SiteProcess
from tests.unit.member.processes.namespaces import Network
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DISK_BYTES: Final = 96 * MIB
ACCEPTED: Final = 200
QUEUE_CAPACITY: Final = 100
MAX_CLOCK_AHEAD_S: Final = 600


class ApartSite(SiteProcess):
    """A member in a network namespace, with its data on a small disk of its own."""

    queue_capacity = QUEUE_CAPACITY
    max_clock_ahead_s = MAX_CLOCK_AHEAD_S

    def __init__(
        self, name: str, peer: str, directory: Path, network: Network, number: int
    ) -> None:
        super().__init__(name, peer, directory, durable=True)
        self.number = number
        """Of its namespace."""
        self.network = network
        self.host = network.host(number)
        self.inside = network.inside(number)

    @property
    def disk(self) -> Path:
        return self.directory / "disk"

    @property
    def base_dir(self) -> Path:
        return self.disk / "data"

    async def cut(self, *ways: str) -> None:
        """Drop what comes from the other cluster, what goes there, or both."""
        await asyncio.to_thread(self.network.cut, self.number, ways)

    async def lose(self, percent: int) -> None:
        """Lose so many packets of a hundred."""
        await asyncio.to_thread(self.network.cut, self.number, percent=percent)

    async def slow(self, rate: str) -> None:
        await asyncio.to_thread(self.network.slow, self.number, rate)

    async def heal(self) -> None:
        await asyncio.to_thread(self.network.heal, self.number)

    async def fill_disk(self) -> None:
        await asyncio.to_thread(fill, self.disk / "ballast")

    def make_room(self) -> None:
        (self.disk / "ballast").unlink()

    async def synchronise(self) -> None:
        """Begin a synchronisation; one that is under way ends before."""

        async def begun() -> bool:
            body = f"{self.name}&&peer-rep&peer&{MAP}"
            found = await self.ask("POST", "wan/sync/map", body)
            return found is not None and found[0] == ACCEPTED

        await eventually(begun)

    async def change_state(self, state: str) -> None:
        """Set the cluster's state."""

        async def changed() -> bool:
            body = f"{self.name}&&{state}"
            found = await self.ask("POST", "management/cluster/changeState", body)
            return found is not None and found[0] == OK

        await eventually(changed)

    async def needs_sync(self) -> bool:
        return bool((await self.publisher()).get("needsSync"))

    async def is_quiet(self) -> bool:
        """Tell whether the other cluster has all that this one has for it."""
        found: dict[str, Any] = await self.publisher()
        if not found or found["queued"]["all"] or found["lagMillis"]:
            return False
        return not (found["blocked"] or found["needsSync"] or found["job"])


@asynccontextmanager
async def apart(directory: Path) -> AsyncIterator[tuple[ApartSite, ApartSite]]:
    """Start two clusters that replicate to each other; the block ends them."""
    async with AsyncExitStack() as stack:
        network = stack.enter_context(Network(2))
        sites = (
            ApartSite("tokyo", "london", directory, network, 0),
            ApartSite("london", "tokyo", directory, network, 1),
        )
        for site in sites:
            site.directory.mkdir(parents=True)
            stack.enter_context(volume(site.disk, DISK_BYTES))
            stack.push_async_callback(site.close)
        tokyo, london = sites
        await asyncio.gather(
            tokyo.open_at(f"{london.host}:{london.wan_port}"),
            london.open_at(f"{tokyo.host}:{tokyo.wan_port}"),
        )
        yield sites
