"""A log that several engines share, and the time that they go by."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grid_member.cluster.membership.membership import TICK_S
from grid_member.engine.api import ClusterState, Reason, Refused
from grid_member.engine.replication import Replication

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_member.engine.api import Done
    from grid_member.engine.local.usage import StructureKind, StructureUsage
    from grid_member.engine.replication import Taker

TURNS = 60
"""Turns of the event loop after which whatever can go on without time has gone on."""
LATE_TURNS = 6
"""Turns after which a record comes that the next one may overtake."""
UNAVAILABLE = Refused(Reason.UNAVAILABLE, "no majority")


class Time:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self._sleeping: list[tuple[float, asyncio.Future[None]]] = []

    def clock_s(self) -> float:
        return self.now_s

    def clock_ms(self) -> int:
        return int(self.now_s * 1000)

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeping.append((self.now_s + seconds, woken))
        await woken

    async def settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            self.now_s += TICK_S
            due = [one for one in self._sleeping if one[0] <= self.now_s]
            self._sleeping = [one for one in self._sleeping if one[0] > self.now_s]
            for _, woken in due:
                if not woken.done():
                    woken.set_result(None)
            await self.settle()


class SharedLog:
    """What all members agree on, in its order."""

    def __init__(self) -> None:
        self.records: list[tuple[object, list[tuple[str, Any]]]] = []
        self.engines: list[FakeEngine] = []

    def append(self, writer: object, operations: list[tuple[str, Any]]) -> None:
        self.records.append((writer, operations))
        for engine in self.engines:
            engine.wake()


class FakeEngine:
    """A member's engine over the shared log; a tick's operations are one record."""

    def __init__(self, log: SharedLog, uuid: str) -> None:
        self.log = log
        self.member_uuid = uuid
        self.values: dict[str, bytes] = {}
        self.cluster_state = ClusterState.ACTIVE
        self.restart_state = ClusterState.ACTIVE
        self.ready = True
        self.directory_lost: str | None = None
        self.cut = False
        """Whether nothing comes through, in either direction."""
        self.slow = False
        """Whether what is committed is not applied yet."""
        self.swapping = False
        """Whether of two records the later may come first, as when the log's leader changes."""
        self.refusal: Refused | None = None
        self.applied: Callable[[set[str]], None] = lambda _: None
        self.figures = Replication(True, 9, 0, ())
        self.moves = False
        """Whether copies move now, which the figures may not show yet."""
        self.barriers = 0
        self.agreed = True
        self.prepared: list[ClusterState] = []
        """The states that the shards but the first were told."""
        self.unprepared: Refused | None = None
        """Why one of those takes none."""
        self.held: set[Taker] = set()
        """Lives with items in flight, as they are seen."""
        self.ended: list[Taker] = []
        self.leases: list[tuple[float, bool]] = []
        """What it heard of its lease."""
        self._place = 0
        self._writing: list[tuple[str, Any]] = []
        self._done: list[Done[Any]] = []
        self._awaited: dict[int, list[Done[Any]]] = {}
        self._late: list[list[tuple[str, Any]]] = []
        self._waking = False
        self._barriers: list[tuple[int, asyncio.Future[bool]]] = []
        log.engines.append(self)

    def end_polls(self) -> None:
        """End none: there are none."""

    # The system store

    def system_get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def system_items(self, prefix: str) -> list[tuple[str, bytes]]:
        return [(k, v) for k, v in sorted(self.values.items()) if k.startswith(prefix)]

    def system_put(
        self, key: str, value: bytes | None, done: Done[None], *, time_to_live_s: int = 0
    ) -> None:
        self._propose((key, value), done)

    def change_cluster_state(
        self, state: ClusterState, done: Done[bool], *, transient: bool = False
    ) -> None:
        self._propose(("", (state, transient)), done)

    def prepare_cluster_state(self, state: ClusterState, done: Done[bool]) -> None:
        self.prepared.append(state)
        done(self.unprepared if self.unprepared is not None else False)

    # The rest

    def takers(self) -> set[Taker]:
        return self.held

    def end_incarnation(self, taker: Taker) -> None:
        self.ended.append(taker)

    def lease(self, until_s: float, *, ended: bool) -> None:
        self.leases.append((until_s, ended))

    def replication(self) -> Replication:
        return self.figures._replace(
            in_contact=self.figures.in_contact and not self.cut,
            answering=self.figures.answering and not self.cut,
        )

    async def moving(self) -> bool:
        return self.moves

    async def current(self) -> bool:
        self.barriers += 1
        if self.cut or not self.ready:
            return False
        place = len(self.log.records)
        if self._place >= place:
            return True
        barrier: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._barriers.append((place, barrier))
        return await barrier

    async def start(self, replayed: Callable[[], None]) -> None:
        self.wake()
        await asyncio.sleep(0)
        replayed()

    async def stop(self) -> None:
        self.ready = False
        self.refusal = Refused(Reason.CLOSING, "the member is stopping")

    def structure_usage(self) -> list[StructureUsage]:
        return []

    async def cluster_usage(self) -> list[StructureUsage]:
        return []

    def held_structures(self) -> Iterable[tuple[StructureKind, str]]:
        return []

    def store_bytes(self) -> int | None:
        return None

    def poll_waiters(self) -> int:
        return 0

    def cut_off(self) -> None:
        """Let nothing through; who waits for the others is told so."""
        self.cut = True
        self._end_barriers(10**9)

    def _end_barriers(self, place: int) -> None:
        for wanted, barrier in self._barriers:
            if wanted <= place and not barrier.done():
                barrier.set_result(wanted <= self._place)
        self._barriers = [one for one in self._barriers if not one[1].done()]

    def heal(self) -> None:
        self.cut = self.slow = self.swapping = False
        if self._writing:
            self._send()
        self._overtaken(0)
        self.wake()

    def wake(self) -> None:
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._read)

    def _propose(self, operation: tuple[str, Any], done: Done[Any]) -> None:
        if self.refusal is not None:
            done(self.refusal)
            return
        if not self._writing:
            asyncio.get_running_loop().call_soon(self._send)
        self._writing.append(operation)
        self._done.append(done)

    def _send(self) -> None:
        if self.cut or not self._writing:
            return
        operations, self._writing = self._writing, []
        self._awaited[id(operations)], self._done = self._done, []
        if self.swapping and not self._late:
            self._late.append(operations)
            self._overtaken(LATE_TURNS)
            return
        self.log.append(self, operations)

    def _overtaken(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._overtaken, turns - 1)
        while not turns and self._late and not self.cut:
            self.log.append(self, self._late.pop())

    def _read(self) -> None:
        self._waking = False
        if self.cut or self.slow:
            return
        keys: set[str] = set()
        outcomes: list[tuple[Done[Any], object]] = []
        while self._place < len(self.log.records):
            writer, operations = self.log.records[self._place]
            self._place += 1
            results = [self._apply(key, value, keys) for key, value in operations]
            if writer is self:
                outcomes += zip(self._awaited.pop(id(operations)), results, strict=True)
        for done, result in outcomes:
            done(result)
        self._end_barriers(self._place)
        if keys:
            self.applied(keys)

    def _apply(self, key: str, value: Any, keys: set[str]) -> bool | None:
        if key == "":
            state, transient = value
            changed = state is not self.cluster_state
            self.cluster_state = state
            if not transient:
                self.restart_state = state
            return changed
        keys.add(key)
        self.values.pop(key, None)
        if value is not None:
            self.values[key] = value
        return None
