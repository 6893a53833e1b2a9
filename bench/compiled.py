"""Runs another module with the compiled modules that members have: `python -m bench.compiled …`."""

from __future__ import annotations

import os
import runpy
import sys

from grid_member.compiled import VARIABLE, use

if __name__ == "__main__":
    use(os.environ.get(VARIABLE) or "auto")
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
