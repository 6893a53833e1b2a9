"""The clock for times that must not be exceeded, whatever happens to this process."""

from __future__ import annotations

import time


def steady_s() -> float:
    """Return seconds that never go back, and that pass while the machine sleeps, too.

    Linux' CLOCK_MONOTONIC stands still while the machine is suspended; a Lease does not.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)
