"""The command `grid-operator`."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

from grid_operator.handlers.ending import end_in_time
from grid_operator.ports.extras import missing_package
from grid_operator.ports.inherited import make_usable

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED: Final = 1
EXIT_SIGNAL: Final = 128 + signal.SIGTERM
"""As a shell tells the end of a process by SIGTERM. An operator at work ends with 0."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator until a stop signal; return the exit code."""
    # To process 1 of a container a signal that it does not handle does not happen: one that came
    # while the modules below are loaded would leave the pod waiting for its whole grace period.
    signal.signal(signal.SIGTERM, _end)
    make_usable()
    try:
        from grid_operator.command import main as run

        return run(arguments)
    except ModuleNotFoundError as error:
        problem = missing_package(error, "operator")
        if problem is None:
            raise
        print(f"grid-operator: {problem}", file=sys.stderr)  # noqa: T201 - why it ends
        return EXIT_FAILED


def _end(*_: object) -> None:
    end_in_time(EXIT_SIGNAL)
    sys.exit(EXIT_SIGNAL)


if __name__ == "__main__":
    sys.exit(main())
