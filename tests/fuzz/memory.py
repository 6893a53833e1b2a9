"""What a process holds between two inputs, without what only waits to be collected or given back.

Read from outside at any moment, the resident memory of the same work goes up and down by tens of
MiB: an input of 4 KiB may take 350 MiB, cycles wait for the collector with the buffers that they
refer to, and the allocator keeps what was freed. None of that tells whether anything is left.
"""

from __future__ import annotations

import ctypes
import gc
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_STATUS: Final = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB$", re.MULTILINE)
_LINE: Final = re.compile(r"^holds (\d+) (\d+) (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Held:
    """What a process has at one moment; as a text a line that `read` finds again."""

    objects: int
    """Blocks of Python's allocator; what is larger than 512 bytes is elsewhere."""
    resident_bytes: int
    peak_bytes: int
    """Of resident memory until then, garbage and what was free included."""

    def __str__(self) -> str:
        return f"holds {self.objects} {self.resident_bytes} {self.peak_bytes}"


def held() -> Held:
    """Collect the garbage, give back what is free, and return what is left."""
    gc.collect()
    _give_back()
    status = dict(_STATUS.findall(Path("/proc/self/status").read_text(encoding="ascii")))
    return Held(sys.getallocatedblocks(), int(status["VmRSS"]) << 10, int(status["VmHWM"]) << 10)


def read(text: str) -> list[Held]:
    """Return what the lines of a log say, in their order."""
    return [Held(*map(int, match.groups())) for match in _LINE.finditer(text)]


def _trim() -> Callable[[], object]:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; others give back at once
    return partial(trim, 0) if trim is not None else int


_give_back: Final = _trim()
