"""Shrink: the member with the highest ordinal leaves for good, and then its pod goes.

    Leave ──▶ AwaitLeft ──▶ RemovePod ──▶ finished; the next one begins anew

Nobody but the member itself moves what it holds and says when it is off. A pod that no member
misses, because its own never joined or has left, is taken away at once. At RemovePod rendering
makes the StatefulSet one smaller, and its controller deletes the volume claim with the pod.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import data_claim_name, statefulset_name
from grid_operator.api.phase import Step, last_ordinal
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.operations.journal import Move, advance, attempt, begin, finish, wait
from grid_operator.decide.pods import going, is_terminating
from grid_operator.decide.roll import gate_obstacle
from grid_operator.decide.situation import IN_TRANSITION
from grid_operator.decide.strangers import is_missed

if TYPE_CHECKING:
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.model import MemberOperation
    from grid_operator.decide.situation import Situation

ACTIVE: Final = "ACTIVE"
"""The one cluster state in which members move copies."""
FAILED: Final = "FAILED"


def wanted(situation: Situation) -> OperationStatus | None:
    """Return the way out of the last member, None when there are as many as the spec says."""
    if situation.desired.size <= situation.spec.size:
        return None
    name = f"{statefulset_name(situation.cluster.metadata.name)}-{situation.desired.size - 1}"
    step = Step.LEAVE if is_missed(situation.observed, name) else Step.REMOVE_POD
    return begin(situation, OperationKind.SHRINK, step, target=name)


def obstacle(situation: Situation, operation: OperationStatus) -> str | None:
    """Return why the member cannot be told to leave now, None when it can, or need not be."""
    if operation.step == Step.REMOVE_POD:
        return None
    observed = situation.observed
    # What is on its own volume goes anyway.
    own = data_claim_name(situation.cluster.metadata.name, last_ordinal(operation.target))
    others = tuple(claim for claim in observed.claims if claim["metadata"]["name"] != own)
    found = gate_obstacle(replace(observed, claims=others)) or _other_state(situation)
    if found is None and situation.pod(operation.target) is None:
        found = f"{operation.target} does not exist yet"
    return found


def is_held_up(situation: Situation) -> bool:
    """Return whether the pod must not go in this round, although the journal is at its end."""
    operation = situation.operation
    if operation is None or operation.kind is not OperationKind.SHRINK:
        return False
    removes = operation.step == Step.REMOVE_POD and not _is_smaller(situation, operation)
    return removes and is_missed(situation.observed, operation.target)


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move."""
    if operation.step == Step.REMOVE_POD:
        return _remove(situation, operation)
    if not is_missed(situation.observed, operation.target):
        return advance(operation, Step.REMOVE_POD, situation.now)
    changed = _other_state(situation)
    if changed is not None:
        # Whoever wants it active again must not wait for this.
        return finish(operation, OperationOutcome.INTERRUPTED, situation.now, changed)
    if operation.step == Step.AWAIT_LEFT:
        return _await_left(situation, operation)
    return _leave(situation, operation)


def _leave(situation: Situation, operation: OperationStatus) -> Move:
    if operation.attempts == 0 and last_ordinal(operation.target) < situation.spec.size:
        text = f"spec.size is {situation.spec.size} again: {operation.target} stays"
        return finish(operation, OperationOutcome.INTERRUPTED, situation.now, text)
    pod = situation.pod(operation.target)
    # An attempt of which nothing is known may have reached the member: it is repeated as it is.
    safe_first = operation.attempts == 0 or bool(operation.last_error)
    why = obstacle(situation, operation) if safe_first else None
    if pod is None or why is not None:
        return wait(operation, f"until it is safe: {why or 'its pod is not there'}")
    return attempt(situation, operation, pod, Endpoint.MEMBER_SHUTDOWN, forever=True)


def _await_left(situation: Situation, operation: OperationStatus) -> Move:
    found = _told(situation, operation)
    if found is not None and found.stage == FAILED:
        text = f"{operation.target}: {found.error or 'it stays'}"
        return finish(operation, OperationOutcome.FAILED, situation.now, text)
    if found is None and gate_obstacle(situation.observed) is None:
        text = f"no member knows any more that {operation.target} leaves"
        return finish(operation, OperationOutcome.FAILED, situation.now, text)
    if found is None:
        return wait(operation, f"{operation.target} leaves: {situation.no_member_text()}")
    waits_for = f", and waits: {found.error}" if found.error else ""
    return wait(operation, f"{operation.target} says {found.stage}, {found.progress} %{waits_for}")


def _told(situation: Situation, operation: OperationStatus) -> MemberOperation | None:
    """Return how far the member is, as it says itself or, once it is gone, the others."""
    views = [view for _, view in reversed(situation.joined())]
    known = (found for view in views for found in view.operations)
    return next((found for found in known if found.id == operation.member_operation), None)


def _other_state(situation: Situation) -> str | None:
    others = situation.states() - {ACTIVE, IN_TRANSITION}
    if not others:
        return None
    shown = ", ".join(sorted(others))
    return f"the cluster state is {shown}: members leave only while it is Active"


def _remove(situation: Situation, operation: OperationStatus) -> Move:
    if not _is_smaller(situation, operation) and is_missed(situation.observed, operation.target):
        return advance(operation, Step.LEAVE, situation.now)
    if not _is_smaller(situation, operation) or not _is_seen(situation):
        text = f"until the StatefulSet controller has seen that {situation.desired.size} are enough"
        return wait(operation, text)
    pod = situation.pod(operation.target)
    if pod is not None:
        how = going(pod, situation.now) if is_terminating(pod) else "is still there"
        return wait(operation, f"until its pod is gone: it {how}")
    claim = data_claim_name(situation.cluster.metadata.name, last_ordinal(operation.target))
    if any(found["metadata"]["name"] == claim for found in situation.observed.claims):
        return wait(operation, f"until claim {claim} is gone, which Kubernetes deletes now")
    return finish(operation, OperationOutcome.SUCCEEDED, situation.now)


def _is_smaller(situation: Situation, operation: OperationStatus) -> bool:
    """Return whether the StatefulSet wants the pod no more."""
    found = situation.statefulset
    return found is not None and found["spec"].get("replicas", 0) <= last_ordinal(operation.target)


def _is_seen(situation: Situation) -> bool:
    found = situation.statefulset or {"metadata": {}}
    seen: int = found.get("status", {}).get("observedGeneration", 0)
    return seen >= int(found["metadata"].get("generation", 0))
