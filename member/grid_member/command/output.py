"""What a verb writes to standard output."""

from __future__ import annotations

import os
import sys


class OutputError(Exception):
    """Standard output does not take it; the message says why."""


def show(text: str) -> None:
    """Write a text to standard output, to its end.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # The interpreter would try to write the rest as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"cannot write to standard output: {error.strerror}") from None
