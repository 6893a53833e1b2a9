"""Changes that every member shows when they are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.locks import LockedError
from grid_member.http.routes.data import refusal
from grid_member.http.wire.answers import CARRIED_OUT, Answer, error, failure_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.cluster.membership.membership import Membership
    from grid_member.http.routes.calls import HttpCall

BUSY: Final = failure_answer(
    409,
    "another change of the cluster's state, version, configuration or members is under way: "
    "try again",
)
BUSY_ALONE: Final = failure_answer(
    409, "another change of the cluster state or version is under way: try again"
)
"""The same of a member that is alone."""
_UNCONFIRMED: Final = "it is changed, but a member that lives does not show it yet"


async def change_everywhere(
    call: HttpCall,
    lock: str,
    change: Callable[[], Awaitable[Answer]],
    patience_s: float = 0.0,
    *,
    busy: Answer = BUSY,
) -> Answer:
    """Carry out a change while no other member does; answer when every member shows it.

    On a member that is alone both is so anyway. `busy` is answered while another member does.
    """
    membership = call.member.membership
    if membership is None:
        return await change()
    try:
        async with membership.locks.hold(lock, str(call.route.operation), patience_s):
            answer = await change()
    except LockedError as locked:
        return busy if locked.refusal is None else refusal(locked.refusal)
    # The lock's end was proposed in this tick, as the barrier is: they are in one record.
    return await after_barrier(membership, answer)


async def after_barrier(membership: Membership, answer: Answer) -> Answer:
    """Return the answer when every member shows what was changed before, or that it does not."""
    if answer.status == CARRIED_OUT and not await membership.wait_for_barrier():
        return error(503, _UNCONFIRMED, retry=True)
    return answer
