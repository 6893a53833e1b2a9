"""Runs a member that never replaces its log by a snapshot: `python -m bench.servers.uncleaned …`.

The arguments are those of `grid-member`.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from grid_member.__main__ import main as member
from grid_member.compiled import VARIABLE, use

NEVER_BYTES: Final = 1 << 60
"""No log gets as large. That it is used is seen by the members' logs: `bench.parts.cleaner`."""


def main() -> int:
    """Run the member with the compiled modules that it would use by itself."""
    use(os.environ.get(VARIABLE) or "auto")  # before what follows is loaded
    from grid_member.engine.jetstream import compaction

    compaction.SLACK_BYTES = NEVER_BYTES
    return member()


if __name__ == "__main__":
    sys.exit(main())
