"""The backups that a member makes: at most one at a time, beside everything else it does.

Of several members the one that is asked makes it, of all data, into its own directory. A lock of
the cluster keeps the others from making one meanwhile, and whoever wants it interrupted leaves a
wish in the system store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.cluster.membership.locks import LockedError
from grid_member.cluster.persistence.backup_keys import WITHDRAWN_S, open_requests
from grid_member.cluster.persistence.store_recovery import OFF
from grid_member.cluster.values.system_store import Put, put_all
from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.state.sharding import without_values
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.values.conditions import Conditions
    from grid_member.cluster.values.operations import Operations
    from grid_member.engine.api import DataOrigin
    from grid_member.engine.backup.backup import Draft
    from grid_member.engine.log.log import Clock
    from grid_member.engine.state.snapshot import Snapshot
    from grid_member.engine.state.system import SystemStore

KIND: Final = "backup"
NOTED_PERCENT: Final = 10
"""How much progress is worth a place in the log."""
UNSET: Final = "persistence.backup-dir is not set"
NOT_NOTED: Final = "its beginning could not be noted"
UNWANTED: Final = "it was interrupted, or whoever asked for it has asked another member meanwhile"
INTERRUPTED: Final = "the backup was interrupted"
RUNNING: Final = "a backup is running already"
INTERRUPT: Final = "backup-interrupt/"
"""Begins the keys of wishes, which end with the UUID of the member that is to stop its backup."""
WISH_S: Final = 60
"""After that a wish that nobody took away is none any more."""
LEFT_OUT: Final = (
    *("wan/cluster-id", "wan/job/", "wan/member/", "wan/paused/", "wan/sender/"),
    *("wan/lost/", "wan/source/", "wan/state/", "wan/told"),
)
"""Begin the keys of what is about this cluster, and not about the data that a backup holds."""
AGAIN_S: Final = 1.0
"""How long after a refusal the log is told again that a backup was given up."""
INTERRUPT_PATIENCE_S: Final = 20.0
"""How long an interrupt waits for another member, whose volume may be stuck."""
_log: Final = logging.getLogger("grid.persistence")


class BackupSource(Protocol):
    """The engine as backups see it."""

    @property
    def member_uuid(self) -> str:
        """This member's UUID."""

    @property
    def origin(self) -> DataOrigin:
        """Where the stored data came from."""

    async def moment(self) -> list[Snapshot]:
        """Return a snapshot of each shard, all of one moment between the call and the return.

        Raises:
            EngineError: there is no such moment now.
        """


