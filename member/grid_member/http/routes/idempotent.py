"""Calls that may be sent again: the first outcome under an `Idempotency-Key` is answered again.

Kept is the outcome of a call that was carried out, status 200. A refusal changed nothing, so the
same call may be tried again under its key. Nothing is kept of a call that reads only.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_member.cluster.member.member import Phase
from grid_member.cluster.membership.locks import LockedError
from grid_member.cluster.values.idempotency import StoredAnswer, key_problem
from grid_member.cluster.values.system_store import carry_out
from grid_member.engine.api import EngineError
from grid_member.http.routes.clusterwide import after_barrier
from grid_member.http.routes.data import refusal
from grid_member.http.wire.answers import CARRIED_OUT, Answer, error, failure_answer, success
from grid_member.telemetry.logs import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.member.member import Member
    from grid_member.cluster.membership.membership import Membership
    from grid_member.cluster.persistence.store_recovery import Around
    from grid_member.cluster.values.system_store import Begin, Put
    from grid_member.engine.api import Refused
    from grid_member.http.routes.calls import HttpCall, Operation

HEADER: Final = "Idempotency-Key"
LEAVE: Final = "X-Grid-Leave"
"""The header of a `memberShutdown` with which a member moves its copies to others first."""
STARTS: Final = frozenset({"force_start", "partial_start"})
"""The operations that replace the store: what became of them is remembered beside it."""
LEAVES: Final = "member_shutdown"
READ_ONLY: Final = frozenset({"cluster_state", "nodes"})
"""The operations that have body parameters and change nothing."""
PER_MEMBER: Final = frozenset(
    {"wan_clear_queues", "wan_pause_publisher", "wan_resume_publisher", "wan_stop_publisher"}
)
"""The operations that change this member alone; the key of one is not that of another member."""
KEY_LOCK: Final = "key-"
KEY_PATIENCE_S: Final = 120.0
"""How long a call waits for another member that carries out a call with its key."""
_CREDENTIALS: Final = 2
"""The body parameters that say who asks, not what."""
_log: Final = logging.getLogger("grid.http")


async def carry_out_once(call: HttpCall, operation: Operation) -> Answer:
    """Carry out a management call, or answer what it was answered first under its key.

    A call without the header is carried out. One whose key is under way waits for that; a start
    call is not carried out then. To be run to its end (see `BackgroundCalls`), so that a client
    that leaves does not stop a call half-way.
    """
    keys = call.request.headers.getall(HEADER, [])
    if not keys:
        return await operation(call)
    problem = key_problem(keys)
    if problem is not None:
        return error(400, problem)
    if call.route.operation in READ_ONLY:
        return await operation(call)
    if call.member.phase is Phase.STARTING and call.route.operation not in STARTS:
        # Earlier outcomes are not known yet, and nothing that needs one can be carried out.
        return await operation(call)
    key, request = keys[0], fingerprint(call)
    outcomes = call.member.management.stored_answers
    while (attempt := outcomes.pending(key)) is not None:
        if attempt.request != request:
            return _conflict(key)
        await attempt.finished.wait()
        if call.route.operation in STARTS:
            operation = _refuse_again
    return await _carry_out_first(call, operation, key, request)


async def settle(call: HttpCall, answer: Answer, *changes: Put | Begin) -> Answer:
    """Carry out what a call changes, its outcome remembered together with it; return the answer."""
    management = call.member.management
    begins = [c if callable(c) else c.begin(management.store) for c in changes]
    key = call.request.headers.get(HEADER)
    if key is not None:
        outcome = _outcome(answer, fingerprint(call))
        begins.append(management.stored_answers.remember(key, outcome).begin(management.store))
    refusals = await carry_out(*begins)
    refused = next(filter(None, refusals[: len(changes)]), None)
    if refused is not None:
        return refusal(refused)
    for forgotten in filter(None, refusals):
        _log_unremembered(forgotten)
    return answer


def fingerprint(call: HttpCall) -> str:
    """Return what tells one request from another: all of it but who asks."""
    asked = [call.route.operation, sorted(call.names.items()), *call.parameters[_CREDENTIALS:]]
    if _leaving(call):
        # Another member that is asked with the same key is not to leave as well.
        asked.append([(LEAVE, call.request.headers[LEAVE]), ("member", _identity_of(call.member))])
    if call.route.operation in PER_MEMBER:
        # A member in memory is another one after a restart, and has nothing of what was set.
        asked.append([("member", call.member.engine.member_uuid)])
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _leaving(call: HttpCall) -> bool:
    """Tell whether a member that is not alone is asked to leave for good."""
    if call.route.operation != LEAVES or call.member.management.departing is None:
        return False
    return LEAVE in call.request.headers


def _identity_of(member: Member) -> str:
    """Return what tells a member that is to leave from all others, also after a restart."""
    if member.config.data_directory is not None:
        return member.engine.member_uuid
    # Without data it is somebody new each time, at the same place.
    return f"{member.name} {member.address}"


def note_start(call: HttpCall) -> Around | None:
    """Return what notes a start call's work under its key, None when it has none."""
    key = call.request.headers.get(HEADER)
    if key is None:
        return None
    starts, request = call.member.management.persistence.starts, fingerprint(call)
    return lambda work: starts.carry_out(key, request, work)


