"""Two clusters in one process that replicate both ways through bad days, in virtual time.

    clients ──▶ engine ──▶ senders ──▶ Line, which loses, delays, halves, doubles, spoils
                  ▲                      │
                  └───── receiver ◀──────┘          and the same the other way round

Everything but the line is the member's own: engine, log, queues, senders, receiver, bytes. One
cluster keeps its log through kills, the other one is in memory and never killed. A seed chooses
what happens. Then everything is mended, and both must hold the same: nothing that was answered may
be lost, and no key that was removed may be there.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.api import ClusterState
from grid_member.engine.wan.agreement import PublisherState
from grid_member.wan import replication
from tests.unit.member.wan.faults.clusters import (
    MAPS,
    MAX_AHEAD_MS,
    SHORT_MAP,
    Cluster,
    Known,
    StoryLoop,
)
from tests.unit.member.wan.faults.line import BAD, CALM, LATEST_AGAIN_S, Line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from grid_member.engine.api import Done, Refused
    from tests.unit.member.wan.faults.clusters import Running

    BadDay = Callable[[], Coroutine[Any, Any, None]]

KEYS: Final = tuple("abcdefghijklmnop")
STORY_S: Final = 10.0
QUIET_S: Final = 900.0
"""Virtual seconds after which clusters that still have something to send never will have less."""
LOOK_S: Final = 0.05
"""In place of `replication.LOOK_S`: a virtual second costs so many looks less."""
MEMBER_STATES: Final = (PublisherState.PAUSED, PublisherState.STOPPED)


@dataclass
class Notes:
    """What clients know: the answered changes, and what they have begun."""

    least: dict[tuple[str, str], Known] = field(default_factory=dict)
    """The newest change of a key that was answered, or was seen when one was."""
    begun: dict[tuple[str, str], set[bytes | None]] = field(default_factory=dict)

    def begin(self, name: str, key: str, value: bytes | None) -> None:
        self.begun.setdefault((name, key), {None}).add(value)

    def note(self, name: str, key: str, known: Known) -> None:
        former = self.least.get((name, key))
        if former is None or _order(known) > _order(former):
            self.least[name, key] = known

    def problems(self, cluster: Cluster) -> Iterator[str]:
        """Yield what the cluster has lost, or has and must not have."""
        for (name, key), least in self.least.items():
            found = cluster.known(name, key)
            where = f"{cluster.name}: {name}/{key} is {found}"
            if found.stamp < least.stamp:
                yield f"{where}, older than {least}, which was answered"
            elif name != SHORT_MAP and _order(found) < _order(least):
                # In the other map the end counts first, which clients do not know.
                yield f"{where}, though {least} was answered, which counts at equal stamps"
            elif found.value not in self.begun[name, key]:
                yield f"{where}, which no client wrote"


def _order(known: Known) -> tuple[int, bool, bytes]:
    """Order changes: the later stamp counts, at equal ones a removal, then the greater value."""
    return known.stamp, known.value is None, known.value or b""


class Story:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tokyo = Cluster("tokyo", "london", durable=True)
        self.london = Cluster("london", "tokyo", durable=False)
        self.clusters = self.tokyo, self.london
        self.lines = (
            Line(self.tokyo, self.london, self.chance),
            Line(self.london, self.tokyo, self.chance),
        )
        self.notes = Notes()
        self.stopped: dict[str, set[tuple[str, str]]] = {}
        """By cluster whose publisher is STOPPED: the keys that its clients changed meanwhile."""
        self.ends = False
        self._written = 0

    async def play(self) -> list[str]:
        """Play the story and return what is wrong at its end."""
        for cluster in self.clusters:
            await cluster.start()
        clients = [asyncio.create_task(self._write_on(one)) for one in self.clusters * 2]
        bad_days = [
            asyncio.create_task(self._befall(self.chance.choice(times), bad_day))
            for times, bad_day in self._bad_days()
        ]
        await asyncio.sleep(STORY_S)
        self.ends = True
        await asyncio.gather(*clients, *bad_days)
        quiet = await self._is_quiet()
        problems = [] if quiet else ["never quiet"]
        problems += [each for one in self.clusters for each in self.notes.problems(one)]
        if any(line.sent_in_silence for line in self.lines):
            problems.append("a publisher has sent though it was PAUSED or STOPPED")
        problems += self._differences()
        for cluster in self.clusters:
            await cluster.stop()
        return problems

    # Clients

    async def _write_on(self, cluster: Cluster) -> None:
        while not self.ends:
            await asyncio.sleep(self.chance.expovariate(1.0))
            for _ in range(self.chance.choice([1, 2, 8])):
                if cluster.running is not None:
                    self._write(cluster)

    def _write(self, cluster: Cluster) -> None:
        """Begin a change; note it when it is answered."""
        chance, lot = self.chance, self.chance.random()
        name, key = chance.choice(MAPS), chance.choice(KEYS)
        if lot < 0.02:
            self._clear(cluster, name)
            return
        value = None
        if lot < 0.65:
            self._written += 1
            value = b"%s %040d" % (cluster.name.encode(), self._written)
        self._change(cluster, name, key, value)

    def _change(
        self,
        cluster: Cluster,
        name: str,
        key: str,
        value: bytes | None,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        assert cluster.running is not None
        self.notes.begin(name, key, value)
        if cluster.name in self.stopped:
            self.stopped[cluster.name].add((name, key))
        engine, done = cluster.running.engine, self._noting(cluster, name, (key,), answered)
        if value is None:
            engine.map_remove(name, key, done)
        else:
            engine.map_put(name, key, value, None, done)

    def _clear(self, cluster: Cluster, name: str) -> None:
        assert cluster.running is not None
        if cluster.name in self.stopped:
            return  # nobody can tell afterwards which keys it has removed here and not there
        cluster.running.engine.map_clear(name, self._noting(cluster, name, KEYS))

    def _noting(
        self,
        cluster: Cluster,
        name: str,
        keys: tuple[str, ...],
        answered: Callable[[], None] = lambda: None,
    ) -> Done[None]:
        def note(outcome: Refused | None) -> None:
            if outcome is None:
                for key in keys:
                    self.notes.begin(name, key, None)
                    self.notes.note(name, key, cluster.known(name, key))
                answered()

        return note

    # Bad days

    def _bad_days(self) -> Iterator[tuple[Sequence[int], BadDay]]:
        """Yield what may go wrong, and how often it may."""
        for line in self.lines:
            yield (3, 4, 6), partial(self._bad_weather, line)
        for one in self.clusters:
            yield (0, 1, 1, 2), partial(self._change_state, one)
            yield (0, 0, 1, 2), partial(self._change_clock, one)
            yield (0, 0, 1), partial(self._change_password, one)
            yield (0, 0, 1), partial(self._be_passive, one)
        yield (0, 1, 2, 4), self._kill

    async def _befall(self, times: int, bad_day: BadDay) -> None:
        """Let something go wrong a few times, and go right again."""
        for _ in range(times):
            await asyncio.sleep(self.chance.uniform(0.0, STORY_S / times))
            await bad_day()

    def _a_while(self) -> float:
        return self.chance.choice([0.05, 0.5, 2.0, 5.0]) * self.chance.uniform(0.5, 1.5)

    async def _bad_weather(self, line: Line) -> None:
        line.weather = self.chance.choice(BAD)
        line.is_cut = self.chance.random() < 0.3
        await asyncio.sleep(self._a_while())
        line.weather, line.is_cut = CALM, False

    async def _kill(self) -> None:
        await self.tokyo.kill()
        await asyncio.sleep(self._a_while())
        await self.tokyo.start()

    async def _change_state(self, cluster: Cluster) -> None:
        state = self.chance.choice(MEMBER_STATES)
        if state is PublisherState.STOPPED:
            self.stopped[cluster.name] = set()
        await self._tell(cluster, state)
        await asyncio.sleep(self._a_while())
        await self._tell(cluster, PublisherState.REPLICATING)
        # What was changed meanwhile is in no queue: without a synchronisation it is written again.
        for name, key in sorted(self.stopped.pop(cluster.name, ())):
            await self._write_again(cluster, name, key)

    async def _write_again(self, cluster: Cluster, name: str, key: str) -> None:
        """Write what the cluster has of a key, until that is answered."""
        answered = asyncio.Event()
        while not answered.is_set():
            await self._running(cluster)
            value = cluster.known(name, key).value
            self._change(cluster, name, key, value, answered.set)
            await _a_second_for(answered)

    async def _tell(self, cluster: Cluster, state: PublisherState) -> None:
        """Tell it until it has answered: a member that is killed meanwhile does not."""
        while True:
            running = await self._running(cluster)
            telling = asyncio.ensure_future(cluster.set_state(state))
            await asyncio.wait([telling], timeout=1.0)
            if telling.done() and cluster.running is running:
                return
            telling.cancel()

    async def _running(self, cluster: Cluster) -> Running:
        while cluster.running is None:  # noqa: ASYNC110 - another bad day ends it
            await asyncio.sleep(0.05)
        return cluster.running

    async def _change_clock(self, cluster: Cluster) -> None:
        cluster.skew_ms = self.chance.choice([-3_600_000, -2000, 2000, 2 * MAX_AHEAD_MS])
        await asyncio.sleep(self._a_while())
        cluster.skew_ms = 0

    async def _change_password(self, cluster: Cluster) -> None:
        if self.chance.random() < 0.5:
            cluster.asks = "second"
        else:
            cluster.shows = "second"
        await asyncio.sleep(self._a_while())
        cluster.asks = cluster.shows = "first"

    async def _be_passive(self, cluster: Cluster) -> None:
        for state in (ClusterState.PASSIVE, ClusterState.ACTIVE):
            changed = asyncio.Event()

            def note(_: object, changed: asyncio.Event = changed) -> None:
                changed.set()

            while not changed.is_set():
                running = await self._running(cluster)
                running.engine.change_cluster_state(state, note)
                await _a_second_for(changed)
            if state is ClusterState.PASSIVE:
                await asyncio.sleep(self._a_while())

    # The end

    async def _is_quiet(self) -> bool:
        """Wait until nothing waits or is under way any more; tell whether that came."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + QUIET_S
        calm_s = 0.0
        while loop.time() < until_s:
            waits = any(line.under_way for line in self.lines)
            waits = waits or not all(one.is_quiet for one in self.clusters)
            calm_s = 0.0 if waits else calm_s + 1.0
            if calm_s > LATEST_AGAIN_S:
                return True
            await asyncio.sleep(1.0)
        return False

    def _differences(self) -> list[str]:
        here, there = self.clusters
        return [
            f"{name}/{key} is {here.known(name, key)} here and {there.known(name, key)} there"
            for name in MAPS
            for key in KEYS
            if here.known(name, key) != there.known(name, key)
        ]


async def _a_second_for(event: asyncio.Event) -> None:
    """Wait for it; a member that is killed meanwhile never answers."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), 1.0)


def play(seed: int, prepare: Callable[[Story], None] = lambda _: None) -> list[str]:
    """Play the story of a seed, and return what is wrong at its end."""

    async def scene() -> list[str]:
        story = Story(seed)
        prepare(story)
        return await story.play()

    former, replication.LOOK_S = replication.LOOK_S, LOOK_S  # type: ignore[misc]
    try:
        with asyncio.Runner(loop_factory=StoryLoop) as runner:
            return runner.run(scene())
    finally:
        replication.LOOK_S = former  # type: ignore[misc]
