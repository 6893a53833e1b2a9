"""ChangeState: the members are brought into `spec.clusterState`.

Call ──▶ Confirm ──▶ finished, when every member shows the state

Once brought about, another state is drift, and what is done about it is the spec's drift policy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grid_operator.api.lifecycle import DriftPolicy
from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.operations.journal import (
    Move,
    begin,
    finish,
    is_over,
    step_end,
    tell,
    wait,
)
from grid_operator.decide.situation import IN_TRANSITION

if TYPE_CHECKING:
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

LIMIT_S: Final = 120.0
"""For each of the two steps."""


def member_word(state: str) -> str:
    """Return a state as members write it in documents: `NoMigration` is `NO_MIGRATION`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper()


def wanted(situation: Situation) -> OperationStatus | None:
    """Return the operation that the spec asks for, None when the members are as it says."""
    state = situation.spec.cluster_state
    states = situation.states()
    if state is None or not states or IN_TRANSITION in states:
        return None
    if states == {member_word(state)}:
        return None
    is_new = situation.status.applied_cluster_state != state.value
    if not is_new and situation.spec.cluster_state_drift_policy is not DriftPolicy.CORRECT:
        return None
    return begin(situation, OperationKind.CHANGE_STATE, Step.CALL, target=state.value)


def is_reached(situation: Situation, state: str) -> bool:
    """Return whether every wanted member shows the state."""
    shown = situation.states() == {member_word(state)}
    return shown and len(situation.joined()) >= situation.spec.size


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    now = situation.now
    if situation.spec.cluster_state != operation.target:
        text = "spec.clusterState was changed meanwhile"
        return finish(operation, OperationOutcome.INTERRUPTED, now, text)
    if is_reached(situation, operation.target):
        done = {"applied_cluster_state": operation.target}
        return finish(operation, OperationOutcome.SUCCEEDED, now, **done)
    if operation.step == Step.CALL:
        word = member_word(operation.target).lower()
        move = tell(situation, operation, Endpoint.CHANGE_STATE, word, LIMIT_S)
        return move or _failed(situation, operation)
    if is_over(operation, LIMIT_S, now):
        return _failed(situation, operation)
    return wait(operation, _awaited(situation, operation), step_end(operation, LIMIT_S))


def _failed(situation: Situation, operation: OperationStatus) -> Move:
    reason = operation.last_error or _awaited(situation, operation)
    return finish(operation, OperationOutcome.FAILED, situation.now, reason)


def _awaited(situation: Situation, operation: OperationStatus) -> str:
    others = [
        f"{pod['metadata']['name']} shows {view.cluster_state}"
        for pod, view in situation.joined()
        if view.cluster_state != member_word(operation.target)
    ]
    missing = situation.member_problems()
    return f"for {operation.target}: {'; '.join(others + missing) or 'all members'}"
