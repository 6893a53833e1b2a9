"""Which of two changes of one key counts. All clusters decide alike, in whatever order they learn.

The changes of a key are ordered by stamp. At equal stamps the one whose entry ends first counts: a
removal ends at once, an entry without a time to live ends last. So a cluster in which the entry has
expired already, which is a removal of the same stamp, agrees with one in which it has not. At equal
ends the greater value counts, then the greater content type.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from grid_member.engine.wan.agreement import MergePolicy
from grid_member.engine.wan.changes import Change, ChangeKind, MergeResult

Rank: TypeAlias = tuple[int, bytes, bool, str]
"""What orders changes of one stamp: minus the deadline in milliseconds, the value, whether there is
a content type, the content type. The greatest rank counts."""
_NEVER: Final = 1 << 64
"""Later than any deadline."""
_REMOVED: Final[Rank] = (0, b"", False, "")


class Known(NamedTuple):
    """What a cluster knows of a key that is there or was removed."""

    stamp: int
    """Of the change that put or removed the key, as `stamps.py` makes stamps; above 0."""
    rank: Rank
    """Of the entry, or that of a removal, which is the greatest of all."""
    by_wan: bool
    """Whether another cluster's change made it so, as far as the map remembers that."""


def rank_of_entry(value: bytes, content_type: str | None, deadline_ms: int) -> Rank:
    """Return the rank of an entry among changes of one stamp: the greatest counts.

    Args:
        value: the entry's.
        content_type: None without one.
        deadline_ms: when the entry ends, milliseconds since 1970; 0 is never.
    """
    return (-(deadline_ms or _NEVER), value, content_type is not None, content_type or "")


def known_entry(
    stamp: int, value: bytes, content_type: str | None, deadline_ms: int, *, by_wan: bool
) -> Known:
    """Return what a cluster knows of an entry that it has."""
    return Known(stamp, rank_of_entry(value, content_type, deadline_ms), by_wan)


def known_removal(stamp: int, *, by_wan: bool) -> Known:
    """Return what a tombstone says."""
    return Known(stamp, _REMOVED, by_wan)


def rank_of_change(change: Change) -> Rank:
    """Return the rank of a put or removal among changes of one stamp."""
    if change.kind is ChangeKind.REMOVAL:
        return _REMOVED
    return rank_of_entry(change.value, change.content_type, change.deadline_ms)


def merge_result(change: Change, policy: MergePolicy, known: Known | None) -> MergeResult:
    """Return what becomes of a put or removal that is newer than what cleared the map.

    The result is TAKEN, UNCHANGED or OLDER; the caller knows what is ambiguous, and what looped.

    Args:
        change: what another cluster sent.
        policy: the map's.
        known: what the cluster knows of the key; None is nothing.
    """
    if known is None:
        return MergeResult.TAKEN
    if change.stamp == known.stamp:
        theirs = rank_of_change(change)
        if theirs == known.rank:
            return MergeResult.UNCHANGED
        newer = theirs > known.rank
    else:
        newer = change.stamp > known.stamp
    if policy is MergePolicy.PUT_IF_ABSENT:
        return MergeResult.OLDER
    if policy is MergePolicy.PASS_THROUGH and not known.by_wan:
        return MergeResult.TAKEN
    return MergeResult.TAKEN if newer else MergeResult.OLDER
