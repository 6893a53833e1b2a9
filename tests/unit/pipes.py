"""Pipes that are full, as one whose reader hangs."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PIPE_BYTES = 4096
"""The smallest that Linux makes."""


@contextlib.contextmanager
def full_pipe() -> Iterator[tuple[int, int]]:
    """Yield the reader and the writer of a pipe that takes nothing until it is read."""
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.write(writer, b"." * PIPE_BYTES)
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)
