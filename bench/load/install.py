"""Makes sure that the load generators are there."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

from bench.load.oha import INSTALL, PLACE, find_oha
from bench.processes import BenchError

_APT: Final = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "wrk")


def install_tools(*, open_loop: bool) -> None:
    """Install wrk where apt may, and for open loop oha where cargo can.

    Raises:
        BenchError: there is no wrk; the message says what to install. Without oha only the
            latency in open loop is left out.
    """
    if shutil.which("wrk") is None:
        _install_wrk()
    if open_loop and find_oha() is None:
        _install_oha()


def _install_wrk() -> None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing: wrk", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(("apt-get", "update", "-qq"), env=environment, check=False)
        subprocess.run(_APT, env=environment, check=False)
    if shutil.which("wrk") is None:
        raise BenchError("wrk is missing: on Debian or Ubuntu, as root: apt-get install wrk")


def _install_oha() -> None:
    if shutil.which("cargo"):
        print(f"installing: oha ({INSTALL}), which takes some minutes", flush=True)
        subprocess.run((*INSTALL.split(), "--quiet", "--root", str(PLACE)), check=False)
    if find_oha() is None:
        print(f"without oha no latency in open loop is measured: {INSTALL}", flush=True)
