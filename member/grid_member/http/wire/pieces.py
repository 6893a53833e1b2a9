"""Cuts what arrives on a connection where a head or a body ends.

The parser reports a malformed request instead of all that it found in the same piece, and drops
what follows an upgrade that nobody accepts. Fed with pieces that end where a message's head or
body does, it loses neither. Whether the bytes are right is left to the parser.
"""

from __future__ import annotations

import re
from typing import Final

_END: Final = b"\r\n\r\n"
"""Ends a head, and a chunked body with its trailers."""
_OVERLAP_BYTES: Final = len(_END) - 1
_BLANK: Final = re.compile(rb"[\r\n]*")
"""Empty lines before a head; the parser skips them."""
_DIGITS: Final = re.compile(rb"[0-9A-Fa-f]*")
_CHUNK_LINE: Final = re.compile(rb"(0*+[1-9A-Fa-f][0-9A-Fa-f]*+)[^\n]*+\n")
"""The first line of a chunk that is not the last. Possessive: a long one is looked at once."""
_MAX_DIGITS: Final = 17
"""One more than a chunk's size may have without its leading zeros."""
_LINE_END: Final = b"\r\n"


class Pieces:
    """Where the next piece ends. One for each connection, given everything once and in order."""

    __slots__ = ("_before", "_body_left_bytes", "_chunk_line", "_chunked", "_headless")

    def __init__(self) -> None:
        self._body_left_bytes = 0
        """What is still to come of the body, or of the chunk and its line end."""
        self._chunked = False
        self._chunk_line = b""
        """The beginning of a chunk's first line, as far as it came."""
        self._headless = True
        """Nothing of the next head has come."""
        self._before = b""
        """The last bytes that came, as an end may be spread over two reads."""

    @property
    def in_head(self) -> bool:
        """True when a part of a head has come, or of the trailers of a chunked body."""
        return not self._headless

    def begin_body(self, size_bytes: int) -> None:
        """Let the next size_bytes be one piece: a body whose length is known."""
        self._body_left_bytes = size_bytes

    def begin_chunks(self) -> None:
        """Look for the end of a chunked body, whatever its chunks hold."""
        self._chunked = True

    def end(self, data: bytes, start: int) -> int:
        """Return where the piece ends that begins at start; it counts as given from then on."""
        if self._chunked:
            return self._chunks_end(data, start)
        if self._body_left_bytes:
            return self._skip(data, start)
        return self._head_end(data, start)

    def _skip(self, data: bytes, start: int) -> int:
        end = min(len(data), start + self._body_left_bytes)
        self._body_left_bytes -= end - start
        return end

    def _chunks_end(self, data: bytes, at: int) -> int:
        """Return where the line of the last chunk ends, or the data; trailers end as heads do."""
        while at < len(data):
            if self._body_left_bytes:
                at = self._skip(data, at)
                continue
            if not self._chunk_line:
                at = _whole_chunks_end(data, at)
            newline = data.find(b"\n", at) + 1
            line = self._chunk_line + data[at : newline or len(data)]
            digits = _DIGITS.match(line)[0]  # type: ignore[index] # it matches everything
            if not newline:
                # Of a line that may be endless, this tells the same.
                rest = b";" if len(digits) < len(line) else b""
                self._chunk_line = (digits.lstrip(b"0")[:_MAX_DIGITS] or digits[:1]) + rest
                break
            self._chunk_line = b""
            at = newline
            size_bytes = int(digits or b"0", 16)
            if not size_bytes:
                # An empty line, at once or after trailers, ends it: as if it were a head.
                self._chunked, self._headless, self._before = False, False, _LINE_END
                return at
            self._body_left_bytes = size_bytes + len(_LINE_END)
        return len(data)

    def _head_end(self, data: bytes, start: int) -> int:
        at = start
        if self._headless:
            at = _BLANK.match(data, start).end()  # type: ignore[union-attr] # it matches everything
            if at == len(data):
                return at
        before, self._before = self._before, b""
        if before:
            spread = (before + data[at : at + _OVERLAP_BYTES]).find(_END)
            if spread >= 0:
                self._headless = True
                return at + spread + len(_END) - len(before)
        found = data.find(_END, at)
        self._headless = found >= 0
        if found >= 0:
            return found + len(_END)
        recent = data[max(at, len(data) - _OVERLAP_BYTES) :]
        self._before = (before + recent)[-_OVERLAP_BYTES:]
        return len(data)


def _whole_chunks_end(data: bytes, at: int) -> int:
    """Return where the chunks end that are there as a whole: there may be a million of them."""
    whole = len(data) - len(_LINE_END)
    while (line := _CHUNK_LINE.match(data, at)) is not None:
        end = line.end() + int(line[1], 16)
        if end >= whole:
            break
        at = end + len(_LINE_END)
    return at
