"""The wrong moments for a management call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.member import Phase
from grid_member.http.answers import Answer, error, failed

if TYPE_CHECKING:
    from grid_member.http.calls import Call

NOT_JOINED: Final = "the member has not joined its cluster or is stopping already"


def not_joined(call: Call) -> Answer | None:
    """Return the answer of a call that only a member of a cluster can carry out."""
    return None if call.member.joined else failed(409, NOT_JOINED)


def starting(call: Call) -> Answer | None:
    """Return the answer of a document that is not known before the data was replayed."""
    if call.member.phase is Phase.STARTING:
        return error(503, "the member is starting", retry=True)
    return None
