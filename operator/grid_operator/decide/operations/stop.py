"""Stop and ShutDown: members are told to write everything down before their pods go.

    Stop:      Passive ──▶ Shutdown ──▶ ScaleDown ──▶ finished, when no pod is left, or
                 only such as do not go although they should, and the members are wanted again
    ShutDown:  Passive ──▶ Shutdown ──▶ Finish ──▶ the finalizer goes

A member that cannot be told is stopped by the end of its pod, which is as gentle, only that the
other members do not know of it before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.lifecycle import ClusterState
from grid_operator.api.names import SHUTDOWN_FINALIZER
from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.calls import Endpoint
from grid_operator.decide.children.departure import is_overdue
from grid_operator.decide.operations.journal import Move, advance, begin, finish, tell, wait
from grid_operator.decide.pods import pod_name
from grid_operator.decide.situation import IN_TRANSITION, PASSIVE, since
from grid_operator.decide.words import camel_case

if TYPE_CHECKING:
    from grid_operator.api.status import OperationStatus
    from grid_operator.decide.situation import Situation

_STATES: Final = frozenset(state.value for state in ClusterState)
TELL_LIMIT_S: Final = 120.0
"""For each call of a stop."""
SHUT_DOWN_LIMIT_S: Final = 60.0
"""For all of the work that a deletion waits for."""
PASSIVE_LIMIT_S: Final = 20.0
"""For the first part of it."""


def wanted(situation: Situation) -> OperationStatus | None:
    """Return the stop that the spec asks for."""
    if not situation.stop_wanted or situation.status.stopped:
        return None
    return begin(situation, OperationKind.STOP, Step.PASSIVE)


def step(situation: Situation, operation: OperationStatus) -> Move:
    """Return the next move of a stop."""
    if operation.step == Step.SCALE_DOWN:
        return _scale_down(situation, operation)
    if not situation.joined() and not situation.ready_pods():
        # Nobody is there who could be told, or the members are parked already.
        return advance(operation, Step.SCALE_DOWN, situation.now)
    recorded = _with_state_before(situation, operation)
    if recorded is not None:
        return recorded
    if operation.step == Step.PASSIVE:
        if situation.states() == {PASSIVE}:
            return advance(operation, Step.SHUTDOWN, situation.now)
        move = tell(situation, operation, Endpoint.CHANGE_STATE, "passive", TELL_LIMIT_S)
    else:
        move = tell(situation, operation, Endpoint.CLUSTER_SHUTDOWN, None, TELL_LIMIT_S)
    if move is not None:
        return move
    reason = operation.last_error or situation.no_member_text()
    return advance(operation, Step.SCALE_DOWN, situation.now, last_error=reason)


def _with_state_before(situation: Situation, operation: OperationStatus) -> Move | None:
    """Return the move that writes down which state to resume, before the first call changes it."""
    states = situation.states() - {IN_TRANSITION}
    known = situation.status.resume_state or operation.target
    if known or len(states) != 1 or operation.step != Step.PASSIVE or operation.attempts:
        return None
    state = camel_case(next(iter(states)))
    if state not in _STATES:
        return None  # no member could be brought back into it
    entry = operation.model_copy(update={"target": state})
    return Move(entry, changes={"resume_state": state}, until=situation.now)


def _scale_down(situation: Situation, operation: OperationStatus) -> Move:
    # Wanted again: nobody waits for a node that may never answer. A StatefulSet makes no second pod
    # of a name before the first is gone, so its data has one member at any time.
    waits_for_all = situation.stop_wanted
    pods = [p for p in situation.pods if waits_for_all or not is_overdue(p, situation.now)]
    if pods:
        there = "; ".join(f"{pod_name(p)} {situation.presence(p)}" for p in pods)
        return wait(operation, f"until the pods are gone: {there}")
    statefulset = situation.statefulset
    if statefulset is not None:
        meta, status = statefulset["metadata"], statefulset.get("status", {})
        seen = status.get("observedGeneration", 0) >= meta.get("generation", 0)
        if statefulset["spec"].get("replicas") != 0 or not seen:
            text = f"until the StatefulSet controller has seen that {meta['name']} has no replicas"
            return wait(operation, text)
    told = f"stopped by the end of its pod: {operation.last_error}" if operation.last_error else ""
    return finish(operation, OperationOutcome.SUCCEEDED, situation.now, told, stopped=True)


def deletion_move(situation: Situation, operation: OperationStatus | None) -> Move:
    """Return what is done about a GridCluster that is being deleted."""
    if operation is not None and operation.kind is not OperationKind.SHUT_DOWN:
        text = "the GridCluster is being deleted"
        return finish(operation, OperationOutcome.INTERRUPTED, situation.now, text)
    obstacle = _no_shutdown(situation)
    if operation is None:
        if not situation.held or obstacle:
            return Move(None, waiting=obstacle, release=situation.held)
        done = any(f.kind is OperationKind.SHUT_DOWN for f in situation.status.last_operations)
        if done:
            return Move(None, release=True)
        return Move(begin(situation, OperationKind.SHUT_DOWN, Step.PASSIVE), until=situation.now)
    return _shut_down(situation, operation, obstacle)


def _shut_down(situation: Situation, operation: OperationStatus, obstacle: str) -> Move:
    now = situation.now
    # A member that was told to shut down and answers no more does what it was told.
    if operation.step == Step.FINISH or (operation.step == Step.SHUTDOWN and obstacle):
        return finish(operation, OperationOutcome.SUCCEEDED, now)
    left_s = SHUT_DOWN_LIMIT_S - since(operation.started, now).total_seconds()
    if obstacle or (left_s <= 0 and operation.attempts > 0):
        reason = obstacle or operation.last_error or "its time is over"
        return finish(operation, OperationOutcome.FAILED, now, reason)
    if operation.step == Step.SHUTDOWN:
        move = tell(situation, operation, Endpoint.CLUSTER_SHUTDOWN, None, SHUT_DOWN_LIMIT_S)
    elif situation.states() == {PASSIVE}:
        move = None
    else:
        move = tell(situation, operation, Endpoint.CHANGE_STATE, "passive", PASSIVE_LIMIT_S)
    # The shutdown makes the cluster passive as well, should it not be that yet.
    return move or advance(operation, Step.SHUTDOWN, now)


def _no_shutdown(situation: Situation) -> str:
    """Return why members are not told to stop, empty when they are."""
    if situation.paused:
        return "spec.paused: the members are not told"
    if situation.observed.namespace_terminating:
        return "the namespace is being deleted"
    if not situation.joined():
        return f"no member can be told: {situation.no_member_text()}"
    return ""


def finalizers(situation: Situation, *, release: bool) -> tuple[str, ...] | None:
    """Return what the GridCluster's finalizers should be, None when they are that."""
    present = situation.cluster.metadata.finalizers
    if release or (situation.held and not situation.observed.may_hold and not situation.deleted):
        return tuple(name for name in present if name != SHUTDOWN_FINALIZER)
    missing = situation.observed.may_hold and not situation.held
    if missing and not situation.deleted and not situation.paused:
        return (*present, SHUTDOWN_FINALIZER)
    return None
