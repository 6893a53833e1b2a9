"""What to do about data that is damaged, as people are told it beside where it is."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from grid_member.engine.integrity.watermarks import WATERMARK_FILE
from grid_member.engine.storage.store import CLUSTER

if TYPE_CHECKING:
    from pathlib import Path

RESTORE: Final = (
    "stop all members, keep a copy of their directories, empty these and start all with "
    "persistence.restore-from, which names the last backup; what was written after it is lost; "
    "partialStart does not help with that, as no member is lost"
)
"""What is left where no disk has what is missing."""
_ALONE: Final = (
    "if the other members are ready, or wait and do not say this, only what this one has noted is "
    "newer than what they have: stop {member}, empty {directory} and start it again, this one "
    "alone, and only while a majority is there without it: start who is off before; of two members "
    "the other one is none, and partialStart, asked of this one, goes on then; it copies what they "
    "have, and what only it had read is lost; if all that hold it say this, "
)
_GO_ON: Final = (
    "; if all are there and this stays, the others have gone on without what only this one has "
    "read: stop {member}, keep a copy of {file}, remove it and start the member again: it goes on "
    "with what they have"
)


class RepairOption(enum.Enum):
    """What may be done about a log that ends before what a member has read of it.

    While one copy is as long as that, and others are not, nothing is: they will be copied from it.
    """

    ALONE = enum.auto()
    """All copies end before: either none has it, or the one that noted it is alone with that."""
    GO_ON = enum.auto()
    """None does, and it is not in them: others went on with what was left."""


def repair_advice(
    way: RepairOption | None, member: str, directory: Path | None, *, everywhere: bool
) -> str:
    """Return what follows where a stream is damaged.

    Args:
        way: for one that is short.
        member: the name of who tells it.
        directory: its directory.
        everywhere: whether all that hold it are there, and their copies damaged.
    """
    if everywhere:
        alone = way is RepairOption.ALONE
        first = _ALONE.format(member=member, directory=directory) if alone else ""
        return f", which are all that hold it: {first}{RESTORE}"
    rest = ""
    if way is RepairOption.GO_ON and directory is not None:
        rest = _GO_ON.format(member=member, file=directory / CLUSTER / WATERMARK_FILE)
    return f": start all members, as others may hold it whole{rest}"
