"""This member leaves its cluster for good: a long operation, at whose end it stops.

What it waits for is shown with the operation; it may be begun again after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.membership.shutdowns import StoppingMember
from grid_member.cluster.values.system_store import put_all
from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.local.system import always
from grid_member.telemetry.logs import event, failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.cluster.management.management import Management
    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.values.system_store import Put
    from grid_member.engine.replicas.departure import Evacuation

KIND: Final = "migration"
_log: Final = logging.getLogger("grid.member")


class LeavingEngine(Protocol):
    """The engine as this needs it."""

    async def evacuate(self, progress: Callable[[Evacuation], None]) -> None:
        """Move everything to the others; return when nothing is here any more."""


class LeavingMember(StoppingMember, Protocol):
    """The member as its way out needs it."""

    @property
    def management(self) -> Management:
        """Made after the member; the way out is noted as one of its operations."""


class MemberDeparture:
    """The way out of one member. All of it belongs to one event loop."""

    def __init__(
        self, engine: LeavingEngine, member: LeavingMember, membership: Membership
    ) -> None:
        self._engine = engine
        self._member = member
        self._membership = membership
        self._begun: asyncio.Future[str | Refused] | None = None
        """The operation that is under way, once it is stored."""
        self._progress: Evacuation | None = None
        self.before_leaving: Callable[[], Awaitable[None]] = always
        """Is awaited when nothing is here any more, while the member can still write."""

    async def begin(self) -> str | Refused:
        """Begin to leave, unless that is under way; return the operation's id once it is stored.

        An operation that the system store refuses is none: the member stays.
        """
        if self._begun is None:
            operation, puts = self._member.management.operations.begin(KIND)
            self._begun, self._progress = asyncio.get_running_loop().create_future(), None
            self._membership.keep(self._run(operation, puts, self._begun))
        # The member leaves, too, when the client that asked for it has gone.
        return await asyncio.shield(self._begun)

    async def _run(
        self, operation: str, puts: tuple[Put, ...], begun: asyncio.Future[str | Refused]
    ) -> None:
        refused: Refused | None = Refused(Reason.CLOSING, "the member stops")
        try:
            refused = await put_all(self._member.management.store, puts)
        finally:
            if refused is not None:
                self._member.management.operations.forget(operation)
                self._begun = None
            begun.set_result(operation if refused is None else refused)
        if refused is None:
            await self._leave(operation)

    async def _leave(self, operation: str) -> None:
        member, operations = self._member, self._member.management.operations
        event(_log, logging.INFO, "leaving for good", operation=operation)
        try:
            await self._engine.evacuate(lambda step: self._advance(operation, step))
            await self.before_leaving()
            # Whatever starts the process again must not bring it back.
            await asyncio.to_thread(member.shutdown_marker.write, "memberShutdown")
        except EngineError as error:
            operations.fail(operation, str(error)).send(member.management.store)
        except Exception as error:
            failure(_log, "the member does not leave", error)
            why = "an unexpected error, which the log tells"
            operations.fail(operation, why).send(member.management.store)
        else:
            await put_all(member.management.store, [operations.finish(operation)])
            event(_log, logging.INFO, "left for good", operation=operation)
            member.request_stop()
        finally:
            self._begun = None

    def _advance(self, operation: str, step: Evacuation) -> None:
        if step != self._progress:
            self._progress = step
            event(_log, logging.INFO, "leaving", percent=step.percent, waits_for=step.obstacle)
            management = self._member.management
            put = management.operations.advance(operation, step.percent, step.obstacle)
            # The document of operations shows it even if the log refuses it, while the member runs.
            put.send(management.store)
