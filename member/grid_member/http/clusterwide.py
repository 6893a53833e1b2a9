"""Changes that every member shows when they are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.locks import LockedError
from grid_member.http.answers import Answer, error, failed
from grid_member.http.data import refusal
from grid_member.http.idempotent import CARRIED_OUT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.http.calls import Call

CHANGING: Final = "another change of the cluster state or version is under way: try again"
_NOT_SHOWN: Final = "it is changed, but a member that lives does not show it yet"


async def everywhere(
    call: Call, lock: str, change: Callable[[], Awaitable[Answer]], patience_s: float = 0.0
) -> Answer:
    """Carry out a change while no other member does; answer when every member shows it.

    On a member that is alone both is so anyway.
    """
    membership = call.member.membership
    if membership is None:
        return await change()
    try:
        async with membership.locks.held(lock, str(call.route.operation), patience_s):
            answer = await change()
    except LockedError as locked:
        return failed(409, CHANGING) if locked.refused is None else refusal(locked.refused)
    # The lock's end is in the log before the notice: whoever shows the one shows the other.
    if answer.status == CARRIED_OUT and not await membership.shown_everywhere():
        return error(503, _NOT_SHOWN, retry=True)
    return answer
