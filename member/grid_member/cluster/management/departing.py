"""This member leaves its cluster for good: a long operation, at whose end it stops.

What it waits for is shown with the operation; it may be begun again after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.values.system_store import carry_out
from grid_member.engine.api import EngineError
from grid_member.telemetry.logs import event, failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.membership.parking import Parking
    from grid_member.cluster.values.operations import Operations
    from grid_member.cluster.values.system_store import Put
    from grid_member.engine.replicas.departure import Evacuation
    from grid_member.engine.state.system import SystemStore

KIND: Final = "migration"
_log: Final = logging.getLogger("grid.member")


class LeavingEngine(Protocol):
    """The engine as this needs it."""

    async def evacuate(self, told: Callable[[Evacuation], None]) -> None:
        """Move everything to the others; return when nothing is here any more."""


class NotedOperations(Protocol):
    """Where the way out is noted as an operation."""

    @property
    def operations(self) -> Operations:
        """The long operations of the cluster."""

    @property
    def store(self) -> SystemStore:
        """Where they are kept."""


class LeavingMember(Protocol):
    """The member as its way out needs it."""

    @property
    def management(self) -> NotedOperations:
        """Made after the member."""

    @property
    def parking(self) -> Parking:
        """What keeps the member down when something starts it again."""

    def request_stop(self) -> None:
        """Stop the member."""


class Departing:
    """The way out of one member. All of it belongs to one event loop."""

    def __init__(
        self, engine: LeavingEngine, member: LeavingMember, membership: Membership
    ) -> None:
        """Begin nothing."""
        self._engine = engine
        self._member = member
        self._membership = membership
        self._operation: str | None = None
        """The one that is under way."""
        self._told: Evacuation | None = None

    def begin(self) -> str:
        """Begin to leave, unless that is under way; return the operation's id."""
        if self._operation is None:
            operation, puts = self._member.management.operations.begin(KIND)
            self._operation, self._told = operation, None
            self._store(*puts)
            self._membership.keep(self._run(operation))
        return self._operation

    async def _run(self, operation: str) -> None:
        member, operations = self._member, self._member.management.operations
        event(_log, logging.INFO, "leaving for good", operation=operation)
        try:
            await self._engine.evacuate(lambda step: self._advance(operation, step))
            # Whatever starts the process again must not bring it back.
            await asyncio.to_thread(member.parking.note, "memberShutdown")
        except EngineError as error:
            self._store(operations.fail(operation, str(error)))
        except Exception as error:
            failure(_log, "the member does not leave", error)
            self._store(operations.fail(operation, "an unexpected error, which the log tells"))
        else:
            await carry_out(operations.finish(operation).begin(member.management.store))
            event(_log, logging.INFO, "left for good", operation=operation)
            member.request_stop()
        finally:
            self._operation = None

    def _advance(self, operation: str, step: Evacuation) -> None:
        if step != self._told:
            self._told = step
            event(_log, logging.INFO, "leaving", percent=step.percent, waits_for=step.waits_for)
            operations = self._member.management.operations
            self._store(operations.advance(operation, step.percent, step.waits_for))

    def _store(self, *puts: Put) -> None:
        for put in puts:
            put.begin(self._member.management.store)(_ignore)


def _ignore(outcome: object) -> None:
    """What is not stored now is told by this member, as long as it is there."""
