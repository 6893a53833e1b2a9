"""`grid-member client backup`: one backup of the cluster, from its begin to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_member.client.errors import ConflictError, FinalError, PassingError
from grid_member.client.group import first_answer
from grid_member.client.member import BACKUP_PATH

if TYPE_CHECKING:
    from grid_member.client.deadline import Deadline
    from grid_member.client.member import MemberClient, Operation

BACKUP: Final = "backup"
FINISHED: Final = "FINISHED"
MOST_REFUSALS: Final = 2
"""Between the call and the look at what is made, another backup may have ended."""


@dataclass(slots=True)
class Backup:
    """One backup. A run that is repeated with the same key finds the one of the run before."""

    members: tuple[MemberClient, ...]
    """Any of them can make it; they are asked in this order."""
    key: str
    _refusals: int = field(default=0, init=False)

    def run(self, deadline: Deadline) -> str:
        """Make it; return that it is there.

        Raises:
            FinalError: It cannot be made, or was not in time.
        """
        operation = deadline.until(self._begin)
        deadline.until(lambda: self._require_made(operation))
        return f"backup {operation} is complete"

    def _begin(self) -> str:
        try:
            return first_answer(self.members, lambda member: member.call(BACKUP_PATH, self.key))
        except ConflictError as error:
            running = next((o for o in self._operations().values() if _is_running(o)), None)
            if running is not None:
                raise PassingError(f"another backup is made, {running.progress} %") from None
            self._refusals += 1
            if self._refusals < MOST_REFUSALS:
                raise
            raise FinalError(str(error)) from None

    def _require_made(self, operation: str) -> None:
        found = self._operations().get(operation)
        if found is None:
            raise FinalError(
                f"no member knows backup {operation} any more: the members were restarted before "
                "it was complete; run this again with another --key"
            )
        if not found.ended:
            raise PassingError(f"the backup is made, {found.progress} %")
        if found.stage != FINISHED:
            raise FinalError(f"the backup failed: {found.error or 'no member says why'}")

    def _operations(self) -> dict[str, Operation]:
        return first_answer(self.members, lambda member: member.operations())


def _is_running(operation: Operation) -> bool:
    return operation.kind == BACKUP and not operation.ended
