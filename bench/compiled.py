"""Runs another module with the compiled modules that members have: `python -m bench.compiled …`.

On standard error it says whether they are used. Without a module it says that alone.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Final

from grid_member.compiled import VARIABLE, NotCompiledError, use

_ROOT: Final = Path(__file__).resolve().parents[1]
_SAYS: Final = "the member's modules: "


def form() -> str:
    """Return "compiled", or "interpreted" and why: what processes are that this one starts.

    A process is asked, which does what they do: what the variable wants is done only where what was
    built fits and can be loaded.

    Raises:
        NotCompiledError: the variable wants what cannot be, and no process will start.
    """
    command = [sys.executable, "-m", "bench.compiled"]
    asked = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    said = form_said(asked.stderr)
    if asked.returncode or said is None:
        raise NotCompiledError(asked.stderr.strip())
    return said


def form_said(log: str) -> str | None:
    """Return what a process said of itself that ran by this module; None when it did not."""
    lines = (line for line in log.splitlines() if line.startswith(_SAYS))
    first = next(lines, None)
    return None if first is None else first.removeprefix(_SAYS)


def main() -> None:
    """Use them or not, as a member does, then be the other module."""
    try:
        reason = use(os.environ.get(VARIABLE) or "auto")
    except NotCompiledError as error:
        raise SystemExit(f"{VARIABLE}: {error}") from None
    this = "compiled" if reason is None else f"interpreted ({reason})"
    sys.stderr.write(f"{_SAYS}{this}\n")
    del sys.argv[0]
    if sys.argv:
        sys.stderr.flush()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