@dataclass(frozen=True, slots=True)
class StartedBackup:
    """A backup of a moment that is over, not written yet."""

    draft: Draft
    snapshots: Sequence[Snapshot]
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
        membership: Membership | None = None,
    ) -> None:
        """Make none yet; directory is the base directory, None when persistence is off."""
        self._source = source
        self._store = store
        self._operations = operations
        self._clock_ms = clock_ms
        self._directory = directory
        self._backup_dir = backup_dir
        self._membership = membership
        self._lock_stack = contextlib.AsyncExitStack()
        self._busy = False
        self._interrupted = False
        self._current: StartedBackup | None = None
        self._noted_percent = 0
        self._work: asyncio.Task[None] | None = None
        self._interrupting: asyncio.Task[None] | None = None
        if membership is not None:
            membership.on_change[INTERRUPT] = self._serve_wishes

    def refusal(self) -> str | None:
        """Return why no backup can begin now, None when one can."""
        if self._directory is None:
            return OFF
        if self._backup_dir is None:
            return UNSET
        return RUNNING if self._busy or self._makers() else None

    async def begin(self, operation: str | None = None) -> StartedBackup:
        """Take the data of this moment. `run` or `abandon` has to follow.

        Args:
            operation: the id of the operation that makes it; None for one that is new.

        Raises:
            EngineError: no backup can begin now, or none can be made in the directory.
        """
        refused = self.refusal()
        if refused is not None or self._directory is None or self._backup_dir is None:
            raise EngineError(refused or OFF)
        self._busy, self._interrupted = True, False
        try:
            await self._lock()
            draft = await asyncio.to_thread(_open_draft, self._backup_dir, self._directory)
            try:
                # Before the operation is noted: a restored member does not make this backup.
                moment = await self._source.moment()
                snapshots = [without_values(each, LEFT_OUT) for each in moment]
            except BaseException:
                draft.discard()
                raise
        except BaseException:
            await self._unlock()
            raise
        named, puts = self._operations.begin(KIND, operation)
        return StartedBackup(draft, snapshots, self._clock_ms(), named, puts)

    async def make(self, remember: Callable[[str], Put] | None = None) -> str | Refused:
        """Begin a backup and note that; return the operation that makes it, or why it is not noted.

        Args:
            remember: given the operation returns what keeps the caller's answer, if anything: for a
                maker that may outlive who answers. This one does not, and keeps nothing.

        Raises:
            EngineError: no backup can begin now, or none can be made in the directory.
        """
        return await self.make_as(None, lambda: True)

    async def make_as(self, operation: str | None, is_wanted: Callable[[], bool]) -> str | Refused:
        """Make one as `make` does, under the id of an operation, if it is wanted by then.

        Args:
            operation: an id that no operation has; None for one that is new.
            is_wanted: asked when everybody can see that the operation has begun, and before
                anything is written.

        Raises:
            EngineError: no backup can begin now, or none can be made in the directory.
        """
        begun = await self.begin(operation)
        try:
            refused = await put_all(self._store, begun.puts)
        except BaseException:
            await self.abandon(begun)
            raise
        if refused is not None:
            await self.abandon(begun)
            return refused
        # One that is interrupted by now writes nothing either, and says why.
        if not (self._interrupted or is_wanted()):
            await self.abandon(begun, UNWANTED)
            return Refused(Reason.UNAVAILABLE, UNWANTED)
        self.run(begun)
        return begun.operation

    def run(self, backup: StartedBackup) -> None:
        """Write the backup; return at once."""
        self._current = backup
        self._noted_percent = 0
        if self._interrupted:
            backup.draft.interrupt()
        self._work = asyncio.create_task(self._run(backup))

    async def abandon(self, backup: StartedBackup, why: str = NOT_NOTED) -> None:
        """Give up a backup of which nothing is written yet."""
        backup.draft.discard()
        if self._membership is None:
            self._operations.forget(backup.operation)
        else:
            # The log of several may take later what it refused.
            put = self._operations.fail(backup.operation, why)
            self._membership.keep(self._note_abandoned(put, self._membership.conditions))
        await self._unlock()

    async def _note_abandoned(self, put: Put, conditions: Conditions) -> None:
        while not conditions.ended and await put_all(self._store, [put]) is not None:
            await conditions.until(lambda: False, AGAIN_S)

    async def interrupt(self) -> None:
        """Stop the backup that this member makes, if any; return when nothing is left of it."""
        self._interrupted = True
        if self._current is not None:
            self._current.draft.interrupt()
        if self._work is not None:
            await asyncio.wait({self._work})

    async def interrupt_others(self) -> bool:
        """Stop the backup that any member makes; tell whether nothing is left of it.

        Something is when its member does not stop it in time.
        """
        membership, asked = self._membership, set[str]()
        if membership is None:
            return True
        stopped = True
        # Of a request a maker may have become meanwhile, and another request of that.
        while stopped and (puts := self._interrupts(asked)):
            asked.update(put.key for put in puts)
            await put_all(self._store, puts)
            stopped = await membership.conditions.until(
                lambda: self._none_running() or bool(self._interrupts(asked)),
                INTERRUPT_PATIENCE_S,
            )
        for key in asked:
            if key.startswith(INTERRUPT):
                self._note(Put(key, None))
        return stopped

    def _interrupts(self, but: set[str]) -> list[Put]:
        """Return what interrupts the backups that are made or asked for, but for some keys."""
        wishes = [Put(INTERRUPT + uuid, b"", WISH_S) for uuid in self._makers()]
        ends = [Put(found.interrupt, b"1", WITHDRAWN_S) for found in open_requests(self._store)]
        return [put for put in (*wishes, *ends) if put.key not in but]

    def _none_running(self) -> bool:
        return not self._makers() and not open_requests(self._store)

    def _makers(self) -> set[str]:
        """Return the UUIDs of the members that make a backup or are about to."""
        if self._membership is None:
            return set()
        return {found.uuid for found in self._membership.locks.contenders(KIND)}

    def _serve_wishes(self) -> None:
        if self._busy and self._store.system_get(INTERRUPT + self._source.member_uuid) is not None:
            self._interrupting = asyncio.create_task(self.interrupt())

    async def _lock(self) -> None:
        if self._membership is None:
            return
        try:
            await self._lock_stack.enter_async_context(self._membership.locks.hold(KIND, KIND))
        except LockedError as locked:
            refused = locked.refusal
            raise EngineError(RUNNING if refused is None else refused.message) from None

    async def _unlock(self) -> None:
        await self._lock_stack.aclose()
        self._busy = False

    async def _run(self, backup: StartedBackup) -> None:
        loop = asyncio.get_running_loop()

        def report(percent: int) -> None:
            loop.call_soon_threadsafe(self._advance, backup.operation, percent)

        member = uuid.UUID(self._source.member_uuid)
        try:
            place = await asyncio.to_thread(
                backup.draft.write, backup.snapshots, member, backup.created_ms, report
            )
        except EngineError as error:
            event(_log, logging.ERROR, "backup failed", reason=str(error))
            self._note(self._operations.fail(backup.operation, str(error)))
        except Exception as error:
            event(_log, logging.ERROR, "backup failed", error=type(error).__name__)
            self._note(self._operations.fail(backup.operation, "unexpected error: see the log"))
        else:
            event(_log, logging.INFO, "backup complete", place=str(place))
            self._note(self._operations.finish(backup.operation))
        finally:
            self._current = None
            await self._unlock()

    def _advance(self, operation: str, percent: int) -> None:
        if self._current is not None and percent >= self._noted_percent + NOTED_PERCENT:
            self._noted_percent = percent
            self._note(self._operations.advance(operation, percent))

    def _note(self, put: Put) -> None:
        put.begin(self._store)(_ignore_outcome)


def _ignore_outcome(outcome: object) -> None:
    if isinstance(outcome, Refused):
        # This member shows it all the same.
        event(_log, logging.INFO, "progress not recorded", reason=outcome.reason.value)


def _open_draft(backup_dir: Path, base_dir: Path) -> Draft:
    # No start makes a backup.
    from grid_member.engine.backup.backup import open_draft

    return open_draft(backup_dir, base_dir)
