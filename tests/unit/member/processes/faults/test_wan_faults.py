"""Promise: two clusters hold the same at last, whatever befalls a member, the line or a clock.

`tests/unit/member/wan/faults` has many more stories, in memory and with planted faults. Here the
members are processes, their line is bytes of TCP, and the disk is a disk.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.member.processes.faults.bad_line import BAD, CALM
from tests.unit.member.processes.faults.two_sites import LinedSite
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    BadDay = Callable[[], Coroutine[None, None, None]]

SEED: Final = int(os.environ.get("GRID_SEED", "0"))
SOAK_S: Final = int(os.environ.get("GRID_SOAK_SECONDS", "0"))
STORY_S: Final = 7.0
QUIET_S: Final = 120.0
CLIENTS: Final = 3
"""Of each cluster. A key belongs to one client of each that writes it."""
KEYS: Final = tuple(
    f"{who}-{number}" for who in ("tokyo", "london", "both") for number in range(60)
)
AHEAD_S: Final = (20, -3600)
"""What clocks are wrong by. Further ahead, a map would be blocked until a look every 30 seconds."""

pytestmark = pytest.mark.timeout(300 + 2 * SOAK_S)


@dataclass
class Written:
    """What one cluster's clients have done to a key."""

    answered: str | None = None
    """The last value that was answered; None is a removal, or nothing at all."""
    later: list[str | None] = field(default_factory=list)
    """What was begun since then, and may be there or not."""

    @property
    def candidates(self) -> set[str | None]:
        return {self.answered, *self.later}


class Story:
    """One run."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tokyo = LinedSite("tokyo", "london", directory, self.chance, durable=True)
        self.london = LinedSite("london", "tokyo", directory, self.chance, durable=False)
        self.sites = self.tokyo, self.london
        self.written: dict[tuple[str, str], Written] = defaultdict(Written)
        self.again: dict[str, set[str]] = {site.name: set() for site in self.sites}
        """Keys that were written while the publisher was STOPPED: they are in no queue."""
        self.stopped: set[str] = set()
        self.ends = False
        self.number = 0

    async def play(self) -> list[str]:
        """Play the story and return what is wrong at its end."""
        try:
            await asyncio.gather(self.tokyo.open(self.london), self.london.open(self.tokyo))
            clients = [
                asyncio.create_task(self._write_on(site, client))
                for site in self.sites
                for client in range(CLIENTS)
            ]
            bad_days = [asyncio.create_task(each) for each in self._bad_days()]
            await asyncio.sleep(STORY_S)
            self.ends = True
            await asyncio.gather(*bad_days)
            await asyncio.gather(*clients)
            await eventually(self._is_quiet, QUIET_S)
            return await self._problems()
        finally:
            await asyncio.gather(*(site.close() for site in self.sites))

    # Clients

    async def _write_on(self, site: LinedSite, client: int) -> None:
        peer = {"tokyo": "london", "london": "tokyo"}[site.name]
        keys = [key for key in KEYS[client::CLIENTS] if not key.startswith(peer)]
        again = self.again[site.name]
        while not self.ends or site.name in self.stopped or again.intersection(keys):
            await asyncio.sleep(self.chance.uniform(0.0, 0.05))
            if not site.runs:
                continue
            urgent = sorted(again.intersection(keys)) if site.name not in self.stopped else []
            if self.ends and not urgent:
                continue
            await self._write(site, self.chance.choice(urgent or keys))

    async def _write(self, site: LinedSite, key: str) -> None:
        self.number += 1
        value = f"{site.name} {self.number}" if self.chance.random() < 0.7 else None
        written = self.written[site.name, key]
        written.later.append(value)
        self.again[site.name].discard(key)
        while_stopped = site.name in self.stopped
        done = await (site.remove(key) if value is None else site.put(key, value))
        if done:
            written.answered, written.later = value, []
        if while_stopped or site.name in self.stopped or not done:
            self.again[site.name].add(key)

    # Bad days

    def _bad_days(self) -> list[Coroutine[None, None, None]]:
        return [
            *(self._befall(partial(self._bad_weather, site)) for site in self.sites),
            *(self._befall(partial(self._change_state, site)) for site in self.sites),
            *(self._befall(partial(self._change_clock, site)) for site in self.sites),
            self._befall(self._restart),
        ]

    async def _befall(self, bad_day: BadDay) -> None:
        while not self.ends:
            await asyncio.sleep(self.chance.uniform(0.1, 2.0))
            await bad_day()

    async def _bad_weather(self, site: LinedSite) -> None:
        line = site.line
        line.weather = self.chance.choice(BAD)
        if self.chance.random() < 0.3:
            await line.cut()
        await asyncio.sleep(self.chance.uniform(0.1, 1.0))
        line.weather, line.is_cut = CALM, False

    async def _change_state(self, site: LinedSite) -> None:
        if stops := self.chance.random() < 0.4:
            self.stopped.add(site.name)
        await site.tell("stopPublisher" if stops else "pausePublisher")
        await asyncio.sleep(self.chance.uniform(0.1, 1.0))
        await site.tell("resumePublisher")
        self.stopped.discard(site.name)

    async def _change_clock(self, site: LinedSite) -> None:
        site.set_clock(self.chance.choice(AHEAD_S))
        await asyncio.sleep(self.chance.uniform(0.1, 1.0))
        site.set_clock(0)

    async def _restart(self) -> None:
        """Kill or stop the durable member, perhaps with another password for a while."""
        changes = self.chance.random() < 0.4
        await (self.tokyo.kill() if self.chance.random() < 0.7 else self.tokyo.stop())
        if changes:
            self.tokyo.asks = "second"
            await self.tokyo.start()
            await asyncio.sleep(self.chance.uniform(0.1, 0.5))
            await self.tokyo.kill()
            self.tokyo.asks = "first"
        await self.tokyo.start()

    # The end

    async def _is_quiet(self) -> bool:
        for site in self.sites:
            found = await site.publisher()
            if not found or found["queued"]["all"] or found["blocked"] or site.line.repeats:
                return False
        return True

    async def _problems(self) -> list[str]:
        problems = []
        for key in KEYS:
            here, there = await self.tokyo.get(key), await self.london.get(key)
            if here != there:
                problems.append(f"{key} is {here} in tokyo and {there} in london")
            allowed: set[str | None] = set()
            for site in self.sites:
                written = self.written.get((site.name, key))
                allowed |= set() if written is None else written.candidates
            if allowed and here not in allowed:
                problems.append(f"{key} is {here}, which is none of {sorted(map(str, allowed))}")
        return problems


async def test_both_clusters_hold_the_same_at_last(tmp_path: Path) -> None:
    seed, end_s = SEED, time.monotonic() + SOAK_S
    while seed == SEED or time.monotonic() < end_s:
        directory = tmp_path / str(seed)
        directory.mkdir()
        assert (seed, await Story(directory, seed).play()) == (seed, [])
        seed += 1
