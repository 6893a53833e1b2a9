"""WanState: every member does for a publisher what the spec says, one told after the other.

Call ──▶ Confirm ──▶ Call, of the next member ──▶ Confirm ──▶ finished, when all show the state
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.api.wan import PublisherState
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.operations import wan_publisher
from grid_operator.decide.operations.journal import (
    Move,
    advance,
    attempt,
    begin,
    finish,
    is_over,
    step_end,
    wait,
)
from grid_operator.decide.pods import pod_name
from grid_operator.decide.wan import (
    differing_pods,
    parameters,
    publisher_target,
    wished,
)

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

LIMIT_S: Final = 60.0
"""For the call to each member."""
CONFIRM_LIMIT_S: Final = 10.0
"""Members show a state when they answer the call: one that does not was changed meanwhile."""
_ENDPOINTS: Final = {
    PublisherState.REPLICATING: Endpoint.WAN_RESUME,
    PublisherState.PAUSED: Endpoint.WAN_PAUSE,
    PublisherState.STOPPED: Endpoint.WAN_STOP,
}


def wanted_with_publishers(situation: Situation) -> tuple[OperationStatus, ...]:
    """Return what may begin about WAN replication: changes of publishers, then of a state."""
    changed, found = wan_publisher.wanted(situation), wanted(situation)
    return changed if found is None else (*changed, found)


def wanted(situation: Situation) -> OperationStatus | None:
    """Return the operation for the first publisher of which a member shows another state."""
    for wish in situation.desired.wan.publishers:
        if differing_pods(situation, wish):
            return begin(
                situation,
                OperationKind.WAN_STATE,
                Step.CALL,
                target=publisher_target(wish.name),
                digest=wish.state.value,
            )
    return None


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    now = situation.now
    wish = wished(situation, operation.target)
    if wish is None or wish.state.value != operation.digest:
        text = "spec.wan was changed meanwhile"
        return finish(operation, OperationOutcome.INTERRUPTED, now, text)
    differing = differing_pods(situation, wish)
    if not differing:
        return finish(operation, OperationOutcome.SUCCEEDED, now)
    told = next((p for p in differing if p["metadata"]["uid"] == operation.target_uid), None)
    if operation.step == Step.CONFIRM and told is None:
        return advance(operation, Step.CALL, now, target_uid="")
    if operation.step == Step.CONFIRM:
        return _confirm(situation, operation, _awaited(operation, differing))
    if is_over(operation, LIMIT_S, now) and operation.attempts:
        reason = operation.last_error or _awaited(operation, differing)
        return finish(operation, OperationOutcome.FAILED, now, reason)
    return _tell(situation, operation, told or differing[0], _ENDPOINTS[wish.state])


def _confirm(situation: Situation, operation: OperationStatus, awaited: str) -> Move:
    if not is_over(operation, CONFIRM_LIMIT_S, situation.now):
        return wait(operation, awaited, step_end(operation, CONFIRM_LIMIT_S))
    # Its key would be answered without an effect: it begins again under another one.
    text = f"the member did as it was told and shows another state by now; waited {awaited}"
    return finish(operation, OperationOutcome.INTERRUPTED, situation.now, text)


def _tell(
    situation: Situation, operation: OperationStatus, pod: KubeObject, endpoint: Endpoint
) -> Move:
    entry = operation.model_copy(update={"target_uid": pod["metadata"]["uid"]})
    move = attempt(situation, entry, pod, endpoint, parameters(operation.target))
    end = step_end(operation, LIMIT_S)
    if move.call is None and move.until is not None and end is not None:
        return replace(move, until=min(move.until, end))
    return move


def _awaited(operation: OperationStatus, differing: list[KubeObject]) -> str:
    names = ", ".join(map(pod_name, differing))
    return f"for {names} to be {operation.digest} for publisher {operation.target}"
