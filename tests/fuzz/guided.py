"""The process that atheris drives: `python -m tests.fuzz.guided TARGET` and libFuzzer's arguments.

It makes inputs by what they reach in the code, which is instrumented for that.
"""

from __future__ import annotations

import logging
import sys

import atheris


def main() -> None:
    """Fuzz one target until libFuzzer has done what it was asked; it ends the process itself."""
    logging.disable()  # failures of the engine are planted
    with atheris.instrument_imports(include=["grid_member"]):
        from tests.fuzz.targets import target

        chosen = target(sys.argv[1])

    def one(data: bytes) -> None:
        chosen.run(data)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
