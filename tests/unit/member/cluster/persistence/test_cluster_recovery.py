"""What one of several members does about calls to start without others that are lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from grid_member.cluster.persistence import rescue
from grid_member.cluster.persistence.persistence import Persistence
from grid_member.cluster.persistence.recovery import HEALTHY, NOT_PARTIAL, STOPPING, UNDER_WAY
from grid_member.cluster.persistence.rescue import ClusterRecovery
from grid_member.cluster.persistence.start_calls import StartCalls
from grid_member.cluster.persistence.store_recovery import OFF
from grid_member.engine.api import EngineError, NotYetError
from grid_member.engine.replication import NOTHING_TO_RESCUE
from grid_member.http.routes.persistence import force_start
from tests.unit.member.cluster.managed import content

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.cluster.persistence.store_recovery import StoreRecovery
    from tests.unit.member.cluster.managed import Managed

PARTIAL = "PARTIAL_RECOVERY_MOST_COMPLETE"


class WaitingEngine:
    """Waits until it is rescued."""

    def __init__(self) -> None:
        self.waiting: str | None = "for the others"
        self.decided = True
        self.ended = False
        self.in_contact = True
        self.rescues: list[bool] = []
        self.asked = asyncio.Event()
        self.refuses: Exception | None = None
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self._started = asyncio.Event()
        self._failure: Exception | None = None

    async def start(self) -> None:
        await self._started.wait()
        if self._failure is not None:
            raise self._failure
        self.waiting = None

    def fails(self, failure: Exception) -> None:
        """End the start so."""
        self._failure = failure
        self._started.set()

    async def rescue(self, *, wipe: bool) -> None:
        self.rescues.append(wipe)
        self.asked.set()
        await self.may_go_on.wait()
        if self.refuses is not None:
            raise self.refuses
        self._started.set()


class Starting:
    """A start that is under way."""

    def __init__(self, policy: str = PARTIAL, *, stored: bool = True) -> None:
        self.engine = WaitingEngine()
        self.history: list[tuple[str, str | None]] = []
        self.recovery = ClusterRecovery(
            self.engine.start, self.engine, self._early, policy=policy, stored=stored
        )
        self._stop = asyncio.Event()
        self.started = asyncio.ensure_future(self.recovery.start(self._wait))

    async def _wait(self) -> None:
        await self._stop.wait()

    def _early(self, kind: str) -> Callable[[str | None], None]:
        return lambda problem: self.history.append((kind, problem))


async def test_partial_start_goes_on_without_the_lost() -> None:
    starting = Starting()
    before = starting.recovery.problem
    assert before == "for the others"
    assert await starting.recovery.partial_start() is None
    assert await starting.started
    assert starting.engine.rescues == [False]
    assert starting.history == [("partialStart", None)]
    assert starting.recovery.problem is None
    assert await starting.recovery.partial_start() == HEALTHY
    starting.engine.in_contact = False  # the others died since
    assert await starting.recovery.partial_start() == NOTHING_TO_RESCUE
    assert starting.engine.rescues == [False]


async def test_force_start_needs_no_policy_and_wipes() -> None:
    starting = Starting(policy="FULL_RECOVERY_ONLY")
    assert await starting.recovery.partial_start() == NOT_PARTIAL
    assert await starting.recovery.force_start() is None
    assert await starting.started
    assert starting.engine.rescues == [True]
    assert starting.history == [("forceStart", None)]


async def test_what_is_done_is_done_within_what_goes_with_it() -> None:
    starting = Starting()
    steps: list[str] = []

    def around(work: Callable[[], None]) -> None:
        steps.append("noted")
        work()
        steps.append("ended")

    assert await starting.recovery.force_start(around) is None
    assert steps == ["noted", "ended"]
    assert await starting.started


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (EngineError("a majority is there"), "a majority is there"),
        (ValueError("secret"), "unexpected error: see the log"),
    ],
)
async def test_what_cannot_be_done_is_told_and_can_be_asked_again(
    error: Exception, problem: str
) -> None:
    starting = Starting()
    starting.engine.refuses = error
    assert await starting.recovery.partial_start() == problem
    assert starting.history == [("partialStart", problem)]
    starting.engine.refuses = None
    assert await starting.recovery.partial_start() is None
    assert await starting.started


async def test_one_at_a_time() -> None:
    starting = Starting()
    starting.engine.may_go_on.clear()
    first = asyncio.ensure_future(starting.recovery.partial_start())
    await starting.engine.asked.wait()
    assert await starting.recovery.force_start() == UNDER_WAY
    starting.engine.may_go_on.set()
    assert await first is None
    assert await starting.started
    assert starting.engine.rescues == [False]


async def test_a_call_waits_until_the_start_knows_what_it_waits_for() -> None:
    starting = Starting()
    starting.engine.decided = False
    call = asyncio.ensure_future(starting.recovery.partial_start())
    await asyncio.sleep(0)
    assert await starting.recovery.partial_start() == UNDER_WAY
    assert starting.engine.rescues == []
    starting.engine.decided = True
    assert await call is None
    assert starting.history == [("partialStart", None)]
    assert await starting.started


async def test_a_call_that_comes_as_the_start_ends_is_not_needed() -> None:
    starting = Starting()
    starting.engine.decided = False
    call = asyncio.ensure_future(starting.recovery.force_start())
    await asyncio.sleep(0)
    await starting.engine.rescue(wipe=False)  # by somebody else
    assert await starting.started
    assert await call == HEALTHY
    assert starting.history == []


@pytest.mark.parametrize("failed", [False, True])
async def test_a_call_that_waits_as_the_member_stops_is_not_noted(failed: bool) -> None:
    starting = Starting()
    starting.engine.decided = False
    noted: list[str] = []
    call = asyncio.ensure_future(starting.recovery.partial_start(lambda _: noted.append("noted")))
    await asyncio.sleep(0)
    if failed:
        starting.engine.fails(EngineError("damaged"))
        with pytest.raises(EngineError, match="damaged"):
            await starting.started
    else:
        starting.engine.ended = starting.engine.decided = True
    assert await call == STOPPING
    assert (noted, starting.history, starting.engine.rescues) == ([], [], [])
    starting.started.cancel()


async def test_a_start_that_does_not_know_in_time_says_when_to_ask_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rescue, "KNOWN_S", 0.0)
    starting = Starting()
    starting.engine.decided = False
    noted: list[str] = []

    def around(work: Callable[[], None]) -> None:
        noted.append("noted")
        work()

    told = await starting.recovery.partial_start(around)
    assert told is not None
    assert "ask again in 5 s" in told
    assert (noted, starting.history) == ([], [])  # its key may be sent again
    starting.engine.decided = True
    assert await starting.recovery.partial_start(around) is None
    assert noted == ["noted"]
    assert await starting.started


@pytest.mark.parametrize("done", [False, True])
async def test_a_call_that_waited_for_another_one_of_its_key_is_not_carried_out(
    make: Callable[..., Managed], tmp_path: Path, done: bool
) -> None:
    """Whoever sent it may have given up long ago, and others may serve by now."""
    managed, starting = make(), Starting()
    engine = starting.engine
    assert managed.management.persistence is not None
    managed.management.persistence = Persistence(
        managed.management.persistence.backups,
        cast("StoreRecovery", starting.recovery),
        StartCalls(tmp_path, lambda: managed.clock_ms),
    )
    engine.may_go_on.clear()
    engine.refuses = None if done else NotYetError("not taken off in time: ask again in 5 s")
    first, second = [
        asyncio.ensure_future(managed.call(force_start, keys=("k",))) for _ in range(2)
    ]
    await engine.asked.wait()
    engine.may_go_on.set()
    answers = [content(await call) for call in (first, second)]
    assert engine.rescues == [True]
    if done:
        assert answers == [{"status": "success"}] * 2
    else:
        assert [answer["status"] for answer in answers] == ["fail", "fail"]
        assert all("ask again in 5 s" in answer["message"] for answer in answers)
        assert not starting.started.done()
        engine.refuses = None
        assert content(await managed.call(force_start, keys=("k",))) == {"status": "success"}
        assert engine.rescues == [True, True]
    assert await starting.started


async def test_members_without_a_disk_have_nothing_to_start_from() -> None:
    starting = Starting(stored=False)
    assert await starting.recovery.partial_start() == OFF
    assert await starting.recovery.force_start() == OFF
    starting.started.cancel()
