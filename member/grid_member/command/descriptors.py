"""What a process inherits from the one that started it, made usable before anything relies on it.

Service managers, cron jobs and programs in other languages start processes with closed descriptors,
with blocked or ignored signals and with any locale.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from typing import Final

STANDARD: Final = ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w"))


def make_usable() -> None:
    """Open the standard descriptors that are closed, and let signals and children be noticed."""
    for descriptor, name, mode in STANDARD:
        if _open(descriptor):
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))
    # Documents are UTF-8 in every locale, and no path fails to be shown.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    # What is blocked would never arrive: a member could not be stopped.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Where it is ignored the system reaps children itself, and their ends are not noticed.
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _open(descriptor: int) -> bool:
    """Let a descriptor that is closed lead to /dev/null; tell whether it was closed.

    A file or a connection would take its number, and be written to as the log.
    """
    with contextlib.suppress(OSError):
        os.fstat(descriptor)
        return False
    null = os.open(os.devnull, os.O_RDWR)
    if null == descriptor:
        os.set_inheritable(null, True)
    else:
        os.dup2(null, descriptor)
        os.close(null)
    return True
