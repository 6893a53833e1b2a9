"""How many bytes of bodies a listener reads at the same time."""

from __future__ import annotations

from typing import Final

MAX_UPLOADS_BYTES: Final = 256 << 20
"""Of all bodies that are being read by one listener; far more than one body may have."""


class Uploads:
    """Counts the bytes of the bodies that a listener is reading, on all its connections.

    Each listener has its own: whoever fills that of the data port keeps no operator out.
    """

    def __init__(self, limit_bytes: int = MAX_UPLOADS_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Count more bytes; False, and nothing is counted, when they would be too many."""
        if self.held_bytes + size_bytes > self.limit_bytes:
            return False
        self.held_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Count bytes no longer."""
        self.held_bytes -= size_bytes
