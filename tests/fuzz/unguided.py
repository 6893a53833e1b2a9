"""The process that changes inputs without guidance, many in little time.

`python -m tests.fuzz.unguided TARGET INPUTS SECONDS SEED CORPUS PRESENT FOUND`: it begins with the
target's corpus and what is in the directory CORPUS. The file PRESENT has the input that is tried,
and is there before. An input that found something is written to the file FOUND, and the process
fails.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Final

from tests.fuzz.drive import CaughtError, drive
from tests.fuzz.present import Present, Shown
from tests.fuzz.target import seeds
from tests.fuzz.targets import target

_REPORTED: Final = 1 << 13


def main() -> None:
    """Drive one target.

    Raises:
        CaughtError: it found something.
    """
    logging.disable()  # failures of the engine are planted
    name, inputs, max_s, seed, corpus, present, found = sys.argv[1:]
    chosen = Shown(target(name), Present(Path(present)))
    pool = seeds(chosen) + [path.read_bytes() for path in sorted(Path(corpus).iterdir())]
    try:
        figures = drive(chosen, pool, int(seed), int(inputs), float(max_s), _report)
    except CaughtError as error:
        Path(found).write_bytes(error.data)
        raise
    print(figures.begin, figures.steady, figures.end, sep="\n")
    print(f"Done {figures.inputs} runs in {figures.seconds:.0f} second(s)")


def _report(done: int) -> None:
    if done % _REPORTED == 0:
        print(f"#{done}\t", flush=True)


if __name__ == "__main__":
    main()
