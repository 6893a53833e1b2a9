"""The member as process 1, as in a container: it is told to end while it loads its code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from tests.unit.member.running import configuration

if TYPE_CHECKING:
    from pathlib import Path

END_TIMEOUT_S: Final = 20.0
# Stands in for the largest library that the member loads, and takes for ever.
SLOW_LIBRARY: Final = """
import os, pathlib, time
pathlib.Path(os.environ["LOADING"]).touch()
time.sleep(3600)
"""


def test_a_signal_while_it_loads_is_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(configuration())
    library = tmp_path / "libraries" / "aiohttp"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(SLOW_LIBRARY)
    loading = tmp_path / "loading"
    paths = [str(library.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LOADING": str(loading)}
    command = [sys.executable, "-m", "grid_member", "--config", str(file)]
    unshared = subprocess.Popen(["unshare", "--pid", "--fork", *command], env=environment)
    try:
        deadline = time.monotonic() + END_TIMEOUT_S
        while not loading.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(_member(unshared), signal.SIGTERM)
        assert unshared.wait(END_TIMEOUT_S) == 128 + signal.SIGTERM
    finally:
        if unshared.poll() is None:
            os.kill(_member(unshared), signal.SIGKILL)
            unshared.wait(END_TIMEOUT_S)


def _member(unshared: subprocess.Popen[bytes]) -> int:
    """Return the pid, as seen from here, of process 1 of the namespace."""
    with open(f"/proc/{unshared.pid}/task/{unshared.pid}/children") as children:
        return int(children.read())
