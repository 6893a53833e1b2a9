"""Replaces itself with a member that dies with its parent: `python -m … PARENT_PID ARGV…`.

`gridctl up` starts members through this module instead of a `preexec_fn`, which is not safe in a
process with threads. The kernel keeps the parent-death signal across `execv` (prctl(2),
PR_SET_PDEATHSIG), so that even a SIGKILLed gridctl leaves no member behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
LOST_PARENT_EXIT_CODE: Final = 70


def main() -> None:
    """Tie this process to its parent, then become the given program."""
    parent_pid, program = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:  # it died before the call above
        sys.exit(LOST_PARENT_EXIT_CODE)
    os.execv(program[0], program)  # noqa: S606 - the argument list comes from the pod that we made


if __name__ == "__main__":
    main()
