"""PartialStart and ForceStart: a member with damaged data is told to go on without some, or all.

    Call ──▶ AwaitReady ──▶ finished

Only on request, only for a member that waits to be told, of several only while none may serve,
and never again for a pod that replaced the one that was told: what it holds by then is not what the
request was about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.model import STARTING, MemberProblem, MemberView
from grid_operator.decide.operations.journal import (
    Move,
    attempt,
    begin,
    finish,
    is_over,
    step_end,
    wait,
)
from grid_operator.decide.pods import has_no_process, pod_name

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

LIMIT_S: Final = 120.0
"""For the call."""
ANSWER_LIMIT_S: Final = 180.0
"""From the same beginning: for a target that has joined to say what became of the call."""
READY_LIMIT_S: Final = 600.0
"""For becoming ready with the data that is left; then it may be asked for again."""
_ENDPOINTS: Final = {
    OperationKind.PARTIAL_START: Endpoint.PARTIAL_START,
    OperationKind.FORCE_START: Endpoint.FORCE_START,
}


def wanted(situation: Situation, kind: OperationKind, request: str) -> OperationStatus | None:
    """Return the operation for the member that waits, None when none does."""
    pod = situation.waiting_for_data()
    if pod is None:
        return None
    name, uid = pod_name(pod), pod["metadata"]["uid"]
    return begin(situation, kind, Step.CALL, target=name, target_uid=uid, request=request)


def serving(situation: Situation) -> str | None:
    """Return which of several members serves, None when none does.

    Every plain start looks like one that waits to be told, and ends by itself once others serve:
    giving up data is for when no majority is there.
    """
    if situation.spec.is_alone:
        return None
    joined = [pod_name(pod) for pod, _ in situation.joined()]
    serving = [*joined, *map(pod_name, situation.ready_pods())]
    if not serving:
        return None
    return (
        f"{serving[0]} has joined or serves, and of several members nothing is given up then; "
        f"if the others are lost for good, restart {serving[0]} and ask under another request "
        "id while no member serves"
    )


def _silent(situation: Situation, told: str) -> str | None:
    """Return which of the members but the one that is told may serve unseen; None when none may."""
    if situation.spec.is_alone:
        return None
    silent = (p for p in situation.pods if pod_name(p) != told and _may_serve(situation, p))
    pod = next(silent, None)
    if pod is None:
        return None
    return (
        f"{pod_name(pod)} does not say whether it serves ({situation.member_problem(pod)}), and "
        "of several members nothing is given up then: if that lasts make sure that it is off, "
        "delete its pod by force, and ask under another request id"
    )


def _may_serve(situation: Situation, pod: KubeObject) -> bool:
    """Return whether the pod's member may be one of a majority that only the operator misses."""
    view = situation.view(pod)
    says = isinstance(view, MemberProblem) and bool(view.node_state)
    return not says and not has_no_process(pod)


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    now = situation.now
    if operation.step == Step.GIVE_UP:
        return finish(operation, OperationOutcome.FAILED, now, operation.last_error)
    if operation.step == Step.AWAIT_READY:
        return _await_ready(situation, operation)
    pod = situation.pod(operation.target, operation.target_uid)
    if pod is None:
        text = f"pod {operation.target} was replaced before it answered: look whether its data is "
        text += "what you expect, and ask again under another request id if it still waits"
        return finish(operation, OperationOutcome.FAILED, now, text)
    return _call(situation, operation, pod)


def _await_ready(situation: Situation, operation: OperationStatus) -> Move:
    problems = "; ".join(situation.member_problems(besides=situation.to_be_mended()))
    if not problems:
        return finish(operation, OperationOutcome.SUCCEEDED, situation.now)
    if is_over(operation, READY_LIMIT_S, situation.now):
        text = f"told, and not ready since: {problems}"
        return finish(operation, OperationOutcome.FAILED, situation.now, text)
    return wait(operation, problems, step_end(operation, READY_LIMIT_S))


def _joined(situation: Situation, operation: OperationStatus, pod: KubeObject) -> Move:
    """Return the move for a target that has joined: the call did that, or others who came.

    Only it knows. Told again under the key it answers what became of the call, and carries out
    nothing: it waits for nobody any more.
    """
    if operation.attempts == 0:
        text = f"{operation.target} has joined by itself: nothing was given up"
        return finish(operation, OperationOutcome.FAILED, situation.now, text)
    if is_over(operation, ANSWER_LIMIT_S, situation.now):
        text = f"{operation.target} has joined, and does not say what became of the call: "
        text += operation.last_error or "no answer"
        return finish(operation, OperationOutcome.FAILED, situation.now, text)
    return attempt(situation, operation, pod, _ENDPOINTS[operation.kind])


def _call(situation: Situation, operation: OperationStatus, pod: KubeObject) -> Move:
    now = situation.now
    view = situation.view(pod)
    if isinstance(view, MemberView):
        return _joined(situation, operation, pod)
    serves = serving(situation)
    if serves is not None and operation.attempts == 0:
        return finish(operation, OperationOutcome.FAILED, now, serves)
    hindrance = serves or _silent(situation, operation.target)
    waits = view is not None and view.node_state == STARTING
    if is_over(operation, LIMIT_S, now) and (operation.attempts > 0 or hindrance or not waits):
        reason = hindrance or operation.last_error or situation.no_member_text()
        return finish(operation, OperationOutcome.FAILED, now, reason)
    if hindrance is not None:
        # Also before it is told again: others may have begun to serve meanwhile.
        return wait(operation, hindrance, step_end(operation, LIMIT_S))
    if not waits:
        text = f"{operation.target} {situation.member_problem(pod)}"
        return wait(operation, text, step_end(operation, LIMIT_S))
    return attempt(situation, operation, pod, _ENDPOINTS[operation.kind])
