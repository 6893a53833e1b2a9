"""`grid-member restore BACKUP --into DIR`: a backup becomes the data of a member that is not there.

The member is started on the directory afterwards.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from grid_member.command import EXIT_START
from grid_member.engine.api import EngineError
from grid_member.engine.restore import restore_backup

if TYPE_CHECKING:
    from pathlib import Path


def restore(backup: Path, directory: Path) -> int:
    """Restore and say so on standard output; return the exit code."""
    try:
        done = restore_backup(backup, directory)
    except EngineError as error:
        sys.stderr.write(f"cannot restore: {error}\n")
        return EXIT_START
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(done.created_ms // 1000))
    sys.stdout.write(
        f"{directory}: member {done.member}, with the data that member {done.former_member} "
        f"had at {made}\n"
    )
    return 0
