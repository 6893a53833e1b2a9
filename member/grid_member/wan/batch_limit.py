"""How large the batches to one target may be.

    1 MiB ──refused for its size (413)──▶ half of what was refused ──▶ … one change
      ▲                                      │
      └──── twice as much, 5 minutes later ◀─┘

The target says what it takes. A proxy before the target does not, and its limit may be raised while
the member runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BATCH_BYTES: Final = 1 << 20
"""A change that is larger travels alone."""
GROWING_S: Final = 300.0
"""Until larger batches are tried again: each try costs a request that is refused."""


class BatchLimit:
    """The limit, in bytes before they are deflated, as of `BatchWriter.size_bytes`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with the largest batches; the clock is in seconds."""
        self._clock = clock
        self._most_bytes = MAX_BATCH_BYTES
        self._grows_s = 0.0

    def most_bytes(self) -> int:
        """Return the limit as it is now."""
        if self._most_bytes < MAX_BATCH_BYTES and self._clock() >= self._grows_s:
            self._set(min(MAX_BATCH_BYTES, 2 * self._most_bytes))
        return self._most_bytes

    def note_refusal(self, size_bytes: int) -> None:
        """Allow half of what was refused; one change is always allowed."""
        self._set(max(1, min(self._most_bytes, size_bytes // 2)))

    def _set(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._grows_s = self._clock() + GROWING_S
