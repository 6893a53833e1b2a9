"""The commands `gridctl` and `kubectl-grid`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from grid_operator.ports.extras import missing_package
from grid_operator.ports.inherited import make_usable

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit code."""
    make_usable()
    try:
        from gridctl.command import main as run

        return run(arguments)
    except ModuleNotFoundError as error:
        problem = missing_package(error, "gridctl")
        if problem is None:
            raise
        print(f"gridctl: {problem}", file=sys.stderr)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
