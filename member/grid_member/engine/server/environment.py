"""What a nats-server finds in its environment: how much of the machine it may take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MAX_PROCESSORS: Final = 2
_FEW_PROCESSORS: Final = 2
"""Of a machine on which the server has one to itself: with more its idle threads look for work that
the member's thread could do."""
_GC_PERCENT: Final = 400
_MEMORY_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_KEPT_VARIABLES: Final = ("PATH", "TMPDIR", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG")


def server_environment() -> dict[str, str]:
    """Return the variables of the server: none that may hold a secret of the member."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    available = len(os.sched_getaffinity(0))
    processors = 1 if available <= _FEW_PROCESSORS else _MAX_PROCESSORS
    return {
        "GOMAXPROCS": str(processors),
        "GOGC": str(_GC_PERCENT),
        # The collector works harder before memory is gone; the other half is the member's own.
        "GOMEMLIMIT": str(_memory_bytes() // 2),
        **kept,
    }


def _memory_bytes() -> int:
    """Return the memory of the machine, or of the container when that has less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(machine, int(_MEMORY_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return machine