def remember(call: HttpCall, answer: Callable[[str], Answer]) -> Callable[[str], Put] | None:
    """Return what keeps a call's answer, made of a result, under its key; None without a key."""
    key = call.request.headers.get(HEADER)
    if key is None:
        return None
    outcomes, request = call.member.management.stored_answers, fingerprint(call)
    return lambda result: outcomes.remember(key, _outcome(answer(result), request))


def recovery_answer(problem: str | None) -> Answer:
    """Return the answer of a start call that failed because of the problem, if any."""
    return success() if problem is None else failure_answer(200, problem)


def _known_answer(call: HttpCall, key: str, request: str) -> Answer | None:
    """Return the answer of a call whose key is known, or cannot be remembered."""
    management = call.member.management
    known = management.stored_answers.find(key)
    if known is not None and known.request != request:
        return _conflict(key)
    if known is not None:
        # Whoever asks a member again to leave wants it to go on, whatever became of the first try.
        return None if _leaving(call) and call.member.joined else _repeat(known)
    if call.route.operation not in STARTS and management.persistence.starts.has_call(key):
        return _conflict(key)
    if management.stored_answers.full:
        return error(503, "too many idempotency keys are remembered", retry=True)
    return None


async def _carry_out_first(call: HttpCall, operation: Operation, key: str, request: str) -> Answer:
    """Carry out a call with a key that no call on this member has now."""
    membership = call.member.membership if call.member.joined else None
    if membership is None and (known := _known_answer(call, key, request)) is not None:
        return known
    outcomes = call.member.management.stored_answers
    outcomes.begin(key, request)
    try:
        if membership is None:
            return await _carry_out(call, operation, key, request)
        return await _carry_out_alone(membership, call, operation, key, request)
    finally:
        outcomes.end(key)


async def _carry_out_alone(
    membership: Membership, call: HttpCall, operation: Operation, key: str, request: str
) -> Answer:
    """Carry out a call unless another member has done so, or does so now."""
    lock = KEY_LOCK + hashlib.sha256(key.encode()).hexdigest()
    try:
        async with membership.locks.hold(lock, request, KEY_PATIENCE_S):
            # Whoever has the lock knows what was answered under the key before.
            known = _known_answer(call, key, request)
            if known is None:
                return await _carry_out(call, operation, key, request)
        # Whoever carried it out may have been told that it is not shown yet, or nothing.
        return await after_barrier(membership, known)
    except LockedError as locked:
        if locked.refusal is not None:
            return refusal(locked.refusal)
        return error(503, "another member carries out the call", retry=True)


async def _carry_out(call: HttpCall, operation: Operation, key: str, request: str) -> Answer:
    if call.route.operation in STARTS:
        return await _carry_out_start(call, operation, key, request)
    answer = await operation(call)
    management = call.member.management
    if answer.status == CARRIED_OUT and management.stored_answers.find(key) is None:
        put = management.stored_answers.remember(key, _outcome(answer, request))
        for refused in filter(None, await carry_out(put.begin(management.store))):
            _log_unremembered(refused)
    return answer


async def _carry_out_start(call: HttpCall, operation: Operation, key: str, request: str) -> Answer:
    try:
        known = await asyncio.to_thread(call.member.management.persistence.starts.find, key)
    except EngineError as problem:
        return failure_answer(409, str(problem))
    if known is None:
        return await operation(call)
    if known.request != request:
        return _conflict(key)
    if not known.ended:
        return failure_answer(
            409,
            f"the member stopped while it carried out the {HEADER} {key}: look at the data, "
            "then send the call with another key if it is wanted still",
        )
    return replace(recovery_answer(known.problem), repeated=True)


async def _refuse_again(_: HttpCall) -> Answer:
    """Refuse a start call that waited for another try that was ended without being done.

    Whoever sent it may not wait any more, and has not looked since: others may serve by now.
    """
    return failure_answer(
        200, "the call that was under way is not done: look, and ask again in 5 s"
    )


def _log_unremembered(refused: Refused) -> None:
    # What was done is answered nevertheless: a full disk must not keep a cluster from being made
    # passive and shut down.
    event(_log, logging.WARNING, "outcome not remembered", reason=refused.reason.value)


def _outcome(answer: Answer, request: str) -> StoredAnswer:
    return StoredAnswer(request, answer.status, answer.body, answer.content_type, answer.headers)


def _repeat(outcome: StoredAnswer) -> Answer:
    return Answer(
        outcome.status, outcome.body, outcome.content_type, outcome.headers, repeated=True
    )


def _conflict(key: str) -> Answer:
    return failure_answer(409, f"the {HEADER} {key} was sent before with another request")
