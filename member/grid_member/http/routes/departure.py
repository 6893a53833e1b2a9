"""`memberShutdown` of a member that is not to come back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import EngineError, Refused
from grid_member.http.routes.data import refusal
from grid_member.http.routes.idempotent import LEAVE, management_of
from grid_member.http.routes.persistence import OPERATION
from grid_member.http.routes.preconditions import UNJOINED, answer_and_stop, unjoined_problem
from grid_member.http.wire.answers import Answer, error, failure_answer, success

if TYPE_CHECKING:
    from grid_member.http.routes.calls import HttpCall

FOREVER: Final = "forever"


async def member_shutdown(call: HttpCall) -> Answer:
    """Answer, then stop this member; at once, or when all that it holds is elsewhere."""
    leave, departing = call.request.headers.get(LEAVE), management_of(call).departing
    if leave is None or departing is None:
        # One that is alone has nobody to leave its data to: the header means nothing to it.
        return await answer_and_stop(call, "memberShutdown", call.member.request_stop)
    if leave != FOREVER:
        return error(400, f"{LEAVE} is {FOREVER} or left out")
    problem = failure_answer(409, UNJOINED) if call.member.ending else unjoined_problem(call)
    if problem is not None:
        return problem
    try:
        # Now, while it can be refused: at the end it would have nothing to stay with.
        await asyncio.to_thread(call.member.shutdown_marker.check_writable)
    except EngineError as unwritten:
        return failure_answer(409, str(unwritten))
    begun = await departing.begin()
    if isinstance(begun, Refused):
        return refusal(begun)
    return replace(success(), headers=((OPERATION, begun),))
