"""What differs between what two clusters have of a key, and whether the source sends it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.wan.agreement import MergePolicy

if TYPE_CHECKING:
    from grid_member.engine.wan.digests import Row


class Difference(enum.Enum):
    """How the target differs from the source in a key."""

    MISSING = "missing"
    """The target lacks an entry of the source."""
    OLDER = "older"
    """The target has an older entry, or one of the same stamp that does not count or may not."""
    NEWER = "newer"
    """The target has a newer entry, or one of the same stamp that counts, or has removed the key
    later."""
    REMOVED = "removed"
    """The target has an entry that the source has removed later."""
    EXTRA = "extra"
    """The target has an entry of which the source has never known."""
    AMBIGUOUS = "ambiguous"
    """The target has an entry of which the source knows nothing any more: it may have removed the
    key, since tombstones of that time were purged."""


class Marks(NamedTuple):
    """What clusters know of a map as a whole."""

    cleared: int
    """The stamp of the source's last clear."""
    purged: int
    """The newest stamp of a tombstone that the source purged by time or number."""
    target_cleared: int
    """The stamp of the target's last clear."""


_SENT: Final = {
    MergePolicy.LATEST_UPDATE: {Difference.MISSING, Difference.OLDER, Difference.REMOVED},
    MergePolicy.PASS_THROUGH: {
        *(Difference.MISSING, Difference.OLDER, Difference.REMOVED),
        Difference.NEWER,
    },
    MergePolicy.PUT_IF_ABSENT: {Difference.MISSING},
}


def is_sent(difference: Difference, policy: MergePolicy) -> bool:
    """Tell whether the target may take what the source has of the key."""
    return difference in _SENT[policy]


def is_surplus(difference: Difference) -> bool:
    """Tell whether the target has an entry that the source cannot say anything of."""
    return difference in (Difference.EXTRA, Difference.AMBIGUOUS)


def difference_of(own: Row | None, theirs: Row | None, marks: Marks) -> Difference | None:
    """Return how the target differs in a key, None when it does not.

    Args:
        own: what the source has; a removal counts as nothing where the target has no entry.
        theirs: what the target has.
        marks: what both know of the map as a whole.
    """
    if own is not None and not own.removed:
        return _of_entry(own, theirs, marks)
    if theirs is None or theirs.removed:
        return None
    if own is None and theirs.stamp > marks.cleared:
        return Difference.AMBIGUOUS if theirs.stamp <= marks.purged else Difference.EXTRA
    removed_at = max(marks.cleared, 0 if own is None else own.stamp)
    # At equal stamps a removal counts.
    return Difference.REMOVED if removed_at >= theirs.stamp else Difference.NEWER


def _of_entry(own: Row, theirs: Row | None, marks: Marks) -> Difference | None:
    if theirs is None:
        return Difference.NEWER if own.stamp <= marks.target_cleared else Difference.MISSING
    if theirs.removed:
        return Difference.NEWER if theirs.stamp >= own.stamp else Difference.MISSING
    if theirs.digest == own.digest:
        return None
    # Equal ranks of one stamp say nothing: the target takes what is sent, or leaves it.
    theirs_counts = (theirs.stamp, theirs.rank) > (own.stamp, own.rank)
    return Difference.NEWER if theirs_counts else Difference.OLDER
