"""The conditions that are there only while a cluster is not what its spec asks for.

Tools that wait by convention (kstatus: Helm, Flux) go on while `Reconciling` is True, give up when
`Stalled` is True, and otherwise go by `Ready`. At most one of the two is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import (
    ConfigValidReason,
    ProgressingReason,
    StalledReason,
)
from grid_operator.api.phase import is_restoring
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.conditions.verdicts import TRUE, progressing, restore_failure
from grid_operator.decide.pods import pod_name
from grid_operator.decide.roll import is_parked

if TYPE_CHECKING:
    from grid_operator.decide.conditions.verdicts import Verdict
    from grid_operator.decide.plan import Plan

OTHERS_MAY_HELP: Final = frozenset(
    {ConfigValidReason.SECRET_MISSING, ConfigValidReason.INVALID_SECRET}
)
"""Problems of a spec that go away without a change of it: controllers write Secrets, too."""
_FAILED_STARTS: Final = {
    OperationKind.PARTIAL_START: StalledReason.PARTIAL_START_FAILED,
    OperationKind.FORCE_START: StalledReason.FORCE_START_FAILED,
}


def stalled(plan: Plan) -> Verdict | None:
    """Return what only a person can help about, None when nothing is."""
    if plan.situation.deleted:
        return None
    problem = plan.problem
    if problem is not None:
        others = problem.reason in OTHERS_MAY_HELP
        return None if others else (TRUE, problem.reason, problem.message)
    if plan.situation.spec.paused:
        held = _held_back(plan)
        text = f"spec.paused is true, and holds back: {held}"
        return (TRUE, StalledReason.PAUSED, text) if held else None
    return _failed_operation(plan)


def reconciling(plan: Plan) -> Verdict | None:
    """Return what the operator is at or waits for, None when that is nothing."""
    if stalled(plan) is not None:
        return None
    status, reason, text = progressing(plan)
    if status is TRUE:
        return TRUE, reason, text
    if plan.problem is not None:
        return TRUE, plan.problem.reason, plan.problem.message
    held = _held_back(plan) if plan.situation.paused else ""
    return (TRUE, ProgressingReason.PAUSED, f"{text}; held back: {held}") if held else None


def _held_back(plan: Plan) -> str:
    """Return what a pause keeps from being done, empty when that is nothing."""
    situation, status = plan.situation, plan.progress.status
    spec = situation.spec
    parts = list(plan.pending)
    if status.operation is not None:
        parts.append(status.operation.kind.value)
    parked = (pod_name(pod) for pod in situation.pods if is_parked(situation.observed, pod))
    restarts = dict.fromkeys((*situation.roll.outdated, *parked))
    if restarts:
        parts.append(f"the restart of {', '.join(restarts)}")
    if situation.stop_wanted != bool(status.stopped):
        parts.append(f"spec.runState {spec.run_state.value}")
    state = spec.cluster_state
    if state is not None and status.applied_cluster_state != state.value:
        parts.append(f"spec.clusterState {state.value}")
    cluster = situation.cluster.model_copy(update={"status": status})
    if is_restoring(cluster):
        parts.append("spec.restoreFrom")
    return ", ".join(parts)


def _failed_operation(plan: Plan) -> Verdict | None:
    situation, status = plan.situation, plan.progress.status
    cluster = situation.cluster.model_copy(update={"status": status})
    if is_restoring(cluster):
        failure = restore_failure(status)
        return None if failure is None else (TRUE, StalledReason.RESTORE_FAILED, failure)
    newest = next((found for found in status.last_operations if found.kind in _FAILED_STARTS), None)
    waits = situation.waiting_for_data()
    if status.operation is not None or newest is None or waits is None:
        return None
    if newest.outcome is not OperationOutcome.FAILED:
        return None
    return TRUE, _FAILED_STARTS[newest.kind], f"{newest.target}: {newest.message}"
