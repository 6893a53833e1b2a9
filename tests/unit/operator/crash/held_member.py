"""The nursery of members, whose backups wait while a file `hold` is beside their directory."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from typing import Any

from grid_member.compiled import VARIABLE
from grid_member.engine.backup.backup import Draft

LOOK_PERIOD_S = 0.002


def hold_backups() -> None:
    """Have each backup wait before it writes, until it may go on or is given up."""
    write = Draft._write

    def held(draft: Draft, *arguments: Any) -> None:
        hold = draft._backup_dir.with_name("hold")
        while hold.exists() and not draft._interruption.is_set():
            time.sleep(LOOK_PERIOD_S)
        write(draft, *arguments)

    Draft._write = held  # type: ignore[method-assign, assignment]


def main() -> None:
    """Take orders as the nursery does."""
    hold_backups()
    os.environ[VARIABLE] = "off"  # what is held is in the sources, which are read by now
    path = Path(__file__).parents[2] / "member" / "conformance" / "nursery.py"
    spec = importlib.util.spec_from_file_location("nursery", path)
    assert spec is not None
    assert spec.loader is not None
    nursery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nursery)
    nursery.main()


if __name__ == "__main__":
    main()
