"""`grid-member restore BACKUP --into DIR`: a backup becomes the data of a member that is not there.

The member is started on the directory afterwards. Exit codes: 0 restored, or with `--once` restored
before; 3 cannot restore, nothing but an unfinished copy is left in the directory, which the next
attempt removes.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from grid_member.command import EXIT_START
from grid_member.command.output import OutputError, show
from grid_member.engine.api import EngineError
from grid_member.engine.backup.restore import began_in, newest_backup, restore_backup, restore_once
from grid_member.engine.storage.exchange import STORE
from grid_member.engine.storage.store import CLUSTER

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.backup.restore import Restoration


def restore(
    place: Path,
    directory: Path,
    *,
    newest: bool = False,
    once: bool = False,
    several: bool = False,
) -> int:
    """Restore and say so on standard output; return the exit code.

    Args:
        place: the backup; with newest the directory that holds it.
        directory: what becomes a member's base directory.
        newest: take the newest backup of the place.
        once: do nothing when the directory began as this backup. With newest as any backup of the
            place: between a restore that was cut off after its end and its repetition there may
            have been another backup.
        several: the directory is that of one of several members, which imports the backup when
            they start.
    """
    try:
        directory = _place_of_several(directory) if several else directory
        backup = _choose_backup(place, directory, once=once) if newest else place
        done = restore_once(backup, directory) if once else restore_backup(backup, directory)
    except EngineError as error:
        sys.stderr.write(f"cannot restore: {error}\n")
        return EXIT_START
    with contextlib.suppress(OutputError):  # it is restored all the same
        show(f"{directory}: {_outcome(backup, done)}\n")
    return 0


def _outcome(backup: Path, done: Restoration | None) -> str:
    if done is None:
        return f"began as {backup} before, nothing to do"
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(done.created_ms // 1000))
    return (
        f"restored {backup} ({done.size_bytes} bytes) as member {done.member}, with the data that "
        f"member {done.former_member} had at {made}"
    )


def _place_of_several(directory: Path) -> Path:
    # Only this needs what talks to the others.
    from grid_member.engine.bootstrap.identity import IDENTITY_FILE
    from grid_member.engine.replicated.import_backup import import_place

    for used in (STORE, f"{CLUSTER}/{IDENTITY_FILE}"):
        if (directory / used).exists():
            raise EngineError(
                f"{directory} is not empty, it holds {used}: choose an empty directory"
            )
    return import_place(directory)


def _choose_backup(place: Path, directory: Path, *, once: bool) -> Path:
    known = began_in(place, directory) if once else None
    if known is not None:
        return known
    backup, incomplete = newest_backup(place)
    for path in incomplete:
        sys.stderr.write(f"passed over {path}: it is incomplete\n")
    return backup
