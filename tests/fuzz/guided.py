"""The process that atheris drives: inputs by what others reached.

`python -m tests.fuzz.guided TARGET INPUTS PRESENT` and libFuzzer's arguments: it makes inputs by
what they reach in the code, which is instrumented for that. The file PRESENT has the input that is
tried, and is there before.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Final

import atheris

from tests.fuzz.drive import STEADY_SHARE
from tests.fuzz.memory import held
from tests.fuzz.present import Present, Shown

_BEGIN: Final = 4096
"""Inputs, about, until the corpus was tried."""


def main() -> None:
    """Fuzz one target until libFuzzer has done what it was asked; it ends the process itself."""
    logging.disable()  # failures of the engine are planted
    with atheris.instrument_imports(include=["grid_member"]):
        from tests.fuzz.targets import target

        chosen = Shown(target(sys.argv[1]), Present(Path(sys.argv[3])))
    tenth, done = max(1, int(int(sys.argv[2]) * STEADY_SHARE)), 0
    begin = min(_BEGIN, tenth - 1)

    def one(data: bytes) -> None:
        nonlocal done
        chosen.run(data)
        done += 1
        if done == begin or done % tenth == 0:
            print(held(), flush=True)

    atheris.Setup([sys.argv[0], *sys.argv[4:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
