"""Starting a member on a store that may be damaged: what `salvage` says, done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from grid_member.cluster.persistence.recovery import (
    PARTIAL_POLICIES,
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
from grid_member.engine.api import EngineError
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.telemetry.logs import event as log_event

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

Around: TypeAlias = Callable[[Callable[[], None]], None]
"""Does the work that it is given, and what goes with it. May block and raise `EngineError`."""
Early: TypeAlias = Callable[[str], Callable[[str | None], None]]
"""Begins an operation of a kind; what it returns takes its end, as `Operations.early` says."""
KINDS: Final = {RecoveryAction.SALVAGE: "partialStart", RecoveryAction.WIPE: "forceStart"}
"""What the history calls a recovery."""
OFF: Final = "persistence is off: set persistence.enabled"
_WAITING: Final = frozenset({RecoveryStage.WAITING, RecoveryStage.SALVAGING, RecoveryStage.WIPING})
_log: Final = logging.getLogger("grid.persistence")


class RecoverableStore(Protocol):
    """A store that is not open. Both methods block and raise `EngineError`."""

    def salvage(self) -> None:
        """Make a store of what is left."""

    def wipe(self) -> None:
        """Delete what is stored."""


@dataclass(frozen=True, slots=True)
class StoreDirectory:
    """The store in a member's base directory."""

    directory: Path
    shards: int

    def salvage(self) -> None:
        """Make a store of what is left; the damaged one is kept beside it."""
        # Hardly any start needs it: neither here nor below.
        from grid_member.engine.backup.salvage import refuse_healthy, salvage_store

        refuse_healthy(self.directory, self.shards)
        found = salvage_store(self.directory, self.shards)
        for shard, sequence in enumerate(found.sequences):
            log_event(_log, logging.WARNING, "log salvaged", shard=shard, sequence=sequence)

    def wipe(self) -> None:
        """Delete what is stored."""
        from grid_member.engine.backup.salvage import refuse_healthy, wipe_store

        refuse_healthy(self.directory, self.shards)
        wipe_store(self.directory, self.shards)
        log_event(_log, logging.WARNING, "store wiped", directory=str(self.directory))


class StoreRecovery:
    """Starts an engine, whatever is asked of its store meanwhile. For one event loop."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[None]],
        store: RecoverableStore | None,
        early: Early,
        *,
        policy: str,
        timeout_s: float,
    ) -> None:
        """Begin nothing yet.

        The call open_store is made again after a failure; store is None when nothing is stored;
        early notes a recovery for the history; timeout_s is how long a damaged store waits.
        """
        self._open_store = open_store
        self._store = store
        self._early = early
        self._timeout_s = timeout_s
        self._state = RecoveryState(policy in PARTIAL_POLICIES)
        self._error: BaseException | None = None
        self._calls: dict[int, asyncio.Future[str | None]] = {}
        self._around: dict[int, Around] = {}
        self._last_call = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock: asyncio.TimerHandle | None = None
        self._finished = asyncio.Event()

    @property
    def problem(self) -> str | None:
        """Why the member waits, for whoever asks whether it is ready; None when it does not."""
        return self._state.problem if self._state.stage in _WAITING else None

    async def start(self, stop_wanted: Callable[[], Awaitable[None]]) -> bool:
        """Open the store; return True then, False when a stop was wanted before.

        Raises:
            EngineError: the store cannot be opened, and nobody said in time what to do about it.
            ConfigError: what it holds does not go with the configuration.
        """
        watch = asyncio.ensure_future(self._watch(stop_wanted))
        self._perform(RecoveryAction.OPEN)
        try:
            await self._finished.wait()
        finally:
            watch.cancel()
            if self._clock is not None:
                self._clock.cancel()
        if self._state.stage is RecoveryStage.RUNNING:
            return True
        if self._state.stopping or self._error is None:
            return False
        raise self._error

    async def force_start(self, around: Around | None = None) -> str | None:
        """Delete the data of a store that is damaged; return why that is not done, or None.

        What is done to the store is done inside of around, on a thread.
        """
        return await self._ask(True, around)

    async def partial_start(self, around: Around | None = None) -> str | None:
        """Go on with what is left of a damaged store; return why that is not done, or None."""
        return await self._ask(False, around)

    async def _ask(self, forced: bool, around: Around | None) -> str | None:
        if self._store is None:
            return OFF
        self._last_call += 1
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._calls[self._last_call] = answer
        self._around[self._last_call] = around or plainly
        self._post(RecoveryRequest(self._last_call, forced))
        return await answer

    def _post(self, event: Event) -> None:
        former = self._state.stage
        self._state, effects = step(self._state, event)
        if self._state.stage is RecoveryStage.WAITING and former is not RecoveryStage.WAITING:
            log_event(
                _log,
                logging.WARNING,
                "the store is damaged: the member waits for forceStart or partialStart",
                reason=self._state.problem,
            )
        for effect in effects:
            self._perform(effect)
        if self._state.stage is RecoveryStage.RUNNING:
            self._finished.set()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case CallAnswer(call, problem):
                answer = self._calls.pop(call)
                del self._around[call]
                if not answer.done():  # whoever asked may have left
                    answer.set_result(problem)
            case RecoveryAction.OPEN:
                self._begin(self._open())
            case RecoveryAction.SALVAGE | RecoveryAction.WIPE:
                self._begin(self._recover(effect))
            case RecoveryAction.START_CLOCK:
                loop = asyncio.get_running_loop()
                self._clock = loop.call_later(self._timeout_s, self._post, DeadlinePassed())
            case RecoveryAction.GIVE_UP | RecoveryAction.LEAVE:
                self._finished.set()

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, stop_wanted: Callable[[], Awaitable[None]]) -> None:
        await stop_wanted()
        self._post(StopRequest())

    async def _open(self) -> None:
        try:
            await self._open_store()
        except Exception as error:
            self._error = error
            damaged = isinstance(error, DamagedStoreError) and self._store is not None
            self._post(OpenEnd(str(error), damaged))
        else:
            self._post(OpenEnd())

    async def _recover(self, how: RecoveryAction) -> None:
        store = self._store
        if store is None:
            return
        ended = self._early(KINDS[how])
        problem: str | None = None
        try:
            around = self._around.get(self._state.request or 0, plainly)
            await asyncio.to_thread(
                around, store.salvage if how is RecoveryAction.SALVAGE else store.wipe
            )
        except EngineError as error:
            problem = str(error)
        except Exception as error:
            log_event(_log, logging.ERROR, "recovery failed", error=type(error).__name__)
            problem = "unexpected error: see the log"
        ended(problem)
        self._post(RecoveryEnd(problem))


def plainly(work: Callable[[], None]) -> None:
    """Do the work, and nothing with it."""
    work()
