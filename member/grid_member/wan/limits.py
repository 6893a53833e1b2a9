"""What of a change a target takes, and a batch can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.wan.protocol import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from grid_member.engine.wan.changes import Change
    from grid_member.wan.hello import TargetLimits


MAX_CHARACTER_BYTES: Final = 4
"""Of a text in UTF-8."""


def is_too_large(change: Change, limits: TargetLimits) -> bool:
    """Tell whether the target does not take a change, or no batch can hold it."""
    return (
        len(change.value) > limits.value_bytes
        or _is_longer(change.key, min(limits.key_bytes, MAX_TEXT_BYTES))
        or _is_longer(change.content_type or "", MAX_TEXT_BYTES)
    )


def _is_longer(text: str, most_bytes: int) -> bool:
    return (
        len(text) * MAX_CHARACTER_BYTES > most_bytes
        and len(text.encode("utf-8", "surrogatepass")) > most_bytes
    )
