"""ApplyLive: a running member is given what it can take without a restart.

    Upload ──▶ LogLevel ──▶ License ──▶ Finish ──▶ finished

A step without content is left out. The member's status then holds the digest of what it took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.model import MemberView
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

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

LIMIT_S: Final = 120.0
"""For each call."""
_ENDPOINTS: Final = {
    Step.UPLOAD: Endpoint.CONFIG_UPLOAD,
    Step.LOG_LEVEL: Endpoint.LOG_LEVEL,
    Step.LICENSE: Endpoint.LICENSE,
}
"""In the order in which they are told."""


def wanted(situation: Situation) -> OperationStatus | None:
    """Return the operation for the first member that lacks something."""
    digest = situation.desired.live.digest
    if not digest:
        return None
    taken = {m.pod: (m.uuid, m.live_digest) for m in situation.status.members}
    for pod, view in situation.joined():
        if taken.get(pod_name(pod)) == (view.uuid, digest):
            continue
        return begin(
            situation,
            OperationKind.APPLY_LIVE,
            _step_with_content(situation, Step.UPLOAD),
            target=pod_name(pod),
            target_uid=pod["metadata"]["uid"],
            digest=digest,
        )
    return None


def lacking_replications(situation: Situation, operation: OperationStatus) -> tuple[str, ...]:
    """Return the replications that the target does not show and the maps it is given refer to.

    A member has a replication when it shows a publisher of it, and refuses such maps before.
    """
    pod = situation.pod(operation.target, operation.target_uid)
    view = situation.view(pod) if pod is not None else None
    shown = (view.wan or ()) if isinstance(view, MemberView) else ()
    known = {publisher.replication for publisher in shown}
    return tuple(name for name in situation.desired.live.replications if name not in known)


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    now = situation.now
    pod = situation.pod(operation.target, operation.target_uid)
    if pod is None:
        text = f"pod {operation.target} was replaced meanwhile"
        return finish(operation, OperationOutcome.INTERRUPTED, now, text)
    if situation.desired.live.digest != operation.digest:
        text = "the spec was changed meanwhile"
        return finish(operation, OperationOutcome.INTERRUPTED, now, text)
    if operation.step == Step.GIVE_UP:
        return finish(operation, OperationOutcome.FAILED, now, operation.last_error)
    found = _step_with_content(situation, Step(operation.step))
    if found is Step.FINISH:
        return _finished(situation, operation, pod)
    if found != operation.step:
        return advance(operation, found, now)
    return _tell(situation, operation, pod, _contents(situation)[found])


def _finished(situation: Situation, operation: OperationStatus, pod: KubeObject) -> Move:
    """Return the end, with the digest in the status of the member that was told."""
    view = situation.view(pod)
    uuid = view.uuid if isinstance(view, MemberView) else ""
    known = {m.pod: m for m in situation.status.members if m.uuid == uuid and uuid}
    if operation.target not in known:
        text = f"{operation.target} was started anew meanwhile"
        return finish(operation, OperationOutcome.INTERRUPTED, situation.now, text)
    members = tuple(
        m.model_copy(update={"live_digest": operation.digest}) if m.pod == operation.target else m
        for m in situation.status.members
    )
    return finish(operation, OperationOutcome.SUCCEEDED, situation.now, members=members)


def _tell(situation: Situation, operation: OperationStatus, pod: KubeObject, content: str) -> Move:
    joined = isinstance(situation.view(pod), MemberView)
    over = is_over(operation, LIMIT_S, situation.now)
    if over and (operation.attempts > 0 or not joined):
        reason = operation.last_error or situation.no_member_text()
        return finish(operation, OperationOutcome.FAILED, situation.now, reason)
    if not joined:
        text = f"{operation.target} cannot be told: {situation.member_problem(pod)}"
        return wait(operation, text, step_end(operation, LIMIT_S))
    return attempt(situation, operation, pod, _ENDPOINTS[Step(operation.step)], content)


def _contents(situation: Situation) -> dict[Step, str]:
    live = situation.desired.live
    return {
        Step.UPLOAD: live.structures,
        Step.LOG_LEVEL: live.log_level,
        Step.LICENSE: live.license,
    }


def _step_with_content(situation: Situation, first: Step) -> Step:
    """Return the step itself or the next one that has anything to tell."""
    contents = _contents(situation)
    steps = list(contents)
    if first not in steps:
        return first
    return next((s for s in steps[steps.index(first) :] if contents[s]), Step.FINISH)
