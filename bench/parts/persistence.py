"""Persistence with fsync before the answer, beside memory."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.figures import Section, alternate, at_least
from bench.load.fill import fill_map
from bench.load.loads import POST, measuring
from bench.load.wrk import KEYS, VALUE_BYTES
from bench.machine import filesystem
from bench.processes import BenchError
from bench.servers.members import member

if TYPE_CHECKING:
    from pathlib import Path

    from bench.options import Options

BARS: Final = {64: 0.5, 512: 0.75}
_NO_DISKS: Final = frozenset({"tmpfs", "ramfs"})
_SYNCS: Final = 300
_BLOCK_BYTES: Final = 4096
_MEANING: Final = (
    "POST of map entries; with persistence every answer follows an fsync that it shares "
    "with the others of its moment."
)


def disk_filesystem(directory: Path) -> str:
    """Return which filesystem a directory is on.

    Raises:
        BenchError: it is memory.
    """
    kind = filesystem(directory)
    if kind in _NO_DISKS:
        raise BenchError(f"{kind} is memory: give --data-directory on a disk")
    return kind


def measured(options: Options) -> list[Section]:
    """Measure POST with and without persistence.

    Raises:
        BenchError: the directory is on no disk.
    """
    kind = disk_filesystem(options.data_directory)
    notes = [f"fdatasync of a 4 KiB block on this disk ({kind}): {_fsync(options.data_directory)}"]
    figures, verdicts = [], []
    with member() as memory, member(data_directory=options.data_directory) as disk:
        fill_map(memory.port, 0, KEYS, VALUE_BYTES)
        fill_map(disk.port, 0, KEYS, VALUE_BYTES)
        for connections, bar in BARS.items():
            load = replace(POST, connections=connections)
            contenders = {
                f"POST in memory, {connections} connections": measuring(memory, load, options),
                f"POST with fsync, {connections} connections": measuring(disk, load, options),
            }
            without, synced = alternate(contenders, options.rounds).values()
            figures += [without, synced]
            name = f"POST with fsync ÷ in memory, {connections} connections"
            verdicts.append(at_least(name, synced, without, bar))
    return [Section("Persistence", _MEANING, figures, verdicts, notes)]


def _fsync(directory: Path) -> str:
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        times_ms = sorted(_synced_ms(file.fileno(), turn) for turn in range(_SYNCS))
    return f"p50 {median(times_ms):.2f} ms, p99 {times_ms[_SYNCS * 99 // 100]:.2f} ms."


def _synced_ms(file: int, turn: int) -> float:
    began = time.perf_counter()
    os.pwrite(file, bytes([turn % 256]) * _BLOCK_BYTES, 0)
    os.fdatasync(file)
    return 1e3 * (time.perf_counter() - began)
