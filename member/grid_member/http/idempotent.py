"""Calls that may be sent again: the first outcome under an `Idempotency-Key` is answered again.

Kept is the outcome of a call that was carried out, status 200. A refusal changed nothing, so the
same call may be tried again under its key.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from typing import TYPE_CHECKING, Final

from grid_member.cluster.idempotency import Outcome, key_problem
from grid_member.cluster.logs import event, failure
from grid_member.cluster.member import Phase
from grid_member.cluster.system_store import carry_out
from grid_member.http.answers import Answer, error, failed
from grid_member.http.data import refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.cluster.management import Management
    from grid_member.cluster.system_store import Begin, Put
    from grid_member.engine.api import Refused
    from grid_member.http.calls import Call

HEADER: Final = "Idempotency-Key"
CARRIED_OUT: Final = 200
_CREDENTIALS: Final = 2
"""The body parameters that say who asks, not what."""
_log: Final = logging.getLogger("grid.http")


def management_of(call: Call) -> Management:
    """Return what the member's management calls work with."""
    return call.member.management


async def once(call: Call, operation: Callable[[Call], Awaitable[Answer]]) -> Answer:
    """Carry out a management call, or answer what it was answered first under its key.

    A call without the header is carried out. One whose key is under way waits for that.
    """
    keys = call.request.headers.getall(HEADER, [])
    if not keys:
        return await operation(call)
    problem = key_problem(keys)
    if problem is not None:
        return error(400, problem)
    if call.member.phase is Phase.STARTING:
        # Earlier outcomes are not known yet, and nothing that needs one can be carried out.
        return await operation(call)
    key, request = keys[0], fingerprint(call)
    outcomes = management_of(call).outcomes
    while (attempt := outcomes.attempt(key)) is not None:
        if attempt.request != request:
            return _conflict(key)
        await attempt.ended.wait()
    known = outcomes.find(key)
    if known is not None:
        return _again(known) if known.request == request else _conflict(key)
    if outcomes.full:
        return error(503, "too many idempotency keys are remembered", retry=True)
    return await _first(call, operation, key, request)


async def settle(call: Call, answer: Answer, *changes: Put | Begin) -> Answer:
    """Carry out what a call changes, its outcome remembered together with it; return the answer."""
    management = management_of(call)
    begins = [c if callable(c) else c.begin(management.store) for c in changes]
    key = call.request.headers.get(HEADER)
    if key is not None:
        outcome = _outcome(answer, fingerprint(call))
        begins.append(management.outcomes.remember(key, outcome).begin(management.store))
    refusals = await carry_out(*begins)
    refused = next(filter(None, refusals[: len(changes)]), None)
    if refused is not None:
        return refusal(refused)
    for forgotten in filter(None, refusals):
        _not_remembered(forgotten)
    return answer


def fingerprint(call: Call) -> str:
    """Return what tells one request from another: all of it but who asks."""
    asked = [call.route.operation, sorted(call.names.items()), *call.parameters[_CREDENTIALS:]]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


async def _first(
    call: Call, operation: Callable[[Call], Awaitable[Answer]], key: str, request: str
) -> Answer:
    outcomes = management_of(call).outcomes
    outcomes.begin(key, request)
    # A task of its own: a client that leaves does not stop the call half-way.
    task = asyncio.create_task(_carried_out(call, operation, key, request))
    task.add_done_callback(lambda _: outcomes.end(key))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_unanswered)
        raise


async def _carried_out(
    call: Call, operation: Callable[[Call], Awaitable[Answer]], key: str, request: str
) -> Answer:
    answer = await operation(call)
    management = management_of(call)
    if answer.status == CARRIED_OUT and management.outcomes.find(key) is None:
        put = management.outcomes.remember(key, _outcome(answer, request))
        for refused in filter(None, await carry_out(put.begin(management.store))):
            _not_remembered(refused)
    return answer


def _not_remembered(refused: Refused) -> None:
    # What was done is answered nevertheless: a full disk must not keep a cluster from being made
    # passive and shut down.
    event(_log, logging.WARNING, "outcome not remembered", reason=refused.reason.value)


def _unanswered(task: asyncio.Task[Answer]) -> None:
    if task.cancelled():
        return
    problem = task.exception()
    if problem is not None:
        failure(_log, "request failed", problem)
        return
    lost = task.result().lost
    if lost is not None:
        lost()


def _outcome(answer: Answer, request: str) -> Outcome:
    return Outcome(request, answer.status, answer.body, answer.content_type, answer.headers)


def _again(outcome: Outcome) -> Answer:
    return Answer(outcome.status, outcome.body, outcome.content_type, outcome.headers)


def _conflict(key: str) -> Answer:
    return failed(409, f"the {HEADER} {key} was sent before with another request")
