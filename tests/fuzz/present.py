"""The input that a process is trying, where another one sees it even when the process is gone.

A file in the memory of both: what was written last is there, however the process ended, and a
process that runs machine code for ever needs to do nothing for it to be read.
"""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from tests.fuzz.target import Target

_HEAD: Final = struct.Struct("=Qq")
"""How many inputs were begun, and how long the present one is."""
_NONE: Final = -1
"""The length where none is being tried."""


class Present:
    """The file; one process writes, another reads."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._mapped = mmap.mmap(opened.fileno(), 0)
        self._number, _ = _HEAD.unpack_from(self._mapped)

    @classmethod
    def create(cls, file: Path, max_bytes: int) -> Present:
        """Make the file, for inputs of so many bytes; it has none yet."""
        file.write_bytes(_HEAD.pack(0, _NONE) + bytes(max_bytes))
        return cls(file)

    def begin(self, data: bytes) -> None:
        """Write an input; it is longer than the file has room for when this raises IndexError."""
        self._mapped[_HEAD.size : _HEAD.size + len(data)] = data
        self._number += 1
        _HEAD.pack_into(self._mapped, 0, self._number, len(data))

    def end(self) -> None:
        """Have none any more."""
        _HEAD.pack_into(self._mapped, 0, self._number, _NONE)

    @property
    def number(self) -> int:
        """How many inputs were begun."""
        number, _ = _HEAD.unpack_from(self._mapped)
        return int(number)

    @property
    def data(self) -> bytes | None:
        """The input that was begun and not ended, if there is one."""
        _, length = _HEAD.unpack_from(self._mapped)
        return None if length == _NONE else self._mapped[_HEAD.size : _HEAD.size + length]


class Shown:
    """A target whose inputs are seen from outside; one that raises stays."""

    def __init__(self, target: Target, present: Present) -> None:
        self.name, self.words, self.max_bytes = target.name, target.words, target.max_bytes
        self._run, self._present = target.run, present

    def run(self, data: bytes) -> Hashable:
        """Try an input."""
        self._present.begin(data)
        outcome = self._run(data)
        self._present.end()
        return outcome
