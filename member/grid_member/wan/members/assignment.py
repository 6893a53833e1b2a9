"""Which member sends for a publisher in a shard.

    members with data, as they joined ─▶ those that can send ─▶ the REPLICATING ones, if any is
                                         ─▶ the one at (checksum of the publisher + lane) mod n

Every member works this out from what all of them know, so no lock is needed. For a moment two
members, or none, may take a lane for theirs: what is sent twice changes nothing, and what is
queued waits.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.wan.agreement import PublisherName


class SendingMember(NamedTuple):
    """A member as the assignment sees it."""

    uuid: str
    able: bool
    """Whether it has all shards, and the credentials for the target."""
    replicating: bool
    """Whether the publisher is REPLICATING on it."""


def sender_of(publisher: PublisherName, lane: int, members: Iterable[SendingMember]) -> str | None:
    """Return the UUID of the member that sends a lane; None when no member can.

    Args:
        publisher: sends.
        lane: the number of the shard.
        members: those with data, in the same order on all members.
    """
    able = [member for member in members if member.able]
    # A paused member sends nothing of its own, nor anything that others took in.
    candidates = [member for member in able if member.replicating] or able
    if not candidates:
        return None
    checksum = zlib.crc32("\0".join(publisher).encode("utf-8", "surrogatepass"))
    return candidates[(checksum + lane) % len(candidates)].uuid
