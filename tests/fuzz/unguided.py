"""The process for where atheris is not: `python -m tests.fuzz.unguided TARGET INPUTS SECONDS SEED`.

An input that found something is written to the file that is named last, and the process fails.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from tests.fuzz.drive import CaughtError, drive
from tests.fuzz.target import seeds
from tests.fuzz.targets import target


def main() -> None:
    """Drive one target.

    Raises:
        CaughtError: it found something.
    """
    logging.disable()  # failures of the engine are planted
    name, inputs, max_s, seed, found = sys.argv[1:]
    chosen = target(name)
    try:
        figures = drive(chosen, seeds(chosen), int(seed), int(inputs), float(max_s))
    except CaughtError as error:
        Path(found).write_bytes(error.data)
        raise
    print(f"Done {figures.inputs} runs in {figures.seconds:.0f} second(s)")


if __name__ == "__main__":
    main()
