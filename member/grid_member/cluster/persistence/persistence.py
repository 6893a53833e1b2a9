"""What is done with the stored data of a member: at its start, and on request while it runs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.cluster.persistence.backup_requests import LiteBackups
from grid_member.cluster.persistence.backups import Backups
from grid_member.cluster.persistence.rescue import ClusterRecovery
from grid_member.cluster.persistence.start_calls import StartCalls
from grid_member.cluster.persistence.store_recovery import StoreDirectory, StoreRecovery
from grid_member.engine.api import DataOrigin
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.persistence.backups import BackupSource
    from grid_member.cluster.persistence.rescue import StartProgress
    from grid_member.cluster.values.operations import Operations
    from grid_member.config.model.member import MemberConfig, PersistenceConfig
    from grid_member.engine.log.log import Clock
    from grid_member.engine.state.system import SystemStore

SHARDS: Final = 1
"""Logs of a store, as `open_engine` makes them."""
RESTORE: Final = "restore"
_log: Final = logging.getLogger("grid.persistence")


@dataclass(frozen=True, slots=True)
class Persistence:
    """The persistence actions of one member."""

    backups: Backups
    recovery: StoreRecovery
    starts: StartCalls


def make_persistence(
    config: MemberConfig,
    source: BackupSource,
    store: SystemStore,
    operations: Operations,
    clock_ms: Clock,
    start_engine: Callable[[], Awaitable[None]],
    membership: Membership | None = None,
    waiting: StartProgress | None = None,
) -> Persistence:
    """Return the persistence actions of a member that has not begun to start.

    The call start_engine is made again after a failure. A member that is alone has no membership,
    and no engine that is waiting.
    """
    directory, persistence = config.data_directory, config.persistence
    several = config.cluster is not None

    starts = StartCalls(directory, clock_ms)

    async def open_store() -> None:
        ended = operations.early(RESTORE)
        if directory is not None and await asyncio.to_thread(
            _prepare, directory, persistence, several
        ):
            ended(None)
        await start_engine()
        if directory is not None and source.origin is DataOrigin.IMPORTED:
            ended(None)
        await asyncio.to_thread(starts.load)

    lite = membership is not None and membership.description.lite
    backups = (LiteBackups if lite else Backups)(
        source,
        store,
        operations,
        clock_ms,
        directory=directory,
        backup_dir=persistence.backup_directory,
        membership=membership,
    )
    recovery = _recovery(config, open_store, operations, waiting)
    return Persistence(backups, recovery, starts)


def _recovery(
    config: MemberConfig,
    open_store: Callable[[], Awaitable[None]],
    operations: Operations,
    waiting: StartProgress | None,
) -> StoreRecovery:
    """Return what becomes of a start that cannot go on by itself."""
    directory, policy = config.data_directory, config.persistence.recovery_policy
    if waiting is not None:
        return ClusterRecovery(
            open_store, waiting, operations.early, policy=policy, stored=directory is not None
        )
    return StoreRecovery(
        open_store,
        None if directory is None else StoreDirectory(directory, SHARDS),
        operations.early,
        policy=policy,
        timeout_s=config.persistence.validation_timeout_s,
    )


def _prepare(directory: Path, config: PersistenceConfig, several: bool) -> bool:
    """Remove what a crash left of a backup; restore the one that is configured. Blocks.

    Several members import it when they are together.

    Returns:
        Whether it was restored now.
    """
    if config.backup_directory is not None:
        from grid_member.engine.backup.backup import remove_unfinished

        try:
            remove_unfinished(config.backup_directory)
        except OSError as error:
            reason = error.strerror
            event(_log, logging.WARNING, "unfinished backup not removed", reason=reason)
    if config.restore_from is None or several:
        return False
    # Few starts have something to restore.
    from grid_member.engine.backup.restore import restore_once

    place = str(config.restore_from)
    done = restore_once(config.restore_from, directory)
    if done is None:
        event(_log, logging.INFO, "restored before: persistence.restore-from has no effect",
              backup=place)  # fmt: skip
    else:
        event(_log, logging.INFO, "restored", backup=place, created=done.created_ms,
              former_member=done.former_member)  # fmt: skip
    return done is not None
