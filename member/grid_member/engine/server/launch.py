"""Becomes a program that dies with the process that asked for it, whatever kills that.

It is in a process group of its own: Ctrl-C is for the member, which hands over before it ends its
server. Not in a session of its own, for Linux would share out the processors between the two.

Run as a script, `launch.py PARENT PROGRAM ARGUMENT…`, by an interpreter of its own: what has to be
done between fork and exec cannot be done safely in a process that has threads.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_TIMER_SLACK_NS = 2_000_000
"""How late a timer of the server may end. Go's sysmon thread naps for 20 microseconds at a time, a
fifth of the server's CPU; with half a millisecond half of that is left, with ten no less."""
_CANNOT_RUN = 126


def main(parent: int, program: list[str]) -> None:
    """Tie this process to the parent and become the program."""
    import ctypes  # which takes its time

    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        sys.exit(f"cannot be tied to the member: {os.strerror(ctypes.get_errno())}")
    library.prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS, 0, 0, 0)  # where it is refused: as before
    # The parent may have gone before its death was of interest.
    if os.getppid() != parent:
        sys.exit("the member is gone")
    try:
        os.execv(program[0], program)  # noqa: S606 - the server that the member found
    except OSError as error:
        sys.stderr.write(f"{program[0]}: {error.strerror}\n")
        sys.exit(_CANNOT_RUN)


if __name__ == "__main__":
    os.setpgid(0, 0)  # first: what ends the member's group would end this
    main(int(sys.argv[1]), sys.argv[2:])
