"""What a build is asked before it is used: where compilers are known to have answered wrongly."""

from __future__ import annotations


def cut(data: bytes, start: int, end: int) -> bytes:
    """Return a part of bytes; none where the end comes first."""
    return data[start:end]


def prove() -> None:
    """Ask.

    Raises:
        AssertionError: this build answers other than Python does.
    """
    for start in range(-5, 6):
        for end in range(-5, 6):
            expected = bytes(b"abc"[n] for n in range(*slice(start, end).indices(3)))
            if cut(b"abc", start, end) != expected:
                raise AssertionError(f"b'abc'[{start}:{end}] is not {expected!r}")
