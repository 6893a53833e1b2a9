"""Shrink: the member with the highest ordinal leaves for good, and then its pod goes.

    Leave ──▶ AwaitLeft ──▶ RemovePod ──▶ finished; the next one begins anew

Nobody but the member itself moves what it holds and says when it is off. A pod that no member
misses, because its own never joined or has left, is taken away at once. At RemovePod rendering
makes the StatefulSet one smaller, and its controller deletes the volume claim with the pod.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import data_claim_name, statefulset_name
from grid_operator.api.phase import Step, last_ordinal
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.children.departure import former, is_overdue, node_name
from grid_operator.decide.operations.journal import Move, advance, attempt, begin, finish, wait
from grid_operator.decide.pods import has_no_process, pod_name, ready_changed
from grid_operator.decide.roll import disruption_obstacle, gate_obstacle, is_parked
from grid_operator.decide.situation import IN_TRANSITION, since
from grid_operator.decide.strangers import is_missed

if TYPE_CHECKING:
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.model import MemberOperation, Observed
    from grid_operator.decide.situation import Situation

ACTIVE: Final = "ACTIVE"
"""The one cluster state in which members move copies."""
FAILED: Final = "FAILED"
FINISHED: Final = "FINISHED"
SETTLED_S: Final = 60.0
"""After which a member that does not serve any more, and has not left, does not leave."""


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
    found = disruption_obstacle(replace(observed, claims=others)) or _other_state(situation)
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


def kept_pods(observed: Observed) -> frozenset[str]:
    """Return the names of pods that are to go, and must not be made anew meanwhile.

    Who has left is parked, and nobody of its name may start on what it had. Who was not told and is
    missed is made anew like all others: it can only leave when it runs.
    """
    cluster = observed.cluster
    above = {n for n in map(pod_name, observed.pods) if last_ordinal(n) >= cluster.spec.size}
    kept = {name for name in above if not is_missed(observed, name)}
    operation = cluster.status.operation
    leaves = operation is not None and operation.kind is OperationKind.SHRINK
    if leaves and operation is not None and _was_told(operation):
        kept.add(operation.target)
    return frozenset(kept)


def _was_told(operation: OperationStatus) -> bool:
    """Return whether the member may have been told to leave, or need not be."""
    told = operation.attempts > 0 or bool(operation.member_operation)
    return told or operation.step != Step.LEAVE


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
    stopped = _stopped(situation, operation)
    if stopped:
        return finish(operation, OperationOutcome.FAILED, situation.now, stopped)
    if operation.step == Step.AWAIT_LEFT:
        return _await_left(situation, operation)
    return _leave(situation, operation)


def _leave(situation: Situation, operation: OperationStatus) -> Move:
    is_wanted = last_ordinal(operation.target) < situation.spec.size
    if is_wanted and not _was_told(operation):
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


def _stopped(situation: Situation, operation: OperationStatus) -> str:
    """Return that the member has stopped otherwise than by leaving, empty when it may have left."""
    pod = situation.pod(operation.target)
    if pod is None or not _was_told(operation) or not situation.joined():
        return ""
    parked = is_parked(situation.observed, pod)
    if not parked and not has_no_process(pod):
        return ""
    found = _told(situation, operation)
    stage = "" if found is None else found.stage
    # Nobody answers at the same moment: how far it is may be what another one saw before.
    settled = since(ready_changed(pod), situation.now) >= timedelta(seconds=SETTLED_S)
    if stage == FINISHED or not (stage == FAILED or settled):
        return ""
    how = "is parked and did not leave; its pod will be replaced"
    return f"{operation.target} {how if parked else 'does not run and did not leave'}"


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
    if pod is not None and situation.stop_wanted and is_overdue(pod, situation.now):
        # The stop must not wait for a node that may never answer. With the end of this step claims
        # are kept again, this one as well.
        name = data_claim_name(situation.cluster.metadata.name, last_ordinal(operation.target))
        text = f"pod {operation.target} is still on node {node_name(pod)}; delete claim {name} "
        text += "when it is gone, before size grows again"
        return finish(operation, OperationOutcome.SUCCEEDED, situation.now, text)
    if pod is not None:
        return wait(operation, f"until its pod is gone: it {situation.presence(pod)}")
    return _await_claim(situation, operation)


def _await_claim(situation: Situation, operation: OperationStatus) -> Move:
    name = data_claim_name(situation.cluster.metadata.name, last_ordinal(operation.target))
    claims = (claim for claim in situation.observed.claims)
    found = next((claim for claim in claims if claim["metadata"]["name"] == name), None)
    text = ""
    if found is not None:
        claim = found["metadata"]
        owners = claim.get("ownerReferences") or ()
        # The StatefulSet controller makes the pod that goes its owner, if there is one.
        goes = claim.get("deletionTimestamp") or any(owner["kind"] == "Pod" for owner in owners)
        if goes and not situation.stop_wanted:
            text = f"until claim {name} is gone, which Kubernetes deletes now{former(found)}"
            return wait(operation, text)
        text = f"Kubernetes has not deleted claim {name} yet: it must be gone before size grows"
        if not goes:
            text = (
                f"Kubernetes deletes a claim with its pod only, and saw none: delete claim {name}"
            )
    return finish(operation, OperationOutcome.SUCCEEDED, situation.now, text)


def _is_smaller(situation: Situation, operation: OperationStatus) -> bool:
    """Return whether the StatefulSet wants the pod no more."""
    found = situation.statefulset
    return found is not None and found["spec"].get("replicas", 0) <= last_ordinal(operation.target)


def _is_seen(situation: Situation) -> bool:
    found = situation.statefulset or {"metadata": {}}
    seen: int = found.get("status", {}).get("observedGeneration", 0)
    return seen >= int(found["metadata"].get("generation", 0))
