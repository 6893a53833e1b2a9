"""What the command `grid-member` does, a module for each of its verbs, and its exit codes."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_CONFIG: Final = 2
"""Wrong arguments, or a configuration that cannot be used."""
EXIT_START: Final = 3
"""A port is taken, or the data cannot be opened."""
EXIT_UNCONFIRMED: Final = 4
"""Stopped, but the disk did not confirm the last commit in time."""


@contextlib.contextmanager
def disable_sweep() -> Iterator[None]:
    """Let modules be loaded without looking for garbage.

    What modules make stays: looking for garbage among it takes a tenth of the start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
