"""Starting one of several members whose others may be gone for good: told so, it goes on without.

What a member alone does about a damaged store, several do about a majority that is lost: they wait,
and `partialStart` goes on with the data that is left, `forceStart` with none.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.persistence.recovery import (
    HEALTHY,
    NOT_PARTIAL,
    STOPPING,
    UNDER_WAY,
    RecoveryAction,
    RecoveryStage,
)
from grid_member.cluster.persistence.store_recovery import KINDS, OFF, StoreRecovery, plainly
from grid_member.engine.api import EngineError
from grid_member.engine.replication import NOTHING_TO_RESCUE
from grid_member.telemetry.logs import event, failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.cluster.persistence.store_recovery import Around, Early

KNOWN_S: Final = 15.0
"""How long a call waits until a start knows whether it waits for others: a majority that is gone is
noticed when it has confirmed nothing for ten seconds."""
LOOK_S: Final = 0.05
JUST_STARTED: Final = (
    "this member is starting and cannot tell yet whether it has to wait for the others: nothing "
    "was done, ask again in 5 s; if this goes on while the others are gone for good, restart it"
)
_log: Final = logging.getLogger("grid.persistence")


class StartProgress(Protocol):
    """An engine whose start waits for other members."""

    @property
    def waiting(self) -> str | None:
        """Why the start is not over yet; None when nothing is waited for."""

    @property
    def decided(self) -> bool:
        """Whether it is known by now if the start waits for others, or it is over."""

    @property
    def ended(self) -> bool:
        """Whether the start is given up, as the member is to stop."""

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends."""

    async def rescue(self, *, wipe: bool) -> None:
        """Let the start go on with the members that are there; `EngineError` says why not."""


class ClusterRecovery(StoreRecovery):
    """Starts an engine that waits for the others, whatever is asked of it meanwhile."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[None]],
        engine: StartProgress,
        early: Early,
        *,
        policy: str,
        stored: bool,
    ) -> None:
        """Begin nothing yet; stored tells whether the members keep their data on disk."""
        # Without a store there is no damage that is waited about.
        super().__init__(open_store, None, early, policy=policy, timeout_s=0)
        self._engine = engine
        self._keeps_data = stored
        self._rescuing = False

    @property
    def problem(self) -> str | None:
        """What the start waits for; None when it does not."""
        return self._engine.waiting

    async def force_start(self, around: Around | None = None) -> str | None:
        """Delete the data of all members; return why that is not done, or None."""
        return await self._run_rescue(RecoveryAction.WIPE, around)

    async def partial_start(self, around: Around | None = None) -> str | None:
        """Go on with what the members have that are there; return why that is not done, or None."""
        if self._keeps_data and not self._state.partial:
            return NOT_PARTIAL
        return await self._run_rescue(RecoveryAction.SALVAGE, around)

    async def _run_rescue(self, how: RecoveryAction, around: Around | None) -> str | None:
        if not self._keeps_data:
            return OFF
        if self._rescuing:
            return UNDER_WAY
        self._rescuing = True
        try:
            # A key must not remember what is so for a moment only: this is not noted under it.
            if not await self._wait_decided():
                return JUST_STARTED
            if self._state.stage is RecoveryStage.ENDED or self._engine.ended:
                return STOPPING
            if self._state.stage is not RecoveryStage.OPENING:
                return HEALTHY if self._engine.in_contact else NOTHING_TO_RESCUE
            return await self._rescue(how, around or plainly)
        finally:
            self._rescuing = False

    async def _wait_decided(self) -> bool:
        """Wait until it is known whether the start waits for others; False: not in time."""
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + KNOWN_S
        while self._state.stage is RecoveryStage.OPENING and not self._engine.decided:
            if now_s() >= until_s:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    async def _rescue(self, how: RecoveryAction, around: Around) -> str | None:
        loop = asyncio.get_running_loop()
        ended = self._early(KINDS[how])
        problem: str | None = None

        def work() -> None:
            rescue = self._engine.rescue(wipe=how is RecoveryAction.WIPE)
            asyncio.run_coroutine_threadsafe(rescue, loop).result()

        try:
            await asyncio.to_thread(around, work)
        except EngineError as error:
            problem = str(error)
        except Exception as error:
            failure(_log, "recovery failed", error)
            problem = "unexpected error: see the log"
        else:
            event(_log, logging.WARNING, "the lost members are left out", call=KINDS[how])
        ended(problem)
        return problem
