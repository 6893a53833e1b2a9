"""The command `grid-member`."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

from grid_member.command import EXIT_START, disable_sweep
from grid_member.command.descriptors import make_usable

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_SIGNAL: Final = 128 + signal.SIGTERM
"""As a shell tells the end of a process by SIGTERM. A member that runs ends with 0."""
_PACKAGE: Final = "grid_member"
_EXTRA: Final = "member"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit code."""
    # To process 1 of a container a signal that it does not handle does not happen: one that came
    # while the modules below are loaded would leave the pod waiting for its whole grace period.
    signal.signal(signal.SIGTERM, _end)
    make_usable()
    try:
        with disable_sweep():
            from grid_member.command.line import main as run
        return run(arguments)
    except ModuleNotFoundError as error:
        problem = _missing_package(error)
        if problem is None:
            raise
        sys.stderr.write(f"cannot start: {problem}\n")
        return EXIT_START


def _missing_package(error: ModuleNotFoundError) -> str | None:
    """Return what to install when a module is not found, None when the module is Grid's own.

    The operator has a copy of its own: the two packages know nothing of each other.
    """
    package = (error.name or "").partition(".")[0]
    if not package or package == _PACKAGE:
        return None
    return (
        f"the package {package} is not installed: install Grid with its extra {_EXTRA}, from where "
        f"it was installed, as in: pip install '/path/to/checkout[{_EXTRA}]'"
    )


def _end(*_: object) -> None:
    sys.exit(EXIT_SIGNAL)


if __name__ == "__main__":
    sys.exit(main())
