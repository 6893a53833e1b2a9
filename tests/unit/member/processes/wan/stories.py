"""Stories of two clusters of real processes, each with faults that a seed chooses.

A story is short: clients of both clusters write the same keys while something goes wrong in one of
them, or on the line between them, and in the other one perhaps as well. Then all is mended, nothing
waits at last, and what both hold is compared with what the clients know.
"""

from __future__ import annotations

import asyncio
import random
import signal
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from tests.unit.member.processes.wan.apart import ApartSite
    from tests.unit.member.processes.wan.ledger import Ledger
    from tests.unit.member.processes.wan.side import Side

    Fault = Callable[["Story[ApartSite]", ApartSite], Coroutine[None, None, None]]

S = TypeVar("S", bound="Side")
Faults: TypeAlias = "Mapping[str, Callable[[Story[S], S], Coroutine[None, None, None]]]"
"""What may befall a cluster, by its name."""
CLIENTS: Final = 3
"""Of each cluster. A key belongs to one client of each."""
KEYS: Final = tuple(f"{of}-{number}" for of in ("tokyo", "london", "both") for number in range(36))
FLOOD: Final = {of: tuple(f"{of}-flood-{n}" for n in range(102)) for of in ("tokyo", "london")}
"""More keys than a queue holds."""
QUIET_S: Final = 120.0
AT_ONCE: Final = 8
"""Requests of a comparison."""
SHORT_S: Final = (0.2, 0.6, 1.2)
LONG_S: Final = (0.3, 2.0, 5.0, 20.0)
AHEAD_S: Final = (300, 60, -300, -3600)


class Story(Generic[S]):
    """What befalls two running clusters."""

    def __init__(
        self,
        seed: int,
        sites: tuple[S, S],
        faults: Faults[S],
        ledger: Ledger,
        durations_s: tuple[float, ...] = SHORT_S,
    ) -> None:
        self.chance = random.Random(seed)
        self._sites = sites
        self._faults = faults
        self._ledger = ledger
        self._durations_s = durations_s
        self._ends = False
        self._clients = {
            (site.name, client): asyncio.Lock() for site in sites for client in range(CLIENTS)
        }
        """Held while a client writes: one key after the other."""
        here, there = self.chance.sample(sites, 2)
        names = list(faults)
        self._befalls = [(names[seed % len(names)], here)]
        """Each fault is the first of every so many stories."""
        if self.chance.random() < 0.4:
            self._befalls.append((self.chance.choice(names), there))

    def __str__(self) -> str:
        return ", ".join(f"{fault} in {site.name}" for fault, site in self._befalls)

    async def play(self) -> list[str]:
        """Play it, and return what is wrong at its end."""
        clients = [
            asyncio.create_task(self._write_on(site, client))
            for site in self._sites
            for client in range(CLIENTS)
        ]
        try:
            await asyncio.sleep(0.2)
            await asyncio.gather(*(self._faults[name](self, site) for name, site in self._befalls))
            await asyncio.sleep(0.2)
            self._ends = True
            await asyncio.gather(*clients)
        finally:
            for client in clients:
                client.cancel()
        await eventually(self._is_quiet, QUIET_S)
        return await self.compare(self._ledger.touched)

    async def compare(self, keys: Iterable[str]) -> list[str]:
        """Return what is wrong with keys in a cluster."""
        chosen, free = list(keys), asyncio.Semaphore(AT_ONCE)

        async def value(site: S, key: str) -> str | None:
            async with free:
                return await site.get(key)

        here, there = [
            dict(zip(chosen, await asyncio.gather(*(value(s, k) for k in chosen)), strict=True))
            for s in self._sites
        ]
        return self._ledger.problems(here, there)

    async def _is_quiet(self) -> bool:
        """Tell whether nothing waits, nor does a moment later."""
        for _ in range(2):
            if not all(await asyncio.gather(*(site.is_quiet() for site in self._sites))):
                return False
        return True

    # Clients

    async def _write_on(self, site: S, client: int) -> None:
        keys = [key for key in KEYS[client::CLIENTS] if not key.startswith(site.peer)]
        while not self._ends:
            await asyncio.sleep(self.chance.uniform(0.0, 0.05))
            if site.runs:
                async with self._clients[site.name, client]:
                    await self._write(site, self.chance.choice(keys))

    async def _write(self, site: S, key: str) -> None:
        seen = None
        if key.startswith("both") and self.chance.random() < 0.5:
            seen = await site.peek(key)
        write = self._ledger.begin(site.name, key, removes=self.chance.random() < 0.3)
        removes = write.value is None
        done = await (site.remove(key) if removes else site.put(key, str(write.value)))
        if done:
            self._ledger.answer(key, write, seen)

    async def flood(self, site: S) -> None:
        """Write more keys than a queue holds."""
        keys = FLOOD[site.name]
        for client in range(CLIENTS):
            async with self._clients[site.name, client]:
                for key in keys[client::CLIENTS]:
                    await self._write(site, key)

    # Faults

    async def wait(self) -> None:
        """Let the fault last for a while."""
        await asyncio.sleep(self.chance.choice(self._durations_s) * self.chance.uniform(0.7, 1.3))


