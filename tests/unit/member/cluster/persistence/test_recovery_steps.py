"""Promise: a damaged store waits to be told, and nothing happens to one that nobody said so of."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.persistence.recovery import (
    CallAnswer,
    DeadlinePassed,
    Effect,
    Event,
    OpenEnd,
    RecoveryAction,
    RecoveryEnd,
    RecoveryRequest,
    RecoveryStage,
    RecoveryState,
    StopRequest,
    step,
)
from grid_member.cluster.persistence.store_recovery import StoreDirectory, StoreRecovery
from grid_member.engine import open_engine
from grid_member.engine.api import EngineError
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.engine.local import deliveries
from tests.unit.engine.backed_up import STRUCTURES, damage_log, fill
from tests.unit.engine.drive import Driver, condition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DAMAGED = OpenEnd("damaged", True)
CASES: dict[str, tuple[bool, list[Event], RecoveryStage, list[Effect]]] = {
    "opened": (False, [OpenEnd()], RecoveryStage.RUNNING, []),
    "foreign": (
        True,
        [OpenEnd("foreign", False)],
        RecoveryStage.ENDED,
        [RecoveryAction.GIVE_UP],
    ),
    "damaged": (True, [DAMAGED], RecoveryStage.WAITING, [RecoveryAction.START_CLOCK]),
    "late": (
        True,
        [DAMAGED, DeadlinePassed()],
        RecoveryStage.ENDED,
        [RecoveryAction.START_CLOCK, RecoveryAction.GIVE_UP],
    ),
    "stopped": (
        True,
        [DAMAGED, StopRequest()],
        RecoveryStage.ENDED,
        [RecoveryAction.START_CLOCK, RecoveryAction.LEAVE],
    ),
    "stopped while opening": (
        True,
        [StopRequest(), DAMAGED],
        RecoveryStage.ENDED,
        [RecoveryAction.LEAVE],
    ),
    "stopped, but opened": (True, [StopRequest(), OpenEnd()], RecoveryStage.RUNNING, []),
    "forced": (
        False,
        [DAMAGED, RecoveryRequest(1, True), RecoveryEnd(), OpenEnd()],
        RecoveryStage.RUNNING,
        [RecoveryAction.START_CLOCK, RecoveryAction.WIPE, CallAnswer(1, None), RecoveryAction.OPEN],
    ),
    "partial": (
        True,
        [DAMAGED, RecoveryRequest(1, False), RecoveryEnd(), OpenEnd()],
        RecoveryStage.RUNNING,
        [
            RecoveryAction.START_CLOCK,
            RecoveryAction.SALVAGE,
            CallAnswer(1, None),
            RecoveryAction.OPEN,
        ],
    ),
    "nothing left": (
        True,
        [
            DAMAGED,
            RecoveryRequest(1, False),
            RecoveryEnd("nothing"),
            RecoveryRequest(2, True),
            RecoveryEnd(),
        ],
        RecoveryStage.OPENING,
        [
            RecoveryAction.START_CLOCK,
            RecoveryAction.SALVAGE,
            CallAnswer(1, "nothing"),
            RecoveryAction.WIPE,
            CallAnswer(2, None),
            RecoveryAction.OPEN,
        ],
    ),
    "time is over in the middle": (
        True,
        [DAMAGED, RecoveryRequest(1, False), DeadlinePassed(), RecoveryEnd(), OpenEnd()],
        RecoveryStage.RUNNING,
        [
            RecoveryAction.START_CLOCK,
            RecoveryAction.SALVAGE,
            CallAnswer(1, None),
            RecoveryAction.OPEN,
        ],
    ),
    "time is over in the middle, in vain": (
        True,
        [DAMAGED, RecoveryRequest(1, False), DeadlinePassed(), RecoveryEnd("no")],
        RecoveryStage.ENDED,
        [
            RecoveryAction.START_CLOCK,
            RecoveryAction.SALVAGE,
            CallAnswer(1, "no"),
            RecoveryAction.GIVE_UP,
        ],
    ),
    "stop in the middle": (
        True,
        [DAMAGED, RecoveryRequest(1, True), StopRequest(), RecoveryEnd()],
        RecoveryStage.ENDED,
        [
            RecoveryAction.START_CLOCK,
            RecoveryAction.WIPE,
            CallAnswer(1, None),
            RecoveryAction.LEAVE,
        ],
    ),
    "damaged again": (
        True,
        [DAMAGED, RecoveryRequest(1, False), RecoveryEnd(), DAMAGED],
        RecoveryStage.WAITING,
        [
            RecoveryAction.START_CLOCK,
            RecoveryAction.SALVAGE,
            CallAnswer(1, None),
            RecoveryAction.OPEN,
        ],
    ),
}


def run(allowed: bool, events: list[Event]) -> tuple[RecoveryState, list[Effect]]:
    state, effects = RecoveryState(allowed), list[Effect]()
    for event in events:
        state, more = step(state, event)
        effects += more
    return state, effects


@pytest.mark.parametrize("case", CASES)
def test_a_start(case: str) -> None:
    allowed, events, stage, effects = CASES[case]
    state, found = run(allowed, events)
    assert (state.stage, found) == (stage, effects)


REFUSALS: dict[str, tuple[list[Event], str]] = {
    "loading": ([], "is being loaded"),
    "running": ([OpenEnd()], "healthy and in use"),
    "salvaging": ([DAMAGED, RecoveryRequest(1, False)], "another recovery is under way"),
    "wiping": ([DAMAGED, RecoveryRequest(1, True)], "another recovery is under way"),
    "ended": ([DAMAGED, DeadlinePassed()], "is stopping"),
}


@pytest.mark.parametrize("case", REFUSALS)
@pytest.mark.parametrize("asked", [RecoveryRequest(7, True), RecoveryRequest(7, False)])
def test_the_wrong_moment(case: str, asked: Event) -> None:
    events, problem = REFUSALS[case]
    before, _ = run(True, events)
    after, effects = step(before, asked)
    assert after == before
    (reply,) = effects
    assert isinstance(reply, CallAnswer)
    assert reply.call == 7
    assert problem in (reply.problem or "")


def test_a_policy_of_full_recovery_only() -> None:
    state, _ = run(False, [DAMAGED])
    after, effects = step(state, RecoveryRequest(7, False))
    assert after == state
    (reply,) = effects
    assert isinstance(reply, CallAnswer)
    assert "persistence.cluster-data-recovery-policy" in (reply.problem or "")


@pytest.mark.parametrize("seed", range(200))
def test_any_order_of_events(seed: int) -> None:
    """Each call has one answer; what is done to the store was asked for, once a call."""
    chance = random.Random(seed)
    state, replied = RecoveryState(chance.random() < 0.5), list[int]()
    for call in range(60):
        makers: list[Callable[[], Event]] = [DeadlinePassed, StopRequest] * (chance.random() < 0.1)
        makers += [partial(RecoveryRequest, call, forced) for forced in (True, False)]
        if state.stage is RecoveryStage.OPENING:
            makers += [OpenEnd] * (chance.random() < 0.2) + [lambda: DAMAGED]
        elif state.stage in (RecoveryStage.SALVAGING, RecoveryStage.WIPING):
            makers += [RecoveryEnd, lambda: RecoveryEnd("no")]
        before, event = state, chance.choice(makers)()
        state, effects = step(state, event)
        replied += [effect.call for effect in effects if isinstance(effect, CallAnswer)]
        done = [effect for effect in effects if isinstance(effect, RecoveryAction)]
        if RecoveryAction.WIPE in done:
            assert before.stage is RecoveryStage.WAITING
            assert event == RecoveryRequest(call, True)
        if RecoveryAction.SALVAGE in done:
            assert before.stage is RecoveryStage.WAITING
            assert event == RecoveryRequest(call, False)
            assert state.partial
        if RecoveryAction.GIVE_UP in done or RecoveryAction.LEAVE in done:
            assert state.stage is RecoveryStage.ENDED
            assert before.stage is not RecoveryStage.ENDED
        if before.stage in (RecoveryStage.ENDED, RecoveryStage.RUNNING):
            assert not done
    assert len(replied) == len(set(replied))
    if state.stage not in (RecoveryStage.SALVAGING, RecoveryStage.WIPING):
        assert state.request is None


@dataclass
class FakeStore:
    """A store that does what a test says, on the thread that recovers it."""

    problems: list[str | None] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def salvage(self) -> None:
        self._work("salvage")

    def wipe(self) -> None:
        self._work("wipe")

    def _work(self, what: str) -> None:
        self.done.append(what)
        problem = self.problems.pop(0) if self.problems else None
        if problem is not None:
            raise EngineError(problem)


@dataclass
class Start:
    """A start whose openings fail as a test says."""

    errors: list[Exception]
    store: FakeStore | None = field(default_factory=FakeStore)
    policy: str = "PARTIAL_RECOVERY_MOST_RECENT"
    timeout_s: float = 60
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    history: list[tuple[str, str | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recovery = StoreRecovery(
            self.open, self.store, self.early, policy=self.policy, timeout_s=self.timeout_s
        )

    def early(self, kind: str) -> Callable[[str | None], None]:
        return lambda error: self.history.append((kind, error))

    async def open(self) -> None:
        if self.errors:
            raise self.errors.pop(0)

    async def wanted(self) -> None:
        await self.stop.wait()

    def begin(self) -> asyncio.Task[bool]:
        return asyncio.create_task(self.recovery.start(self.wanted))

    async def waiting(self) -> asyncio.Task[bool]:
        task = self.begin()
        await condition(lambda: self.recovery.problem is not None)
        return task


async def test_a_store_that_opens() -> None:
    start = Start([])
    assert await start.begin() is True
    assert start.recovery.problem is None
    assert "healthy" in str(await start.recovery.force_start())
    assert start.store is not None
    assert start.store.done == []


async def test_a_damaged_store_is_recovered() -> None:
    start = Start([DamagedStoreError("torn"), DamagedStoreError("torn again")])
    store = FakeStore(problems=["the disk is full"])
    start = Start(start.errors, store)
    task = await start.waiting()
    assert start.recovery.problem == "torn"
    assert await start.recovery.partial_start() == "the disk is full"
    assert await start.recovery.partial_start() is None
    await condition(lambda: start.recovery.problem == "torn again")
    assert await start.recovery.force_start() is None
    assert await task is True
    assert store.done == ["salvage", "salvage", "wipe"]
    assert start.history == [
        ("partialStart", "the disk is full"),
        ("partialStart", None),
        ("forceStart", None),
    ]
    assert start.recovery.problem is None


async def test_nobody_says_what_to_do() -> None:
    start = Start([DamagedStoreError("torn")], timeout_s=0.01)
    with pytest.raises(DamagedStoreError, match="torn"):
        await start.begin()
    assert "stopping" in str(await start.recovery.force_start())


async def test_a_stop_while_it_waits() -> None:
    start = Start([DamagedStoreError("torn")])
    task = await start.waiting()
    start.stop.set()
    assert await task is False


@pytest.mark.parametrize("error", [EngineError("foreign"), ValueError("a bug")])
async def test_what_no_recovery_helps_with_ends_the_start_at_once(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        await Start([error]).begin()


async def test_persistence_off() -> None:
    start = Start([], store=None)
    assert await start.begin() is True
    for ask in (start.recovery.force_start, start.recovery.partial_start):
        assert await ask() == "persistence is off: set persistence.enabled"


async def test_a_store_that_is_healthy_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)
    engine = open_engine(STRUCTURES, tmp_path)
    await engine.start()
    await fill(Driver(engine), rounds=20)
    await engine.stop()
    log = tmp_path / "store/shard-0/data.mdb"
    whole = log.read_bytes()
    store = StoreDirectory(tmp_path, 1)
    for recover in (store.salvage, store.wipe):
        with pytest.raises(EngineError, match="is healthy: start the member again"):
            recover()
        assert log.read_bytes() == whole
    assert sorted(os.listdir(tmp_path)) == ["lock", "store"]
    # Neither is it damaged when it cannot be opened just now.
    monkeypatch.setattr(Path, "open", refused_open)
    for recover in (store.salvage, store.wipe):
        with pytest.raises(EngineError, match="cannot use the"):
            recover()
    assert sorted(os.listdir(tmp_path)) == ["lock", "store"]


def refused_open(path: Path, *arguments: object, **options: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


@pytest.mark.parametrize("forced", [False, True])
async def test_a_real_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forced: bool) -> None:
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)
    engine = open_engine(STRUCTURES, tmp_path)
    await engine.start()
    await fill(Driver(engine), rounds=20)
    await engine.stop()
    damage_log(tmp_path / "store/shard-0", b"item 12")

    engines = [open_engine(STRUCTURES, tmp_path) for _ in range(2)]
    used: list[Driver] = []

    async def open_next() -> None:
        engine = engines.pop(0)
        await engine.start()
        used.append(Driver(engine))

    async def never() -> None:
        await asyncio.Event().wait()

    recovery = StoreRecovery(
        open_next,
        StoreDirectory(tmp_path, 1),
        lambda _: lambda _: None,
        policy="PARTIAL_RECOVERY_MOST_COMPLETE",
        timeout_s=60,
    )
    starting = asyncio.create_task(recovery.start(never))
    await condition(lambda: recovery.problem is not None)
    assert "checksum mismatch" in str(recovery.problem)
    ask: Callable[[], Awaitable[str | None]] = (
        recovery.force_start if forced else recovery.partial_start
    )
    assert await ask() is None
    assert await starting is True
    (driver,) = used
    assert await driver.size("q") == (0 if forced else 12)
    assert (tmp_path / "store.damaged-1").exists() is not forced
    await driver.engine.stop()
