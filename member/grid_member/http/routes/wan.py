"""The operations of WAN replication.

The checks have one order: joined, configured, cluster version, what is named, the present state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.cluster.membership.locks import CHANGE
from grid_member.engine.wan.agreement import PublisherState
from grid_member.http.routes.clusterwide import change_everywhere
from grid_member.http.routes.data import refusal
from grid_member.http.routes.idempotent import settle
from grid_member.http.routes.preconditions import lagging_problem, unjoined_problem
from grid_member.http.wire.answers import (
    CARRIED_OUT,
    Answer,
    document,
    error,
    failure_answer,
    success,
)
from grid_member.wan.agreement.added_json import AddedJsonError, AddedReplication, read_added
from grid_member.wan.agreement.calls import (
    WanCalls,
    WanConflictError,
    WanUnavailableError,
    WanUnknownError,
)
from grid_member.wan.agreement.part import WanReplication
from grid_member.wan.jobs.records import JobKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grid_member.cluster.values.system_store import Put
    from grid_member.engine.wan.agreement import PublisherName
    from grid_member.http.routes.calls import HttpCall

NOT_CONFIGURED: Final = "wan-replication is not configured"
CHANGE_PATIENCE_S: Final = 10.0
"""How long a change of the configuration waits for another change of the cluster."""
_BUSY: Final = error(503, "another change of the cluster is under way", retry=True)
_UNANSWERED: Final = error(
    503, "nothing is added: a member that lives does not tell whether it can be", retry=True
)


async def wan_clear_queues(call: HttpCall) -> Answer:
    """Drop what waits in this member's queues for a publisher."""

    async def clear(wan: WanCalls) -> Answer:
        await wan.clear(_publisher(call, wan))
        return await settle(call, success(message="WAN replication queues are cleared."))

    return await _answer(call, clear)


async def wan_pause_publisher(call: HttpCall) -> Answer:
    """Let what this member takes in for a publisher wait."""
    return await _set_state(call, PublisherState.PAUSED, "WAN publisher paused")


async def wan_resume_publisher(call: HttpCall) -> Answer:
    """Send what this member takes in for a publisher."""
    return await _set_state(call, PublisherState.REPLICATING, "WAN publisher resumed")


async def wan_stop_publisher(call: HttpCall) -> Answer:
    """Queue nothing more of what this member takes in for a publisher."""
    return await _set_state(call, PublisherState.STOPPED, "WAN publisher stopped")


async def _set_state(call: HttpCall, state: PublisherState, message: str) -> Answer:
    async def set_state(wan: WanCalls) -> Answer:
        refused = await wan.set_state(_publisher(call, wan), state)
        if refused is not None:
            return refusal(refused)
        return await settle(call, success(message=message))

    return await _answer(call, set_state)


async def wan_sync_map(call: HttpCall) -> Answer:
    """Begin to synchronise a map."""
    return await _begin_job(call, JobKind.SYNC, "Sync initiated")


async def wan_sync_all_maps(call: HttpCall) -> Answer:
    """Begin to synchronise all maps of a publisher."""
    return await _begin_job(call, JobKind.SYNC, "Sync initiated")


async def wan_check_map(call: HttpCall) -> Answer:
    """Begin to check whether a map is the same at the target."""
    return await _begin_job(call, JobKind.CHECK, "Consistency check initiated")


async def _begin_job(call: HttpCall, kind: JobKind, message: str) -> Answer:
    async def begin(wan: WanCalls) -> Answer:
        publisher = _publisher(call, wan)
        map_name = call.parameters[4] if len(call.parameters) > 4 else ""
        if len(call.parameters) > 4:
            wan.check_map(publisher.replication, map_name)

        async def begin_once() -> Answer:
            uuid, puts = await wan.begin_job(kind, publisher, map_name)
            content = {"status": "success", "message": message, "uuid": uuid}
            return await settle(call, document(content), *puts)

        return await _change(call, begin_once)

    return await _answer(call, begin)


