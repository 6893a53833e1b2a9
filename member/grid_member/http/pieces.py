"""Cuts what arrives on a connection where a head or a body ends.

The parser reports a malformed request instead of all that it found in the same piece, and drops
what follows an upgrade that nobody accepts. Fed with pieces that end where a message's head or
body does, it loses neither.
"""

from __future__ import annotations

from typing import Final

_END: Final = b"\r\n\r\n"
"""Ends a head, and a chunked body with its trailers."""
_OVERLAP_BYTES: Final = len(_END) - 1


class Pieces:
    """Where the next piece ends. One for each connection, given everything once and in order."""

    __slots__ = ("_before", "_body_left_bytes")

    def __init__(self) -> None:
        self._body_left_bytes = 0
        self._before = b""
        """The last bytes that came, as an end may be spread over two reads."""

    def begin_body(self, size_bytes: int) -> None:
        """Let the next size_bytes be one piece: a body whose length is known."""
        self._body_left_bytes = size_bytes

    def end(self, data: bytes, start: int) -> int:
        """Return where the piece ends that begins at start; it counts as given from then on."""
        if self._body_left_bytes:
            end = min(len(data), start + self._body_left_bytes)
            self._body_left_bytes -= end - start
            return end
        before, self._before = self._before, b""
        if before:
            spread = (before + data[start : start + _OVERLAP_BYTES]).find(_END)
            if spread >= 0:
                return start + spread + len(_END) - len(before)
        found = data.find(_END, start)
        if found >= 0:
            return found + len(_END)
        recent = data[max(start, len(data) - _OVERLAP_BYTES) :]
        self._before = (before + recent)[-_OVERLAP_BYTES:]
        return len(data)
