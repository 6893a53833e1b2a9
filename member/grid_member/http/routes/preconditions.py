"""The wrong moments for a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.member.member import Phase
from grid_member.engine.replication import NO_MAJORITY
from grid_member.http.table import DATA
from grid_member.http.wire.answers import Answer, error, failure_answer

if TYPE_CHECKING:
    from grid_member.http.routes.calls import HttpCall

UNJOINED: Final = "the member has not joined its cluster or is stopping already"

_BEFORE: Final = frozenset({Phase.STARTING, Phase.PARKED})
"""Nothing is known of the others; what is answered then says so."""
_STOPPING: Final = "the member is stopping"


def unjoined_problem(call: HttpCall) -> Answer | None:
    """Return the answer of a call that only a member of a cluster can carry out."""
    return (
        None if call.member.joined else failure_answer(409, call.member.marker_reason or UNJOINED)
    )


def parked_answer(call: HttpCall) -> Answer | None:
    """Return the answer of a data call or one with credentials when the member is parked."""
    reason = call.member.marker_reason
    if reason is None:
        return None
    if call.route.parameters is not None:
        return failure_answer(409, reason)
    return error(503, reason) if DATA in call.route.groups else None


def unjoined_answer(call: HttpCall) -> Answer | None:
    """Return the answer of a data call to a member that has not joined the others.

    Its engine may be ready already: it might be refused all the same, and nobody would give back
    what it has in flight when it dies before its first heartbeat.
    """
    member = call.member
    if member.membership is None or member.phase is not Phase.STARTING:
        return None
    return error(503, member.problem, retry=True) if DATA in call.route.groups else None


async def lagging_problem(call: HttpCall) -> Answer | None:
    """Wait until all that was answered before, on any member, is known here.

    Returns:
        The answer when that cannot be had, because no majority of the members answers.
    """
    membership = call.member.membership
    if membership is None or call.member.phase in _BEFORE or await membership.engine.current():
        return None
    stopping = call.member.phase is Phase.STOPPING
    return error(503, _STOPPING if stopping else NO_MAJORITY, retry=True)


def starting_problem(call: HttpCall) -> Answer | None:
    """Return the answer of a document that is not known before the data was replayed."""
    if call.member.marker_reason is not None:
        return error(503, call.member.marker_reason)
    if call.member.phase is Phase.STARTING:
        return error(503, "the member is starting", retry=True)
    return None
