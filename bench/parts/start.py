"""A member's start, and what it holds: idle, and for each entry."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_most
from bench.load.fill import fill_map
from bench.load.wrk import VALUE_BYTES
from bench.processes import ROOT, BenchError, answers, free_port, rss_bytes, running
from bench.servers.members import configuration, get_request, member, member_command

if TYPE_CHECKING:
    from bench.options import Options

START_BAR_S: Final = 0.5
IDLE_BAR_MIB: Final = 60.0
STORED: Final = 1_000_000
_SETTLE_S: Final = 0.5
_MEANING: Final = (
    "From the start of the process to its first answer to a GET, and the memory (RSS) that it "
    "has then. Modules are compiled, as pip and the images leave them, whatever the environment "
    "says of bytecode; memory per entry is the growth by {count:,} entries of {bytes}-byte values, "
    "beside a `dict` of the same keys and values as bytes in a process of its own."
)


def measured(options: Options) -> list[Section]:
    """Time starts, and weigh an idle and a filled member."""
    with tempfile.TemporaryDirectory() as bytecode:
        first_s, _ = _start(bytecode)
        starts = [_start(bytecode) for _ in range(options.starts)]
    times_s = sorted(seconds for seconds, _ in starts)
    idle_mib = median(mib for _, mib in starts)
    verdicts = [
        absolute_at_most("start of the process to first answer", median(times_s), START_BAR_S, "s"),
        absolute_at_most("memory of an idle member", idle_mib, IDLE_BAR_MIB, "MiB"),
    ]
    stored, in_dict = _bytes_per_entry(), _bytes_per_dict_entry()
    notes = [
        f"{options.starts} starts: {times_s[0]:.2f} to {times_s[-1]:.2f} s; {first_s:.2f} s for "
        "the one before, which compiled all modules, those of its libraries and of Python too.",
        f"Memory per stored entry: {stored:.0f} bytes; CPython's own `dict` of bytes: "
        f"{in_dict:.0f} bytes ({stored / in_dict:.2f} x).",
    ]
    meaning = _MEANING.format(count=STORED, bytes=VALUE_BYTES)
    return [Section("Start and memory", meaning, (), verdicts, notes)]


def _start(bytecode: str) -> tuple[float, float]:
    """Return the seconds until the first answer, and the MiB of memory soon after it.

    Compiled modules are found in the directory bytecode, or left there.
    """
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        config = Path(directory) / "grid.yaml"
        config.write_text(configuration(port, fast_path=True, base_dir=None), encoding="utf-8")
        python, *member_arguments = member_command(config)
        # -E: the environment may forbid to write bytecode, and every start would compile again.
        command = [python, "-E", "-X", f"pycache_prefix={bytecode}", *member_arguments]
        began = time.monotonic()
        with running(command) as server:
            server.wait_until(lambda: answers(port, get_request("none")))
            seconds = time.monotonic() - began
            time.sleep(_SETTLE_S)
            return seconds, rss_bytes((server.process.pid,)) / (1 << 20)


def _bytes_per_entry() -> float:
    with member() as server:
        before = rss_bytes(server.pids)
        fill_map(server.port, 0, STORED, VALUE_BYTES)
        return (rss_bytes(server.pids) - before) / STORED


def _bytes_per_dict_entry() -> float:
    command = [sys.executable, "-m", "bench.dictionary", str(STORED), str(VALUE_BYTES)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if shown.returncode:
        raise BenchError(f"the dictionary's process failed: {shown.stderr[-500:]}")
    return float(shown.stdout)
