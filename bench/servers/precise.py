"""Runs a member whose nats-server has precise timers: `python -m bench.servers.precise …`.

The arguments are those of `grid-member`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from grid_member.__main__ import main as member
from grid_member.compiled import VARIABLE, use

SLACK_NS: Final = 50_000
"""What a process of Linux has by itself. That it is used is seen by `bench.parts.timer_slack`."""
_LINE: Final = re.compile(r"^_TIMER_SLACK_NS = .*$", re.MULTILINE)


def main() -> int:
    """Run the member with the compiled modules that it would use by itself."""
    use(os.environ.get(VARIABLE) or "auto")  # before what follows is loaded
    from grid_member.engine.server import process

    text = process._LAUNCH.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as directory:
        launch = Path(directory) / "launch.py"
        launch.write_text(_LINE.sub(f"_TIMER_SLACK_NS = {SLACK_NS}", text), encoding="utf-8")
        process._LAUNCH = launch  # type: ignore[misc]
        return member()


if __name__ == "__main__":
    sys.exit(main())
