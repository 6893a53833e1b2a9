"""Start: pods again, and the cluster state from before the stop.

    ScaleUp ──▶ AwaitReady ──▶ Resume ──▶ Finish ──▶ finished

It has no deadline: it waits, and says for whom. Of several, those whose first start the stop came
before are not waited for: the others do not miss them, and they join when the cluster is active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.children.departure import is_overdue
from grid_operator.decide.operations.change_state import member_word
from grid_operator.decide.operations.journal import (
    Move,
    advance,
    attempt,
    begin,
    finish,
    wait,
)
from grid_operator.decide.pods import pod_name
from grid_operator.decide.strangers import is_missed

if TYPE_CHECKING:
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation


def wanted(situation: Situation) -> Move | None:
    """Return the start that the spec asks for, also of what an interrupted one left undone."""
    status = situation.status
    if situation.stop_wanted or not (status.stopped or status.resume_state):
        return None
    target = status.resume_state or ""
    entry = begin(situation, OperationKind.START, Step.SCALE_UP, target=target)
    return Move(entry, changes={"stopped": False}, until=situation.now)


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    now = situation.now
    if operation.step == Step.SCALE_UP:
        return _scale_up(situation, operation)
    if operation.step == Step.AWAIT_READY:
        problems = situation.member_problems(besides=_not_awaited(situation))
        if problems:
            return wait(operation, "; ".join(problems))
        return advance(operation, Step.RESUME, now)
    states = situation.states()
    there = not operation.target or states == {member_word(operation.target)}
    if operation.step == Step.FINISH or there:
        return finish(operation, OperationOutcome.SUCCEEDED, now, resume_state=None)
    joined = situation.joined()
    if not joined:
        return wait(operation, f"no member can be told: {situation.no_member_text()}")
    word = member_word(operation.target).lower()
    return attempt(situation, operation, joined[0][0], Endpoint.CHANGE_STATE, word)


def _not_awaited(situation: Situation) -> frozenset[str]:
    return _new(situation) | _dead(situation) | situation.to_be_mended()


def _new(situation: Situation) -> frozenset[str]:
    """Return the members that never joined: they cannot before the cluster is active again."""
    return frozenset(
        name for name in situation.wanted_pods() if not is_missed(situation.observed, name)
    )


def _dead(situation: Situation) -> frozenset[str]:
    """Return the members whose pods are on nodes that do not answer, if others serve without them.

    The cluster would stay passive until somebody deletes those pods by force.
    """
    overdue = (pod_name(pod) for pod in situation.pods if is_overdue(pod, situation.now))
    return frozenset(overdue) if situation.ready_pods() else frozenset()


def _scale_up(situation: Situation, operation: OperationStatus) -> Move:
    statefulset = situation.statefulset
    size = situation.desired.size
    if statefulset is not None and statefulset["spec"].get("replicas") == size:
        return advance(operation, Step.AWAIT_READY, situation.now)
    return wait(operation, f"until the StatefulSet has {size} replicas")