async def wan_sync_progress(call: HttpCall) -> Answer:
    """Return how far a synchronisation or check is."""

    async def show(wan: WanCalls) -> Answer:
        return document(wan.progress(call.names["uuid"]))

    return await _answer(call, show)


async def wan_status(call: HttpCall) -> Answer:
    """Return what is known of all publishers."""

    async def show(wan: WanCalls) -> Answer:
        return document(await wan.whole_status())

    return await _answer(call, show)


async def wan_add_config(call: HttpCall) -> Answer:
    """Add publishers on all members."""

    async def add(wan: WanCalls) -> Answer:
        wanted = read_added(call.parameters[2])
        if not await wan.keeper.prepare():
            return _UNANSWERED
        return await _change(call, lambda: _add(call, wan, wanted))

    return await _answer(call, add, first=True)


async def _add(call: HttpCall, wan: WanCalls, wanted: AddedReplication) -> Answer:
    addition = wan.add(wanted)
    if addition.question:
        refused = await _objection(call, wan, addition.question)
        if refused is not None:
            return refused
    content = {
        "status": "success",
        "message": "WAN configuration added.",
        "addedPublisherIds": addition.added_ids,
        "ignoredPublisherIds": addition.ignored_ids,
    }
    return await _agree(call, wan, document(content), addition.changes)


async def _agree(call: HttpCall, wan: WanCalls, answer: Answer, puts: Sequence[Put]) -> Answer:
    """Keep what changes the agreement, then let all shards go by it; return the answer."""
    answer = await settle(call, answer, *puts)
    if answer.status == CARRIED_OUT:
        await wan.go_by_agreement()
    return answer


async def _objection(call: HttpCall, wan: WanCalls, question: bytes) -> Answer | None:
    """Return the answer when a member cannot send for what is to be added."""
    own = wan.objection(question)
    if own is not None:
        return failure_answer(409, f"nothing is added: member {call.member.address}: {own}")
    membership = call.member.membership
    if membership is None:
        return None
    objections = await membership.configuration_vote.objections(question)
    if objections is None:
        return _UNANSWERED
    return failure_answer(409, f"nothing is added: {objections[0]}") if objections else None


async def wan_remove_config(call: HttpCall) -> Answer:
    """Remove a publisher on all members, with its queues."""

    async def remove(wan: WanCalls) -> Answer:
        async def remove_once() -> Answer:
            changes = wan.remove(_publisher(call, wan))
            removed = success(message="WAN configuration removed.")
            return await _agree(call, wan, removed, changes)

        return await _change(call, remove_once)

    return await _answer(call, remove)


async def _change(call: HttpCall, change: Callable[[], Awaitable[Answer]]) -> Answer:
    async with call.member.management.config_lock:
        return await change_everywhere(call, CHANGE, change, CHANGE_PATIENCE_S, busy=_BUSY)


def _publisher(call: HttpCall, wan: WanCalls) -> PublisherName:
    return wan.publisher(call.parameters[2], call.parameters[3])


async def _answer(
    call: HttpCall, act: Callable[[WanCalls], Awaitable[Answer]], *, first: bool = False
) -> Answer:
    """Carry out a call; `first` may be the one that configures WAN replication."""
    problem = unjoined_problem(call) or await lagging_problem(call)
    if problem is not None:
        return problem
    part = call.member.management.wan
    if not isinstance(part, WanReplication) or not (first or part.calls.keeper.configured):
        return failure_answer(409, NOT_CONFIGURED)
    version = part.calls.keeper.version_problem
    if version is not None:
        return failure_answer(409, version)
    try:
        return await act(part.calls)
    except AddedJsonError as wrong:
        return error(400, str(wrong))
    except WanUnknownError as wrong:
        return failure_answer(404, str(wrong))
    except WanConflictError as wrong:
        return failure_answer(409, str(wrong))
    except WanUnavailableError as wrong:
        return error(503, str(wrong), retry=True)
