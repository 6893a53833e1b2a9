"""What the figures were measured on: nothing that names this one machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench.compiled import form
from bench.load.oha import find_oha

_CPU_INFO: Final = Path("/proc/cpuinfo")
_MOUNTS: Final = Path("/proc/self/mounts")


def filesystem(directory: Path) -> str:
    """Return the type of the file system that holds a directory."""
    return filesystem_in(_MOUNTS.read_text(encoding="utf-8"), directory.resolve())


def filesystem_in(mounts: str, directory: Path) -> str:
    """Return the type of the last and deepest mount of /proc/mounts that holds a directory."""
    best, kind = -1, "unknown"
    for line in mounts.splitlines():
        _, where, this_kind, *_ = line.split(" ")
        point = Path(where.replace("\\040", " "))
        if directory.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), this_kind
    return kind


def machine() -> list[str]:
    """Return lines about processor, memory, kernel, Python, members, and what else runs.

    Raises:
        NotCompiledError: they cannot start as the environment wants them to.
    """
    names = re.findall(r"^model name\s*: (.*)$", _CPU_INFO.read_text(encoding="utf-8"), re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return [
        f"Processor: {names[0] if names else platform.machine()}, {os.cpu_count()} cores",
        f"Memory: {memory:.0f} GiB",
        f"Kernel: {platform.system()} {platform.release()}",
        f"Python: {platform.python_implementation()} {platform.python_version()}",
        f"Members: {form()}",
        f"Load before: {os.getloadavg()[0]:.1f} processes on average of a minute",
    ]


def tools() -> str:
    """Return the versions of what takes part."""
    oha = find_oha()
    generators = [
        _said(["wrk", "-v"]).split(" [")[0],
        *([_said([oha, "--version"])] if oha else []),
    ]
    libraries = [f"{name} {version(name)}" for name in ("aiohttp", "lmdb", "uvloop")]
    return ", ".join((*generators, *libraries))


def _said(command: list[str]) -> str:
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    return (shown.stdout or shown.stderr).strip()
