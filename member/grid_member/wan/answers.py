"""What the target answers for each map of a batch, as a byte, and when it answers it later."""

from __future__ import annotations

import enum
from typing import Final


class MapAnswer(enum.IntEnum):
    """All changes of a map were taken, or none and why."""

    TAKEN = 0
    NOT_CONFIGURED = 1
    TOO_LARGE = 2
    CLOCK_AHEAD = 3


REASONS: Final = {
    MapAnswer.NOT_CONFIGURED: "the target has no configuration for this map: configure it there",
    MapAnswer.TOO_LARGE: (
        "a key, value or content type is larger than the target takes: raise limits.key-bytes or "
        "limits.value-bytes there"
    ),
    MapAnswer.CLOCK_AHEAD: (
        "a change is further ahead of the target's clock than wan.max-clock-ahead-seconds there "
        "allows: set the clocks"
    ),
}
TOO_LARGE_ALONE: Final = (
    "an entry has %s bytes, and the target or a proxy before it refuses a request with that entry "
    "alone (413): raise the limit for bodies of requests there"
)
"""Why a map waits of which one entry travelled alone, given the bytes of its key and value."""

COMPARING: Final = "the map is being compared"
"""Why a question is to be repeated at the same member: another one would begin a walk of its own.
The source goes by these words, so they stay as they are."""


def reason_of(code: int) -> str:
    """Return why a map was not taken; a later version may have more reasons."""
    try:
        return REASONS[MapAnswer(code)]
    except (ValueError, KeyError):
        return f"the target refuses it for reason {code}, which this version does not know"
