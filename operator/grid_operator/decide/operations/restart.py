"""Restart: members are stopped gently and their pods replaced, the highest ordinal first.

    ShutDownMember ──▶ DeletePod ──▶ AwaitReady ──▶ ShutDownMember of the next … ──▶ finished

Each pod is found by its uid, so that the pod that comes after it is never taken for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.children.departure import is_terminating
from grid_operator.decide.operations.journal import (
    Move,
    advance,
    attempt,
    begin,
    finish,
    is_over,
    wait,
)
from grid_operator.decide.pods import ordinal, pod_name
from grid_operator.decide.roll import claim_obstacle, disruption_obstacle, is_lost, is_parked
from grid_operator.decide.situation import EPOCH, moment

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

LIMIT_S: Final = 60.0
"""For telling one member to stop, once the first attempt was made."""
NOT_TOLD: Final = "it has not said that it stops"


def wanted(situation: Situation, request: str = "") -> OperationStatus | None:
    """Return the restart of the first pod that is due; a request makes all of them due."""
    pods = situation.pods if request else list(situation.roll.restartable)
    if not pods:
        return None
    pod = pods[-1]
    return begin(
        situation,
        OperationKind.RESTART,
        Step.SHUT_DOWN_MEMBER,
        target=pod_name(pod),
        target_uid=pod["metadata"]["uid"],
        request=request,
    )


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    pod = situation.pod(operation.target, operation.target_uid)
    if operation.step == Step.AWAIT_READY:
        return _await_ready(situation, operation)
    if pod is None or is_terminating(pod):
        return advance(operation, Step.AWAIT_READY, situation.now)
    obstacle = claim_obstacle(situation.observed, pod)
    if obstacle is not None:
        return wait(operation, f"until it is safe: {obstacle}")
    if operation.step == Step.DELETE_POD:
        return _delete(situation, operation, pod)
    return _shut_down(situation, operation, pod)


def _delete(situation: Situation, operation: OperationStatus, pod: KubeObject) -> Move:
    """Return the end of the pod.

    One of several that has not said that it stops passes the gate once more: it may go on, and
    much may have happened since it was told.
    """
    obstacle = None
    goes_on = bool(operation.last_error) and not is_lost(situation.observed, pod)
    if goes_on and not situation.spec.is_alone:
        obstacle = disruption_obstacle(situation.observed)
    if obstacle is not None:
        return wait(operation, f"until it is safe: {obstacle}")
    return Move(operation, waiting=f"pod {operation.target} is deleted", delete_pod=pod)


def _shut_down(situation: Situation, operation: OperationStatus, pod: KubeObject) -> Move:
    if not operation.request and operation.attempts == 0:
        if situation.roll.unsettled:
            return wait(operation, "until the StatefulSet controller has seen the newest revision")
        if not _is_due_yet(situation, pod):
            text = f"pod {operation.target} is as the spec says again: nobody has to restart"
            return finish(operation, OperationOutcome.INTERRUPTED, situation.now, text)
    over = operation.attempts > 0 and is_over(operation, LIMIT_S, situation.now)
    if over or is_lost(situation.observed, pod):
        # Who cannot be told is stopped by the end of the pod, which is as gentle.
        last_error = operation.last_error or NOT_TOLD
        return advance(operation, Step.DELETE_POD, situation.now, last_error=last_error)
    # An attempt of which nothing is known may have reached the member: it is repeated as it is.
    if operation.attempts == 0 or operation.last_error:
        obstacle = disruption_obstacle(situation.observed)
        if obstacle is not None:
            # The time for telling counts from the first attempt, however long it is waited here.
            return wait(operation, f"until it is safe: {obstacle}")
    return attempt(situation, operation, pod, Endpoint.MEMBER_SHUTDOWN)


def _is_due_yet(situation: Situation, pod: KubeObject) -> bool:
    """Return whether the pod has to go; not when the spec was set back before it was told."""
    return pod_name(pod) in situation.roll.outdated or is_parked(situation.observed, pod)


def _await_ready(situation: Situation, operation: OperationStatus) -> Move:
    problems = situation.member_problems(besides=situation.to_be_mended())
    if problems:
        return wait(operation, "; ".join(problems))
    below = [pod for pod in situation.pods if ordinal(pod) < _ordinal(operation.target)]
    due = [pod for pod in below if _is_due(situation, operation, pod)]
    if not due:
        return finish(operation, OperationOutcome.SUCCEEDED, situation.now)
    pod = due[-1]
    uid = pod["metadata"]["uid"]
    changes = {"target": pod_name(pod), "target_uid": uid}
    return advance(operation, Step.SHUT_DOWN_MEMBER, situation.now, **changes)


def _is_due(situation: Situation, operation: OperationStatus, pod: KubeObject) -> bool:
    if not operation.request:
        return pod_name(pod) in situation.roll.outdated
    created = moment(pod["metadata"].get("creationTimestamp"))
    return (created or EPOCH) < (moment(operation.started) or EPOCH)


def _ordinal(name: str) -> tuple[int, str]:
    return ordinal({"metadata": {"name": name}})
