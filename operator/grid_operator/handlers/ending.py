"""The end of a process, whatever hangs in it.

A look-up of a name that hangs cannot be cancelled, and Python waits for the thread that it runs in.
"""

from __future__ import annotations

import os
import threading
from typing import Final

STOP_LIMIT_S: Final = 10.0
"""A process whose work has ended is gone by then: well within the grace period of its pod."""


def end_in_time(exit_code: int, limit_s: float = STOP_LIMIT_S) -> None:
    """End this process after a limit, unless it has ended by itself before."""
    timer = threading.Timer(limit_s, os._exit, (exit_code,))
    timer.daemon = True
    timer.start()
