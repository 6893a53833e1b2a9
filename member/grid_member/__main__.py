"""The command `grid-member`."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING, Final

from grid_member.command import EXIT_START
from grid_member.command.descriptors import make_usable
from grid_member.command.extras import missing_package

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXIT_SIGNAL: Final = 128 + signal.SIGTERM
"""As a shell tells the end of a process by SIGTERM. A member that runs ends with 0."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit code."""
    # To process 1 of a container a signal that it does not handle does not happen: one that came
    # while the modules below are loaded would leave the pod waiting for its whole grace period.
    signal.signal(signal.SIGTERM, _end)
    make_usable()
    try:
        return _load_main()(arguments)
    except ModuleNotFoundError as error:
        problem = missing_package(error)
        if problem is None:
            raise
        sys.stderr.write(f"cannot start: {problem}\n")
        return EXIT_START


def _load_main() -> Callable[[Sequence[str] | None], int]:
    # What modules make stays: looking for garbage among it takes a tenth of the start.
    gc.disable()
    try:
        from grid_member.command.line import main as run
    finally:
        gc.enable()
    return run


def _end(*_: object) -> None:
    sys.exit(EXIT_SIGNAL)


if __name__ == "__main__":
    sys.exit(main())