async def _kill(story: Story[ApartSite], site: ApartSite) -> None:
    await site.kill()
    await story.wait()
    await site.start()


async def _kill_at_once(story: Story[ApartSite], site: ApartSite) -> None:
    """Twice, the second time as soon as it runs."""
    for _ in range(2):
        await site.kill()
        await site.start()


async def _stop(story: Story[ApartSite], site: ApartSite) -> None:
    await site.stop()
    await site.start()


async def _freeze(story: Story[ApartSite], site: ApartSite) -> None:
    site.signal(signal.SIGSTOP)
    try:
        await story.wait()
    finally:
        site.signal(signal.SIGCONT)


def _cut(*ways: str) -> Fault:
    async def befall(story: Story[ApartSite], site: ApartSite) -> None:
        await site.cut(*ways)
        await story.wait()
        await site.heal()

    return befall


async def _lose(story: Story[ApartSite], site: ApartSite) -> None:
    await site.lose(story.chance.choice((5, 30)))
    await story.wait()
    await site.heal()


async def _slow(story: Story[ApartSite], site: ApartSite) -> None:
    await site.slow(story.chance.choice(("64kbit", "512kbit")))
    await story.wait()
    await site.heal()


async def _fill_the_queue(story: Story[ApartSite], site: ApartSite) -> None:
    await site.cut("input", "output")
    await story.flood(site)
    await eventually(site.needs_sync)
    await site.heal()


async def _turn_the_clock(story: Story[ApartSite], site: ApartSite) -> None:
    site.set_clock(story.chance.choice(AHEAD_S))
    await story.wait()
    site.set_clock(0)


async def _fill_the_disk(story: Story[ApartSite], site: ApartSite) -> None:
    await site.fill_disk()
    await story.wait()
    site.make_room()


async def _be_passive(story: Story[ApartSite], site: ApartSite) -> None:
    await site.change_state("passive")
    await story.wait()
    await site.change_state("active")


async def _pause(story: Story[ApartSite], site: ApartSite) -> None:
    await site.tell("pausePublisher")
    await story.wait()
    await site.tell("resumePublisher")


async def _stop_the_publisher(story: Story[ApartSite], site: ApartSite) -> None:
    await site.tell("stopPublisher")
    await story.wait()
    await site.tell("resumePublisher")
    await site.synchronise()


async def _clear_the_queue(story: Story[ApartSite], site: ApartSite) -> None:
    await site.cut("input")
    await story.wait()
    await site.tell("clearWanQueues")
    await site.heal()
    await site.synchronise()


FAULTS: Final[dict[str, Fault]] = {
    "kill -9": _kill,
    "kill -9 twice": _kill_at_once,
    "SIGTERM": _stop,
    "SIGSTOP": _freeze,
    "cut both ways": _cut("input", "output"),
    "nothing comes": _cut("input"),
    "nothing leaves": _cut("output"),
    "packets are lost": _lose,
    "the line is slow": _slow,
    "the queue is full": _fill_the_queue,
    "the clock is wrong": _turn_the_clock,
    "the disk is full": _fill_the_disk,
    "PASSIVE": _be_passive,
    "PAUSED": _pause,
    "STOPPED": _stop_the_publisher,
    "the queue is dropped": _clear_the_queue,
}
