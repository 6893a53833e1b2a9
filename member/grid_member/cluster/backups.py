"""The backups that a member makes: at most one at a time, beside everything else it does."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.logs import event
from grid_member.cluster.store_recovery import OFF
from grid_member.engine.api import EngineError, Refused
from grid_member.engine.backup import Draft, open_draft

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grid_member.cluster.operations import Operations
    from grid_member.cluster.system_store import Put
    from grid_member.engine.image import Image
    from grid_member.engine.log import Clock
    from grid_member.engine.system import SystemStore

KIND: Final = "backup"
NOTED_PERCENT: Final = 10
"""How much progress is worth a place in the log."""
SEVERAL: Final = "several members cannot be backed up yet"
UNSET: Final = "persistence.backup-dir is not set"
RUNNING: Final = "a backup is running already"
_log: Final = logging.getLogger("grid.persistence")


class BackupSource(Protocol):
    """The engine as backups see it."""

    @property
    def member_uuid(self) -> str:
        """This member's UUID."""

    def snapshot(self) -> list[Image]:
        """Return an image of each shard, all of this moment."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A backup of a moment that is over, not written yet."""

    draft: Draft
    images: Sequence[Image]
    created_ms: int
    operation: str
    puts: tuple[Put, ...]
    """What notes its beginning; to be carried out before `run`."""


class Backups:
    """Makes backups and interrupts them. For one event loop."""

    def __init__(
        self,
        source: BackupSource,
        store: SystemStore,
        operations: Operations,
        clock_ms: Clock,
        *,
        directory: Path | None,
        backup_dir: Path | None,
        several: bool = False,
    ) -> None:
        """Make none yet.

        Args:
            source: whose data it is.
            store: where the operations are noted.
            operations: the long operations of the cluster.
            clock_ms: milliseconds since the epoch.
            directory: the member's base directory; None when persistence is off.
            backup_dir: where backups are; None when that is not configured.
            several: whether the member is one of several, whose data is not of one moment.
        """
        self._source = source
        self._store = store
        self._operations = operations
        self._clock_ms = clock_ms
        self._directory = directory
        self._backup_dir = backup_dir
        self._several = several
        self._busy = False
        self._interrupted = False
        self._begun: Begun | None = None
        self._noted_percent = 0
        self._work: asyncio.Task[None] | None = None

    def refusal(self) -> str | None:
        """Return why no backup can begin now, None when one can."""
        if self._directory is None:
            return OFF
        if self._several:
            return SEVERAL
        if self._backup_dir is None:
            return UNSET
        return RUNNING if self._busy else None

    async def begin(self) -> Begun:
        """Take the data of this moment. `run` or `abandon` has to follow.

        Raises:
            EngineError: no backup can begin now, or none can be made in the directory.
        """
        refused = self.refusal()
        if refused is not None or self._directory is None or self._backup_dir is None:
            raise EngineError(refused or OFF)
        self._busy, self._interrupted = True, False
        try:
            draft = await asyncio.to_thread(open_draft, self._backup_dir, self._directory)
            try:
                # Before the operation is noted: a restored member does not make this backup.
                images = self._source.snapshot()
            except BaseException:
                draft.discard()
                raise
        except BaseException:
            self._busy = False
            raise
        operation, puts = self._operations.begin(KIND)
        return Begun(draft, images, self._clock_ms(), operation, puts)

    def run(self, begun: Begun) -> None:
        """Write the backup; return at once."""
        self._begun = begun
        self._noted_percent = 0
        if self._interrupted:
            begun.draft.interrupt()
        self._work = asyncio.create_task(self._run(begun))

    def abandon(self, begun: Begun) -> None:
        """Give up a backup whose beginning could not be noted."""
        begun.draft.discard()
        self._operations.forget(begun.operation)
        self._busy = False

    async def interrupt(self) -> None:
        """Stop the backup that is being made, if any; return when nothing is left of it."""
        self._interrupted = True
        if self._begun is not None:
            self._begun.draft.interrupt()
        if self._work is not None:
            await asyncio.wait({self._work})

    async def _run(self, begun: Begun) -> None:
        loop = asyncio.get_running_loop()

        def advanced(percent: int) -> None:
            loop.call_soon_threadsafe(self._advanced, begun.operation, percent)

        member = uuid.UUID(self._source.member_uuid)
        try:
            place = await asyncio.to_thread(
                begun.draft.write, begun.images, member, begun.created_ms, advanced
            )
        except EngineError as error:
            event(_log, logging.ERROR, "backup failed", reason=str(error))
            self._note(self._operations.fail(begun.operation, str(error)))
        except Exception as error:
            event(_log, logging.ERROR, "backup failed", error=type(error).__name__)
            self._note(self._operations.fail(begun.operation, "unexpected error: see the log"))
        else:
            event(_log, logging.INFO, "backup complete", place=str(place))
            self._note(self._operations.finish(begun.operation))
        finally:
            self._begun = None
            self._busy = False

    def _advanced(self, operation: str, percent: int) -> None:
        if self._begun is not None and percent >= self._noted_percent + NOTED_PERCENT:
            self._noted_percent = percent
            self._note(self._operations.advance(operation, percent))

    def _note(self, put: Put) -> None:
        put.begin(self._store)(_noted)


def _noted(outcome: object) -> None:
    if isinstance(outcome, Refused):
        # This member shows it all the same.
        event(_log, logging.INFO, "progress not recorded", reason=outcome.reason.value)
