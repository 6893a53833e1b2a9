"""The conditions about what members hold and show: cluster state, structures, backups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import (
    ChildrenReason,
    ClusterStateReason,
    ConditionType,
    DefinitionReason,
    StructuresReason,
    find_condition,
)
from grid_operator.api.lifecycle import DriftPolicy
from grid_operator.api.status import OperationKind, OperationOutcome
from grid_operator.decide.annotation_requests import APPLY_DEFINITION, OLD_DEFINITION
from grid_operator.decide.children.admission import admitted_text
from grid_operator.decide.conditions.verdicts import CONDITION_UNKNOWN, FALSE, TRUE, Verdict
from grid_operator.decide.operations.change_state import member_word
from grid_operator.decide.patterns import Patterns
from grid_operator.decide.pods import pod_name
from grid_operator.decide.situation import IN_TRANSITION
from grid_operator.decide.words import camel_case

if TYPE_CHECKING:
    from grid_operator.api.status import FinishedOperation
    from grid_operator.decide.plan import Plan
    from grid_operator.decide.situation import Situation

MAX_NAMES: Final = 10
"""Structures that a message names."""
_CHANGES_STATE: Final = frozenset({OperationKind.STOP, OperationKind.START})
"""While one of these is under way, another state is the operator's own doing."""


def cluster_state(plan: Plan) -> Verdict | None:
    """Return whether the members are in `spec.clusterState`, None when it is not set."""
    situation = plan.situation
    state = situation.spec.cluster_state
    if state is None:
        return None
    joined = situation.joined()
    if not joined:
        return CONDITION_UNKNOWN, ClusterStateReason.NO_MEMBERS, _nobody(situation)
    others = [
        f"{pod_name(pod)} shows {camel_case(view.cluster_state)}"
        for pod, view in joined
        if view.cluster_state != member_word(state)
    ]
    if not others:
        return TRUE, ClusterStateReason.AS_DESIRED, ""
    text = f"spec.clusterState is {state.value}; {'; '.join(others)}"
    operation = plan.progress.status.operation
    if operation is not None and operation.kind in _CHANGES_STATE:
        text = f"{text}, while {operation.kind.value} is under way"
        return FALSE, ClusterStateReason.CHANGING, text
    is_new = plan.progress.status.applied_cluster_state != state.value
    policy = situation.spec.cluster_state_drift_policy
    if is_new or policy is DriftPolicy.CORRECT or IN_TRANSITION in situation.states():
        return FALSE, ClusterStateReason.CHANGING, text
    if policy is DriftPolicy.ADOPT:
        return TRUE, ClusterStateReason.ADOPTED, text
    return FALSE, ClusterStateReason.DRIFTED, text


def structures_match(plan: Plan) -> Verdict:
    """Return whether all that holds entries is in the spec."""
    situation = plan.situation
    joined = situation.joined()
    if not joined:
        return CONDITION_UNKNOWN, StructuresReason.NO_MEMBERS, _nobody(situation)
    spec = situation.spec
    maps, queues = Patterns(m.name for m in spec.maps), Patterns(q.name for q in spec.queues)
    retained = sorted(
        {
            (used.kind, used.name)
            for _, view in joined
            for used in view.structures
            if used.entries > 0 and not (maps if used.kind == "map" else queues).match(used.name)
        }
    )
    if not retained:
        return TRUE, StructuresReason.MATCHED, ""
    named = ", ".join(f"{kind} {name}" for kind, name in retained[:MAX_NAMES])
    more = f" and {len(retained) - MAX_NAMES} more" if len(retained) > MAX_NAMES else ""
    text = f"not in spec.maps or spec.queues, and kept with their entries: {named}{more}"
    return FALSE, StructuresReason.RETAINED, text


def children_match(plan: Plan) -> Verdict:
    """Return whether the live children are what the operator applied."""
    contested = sorted(f"{ref.kind} {ref.name}" for ref in plan.situation.observed.contested)
    texts = []
    if contested:
        texts.append(f"changed or deleted by somebody else again and again: {', '.join(contested)}")
    if plan.admitted:
        text = admitted_text(plan.admitted)
        texts.append(f"the API server keeps fields otherwise than they were applied: {text}")
    if not texts:
        return TRUE, ChildrenReason.MATCHED, ""
    reason = ChildrenReason.CONTESTED if contested else ChildrenReason.ADMITTED
    return FALSE, reason, "; ".join(texts)


def definition_matches(plan: Plan) -> Verdict | None:
    """Return whether the API server keeps the whole status; None when it does."""
    dropped = plan.situation.observed.dropped
    if dropped is None:
        before = plan.situation.status.conditions
        known = find_condition(before, ConditionType.DEFINITION_MATCHES)
        return None if known is None else (known.status, DefinitionReason.OUTDATED, known.message)
    if not dropped:
        return None
    text = f"the API server drops {', '.join(dropped)}: {OLD_DEFINITION}; {APPLY_DEFINITION}"
    return FALSE, DefinitionReason.OUTDATED, text


def backup_succeeded(plan: Plan) -> Verdict | None:
    """Return how the last backup ended, None before the first."""
    finished = plan.progress.move.finished
    if finished is not None and finished.kind is OperationKind.BACKUP:
        return _backup_verdict(finished)
    before = plan.situation.status.conditions
    known = find_condition(before, ConditionType.BACKUP_SUCCEEDED)
    if known is None:
        return None
    reasons = {outcome.value: outcome for outcome in OperationOutcome}
    return known.status, reasons.get(known.reason, OperationOutcome.FAILED), known.message


def _backup_verdict(finished: FinishedOperation) -> Verdict:
    scheduled = ":" in finished.request  # no request id has one
    cause = "spec.persistence.backup.schedule" if scheduled else "gridcluster.io/backup"
    if finished.outcome is OperationOutcome.SUCCEEDED:
        return TRUE, finished.outcome, f"{cause} {finished.request}: ended {finished.finished}"
    return FALSE, finished.outcome, f"{cause} {finished.request}: {finished.message}"


def _nobody(situation: Situation) -> str:
    if situation.stop_wanted:
        return "there are no members: spec.runState is Stopped"
    names = ", ".join(situation.wanted_pods())
    return f"{names}: no member answers" if not situation.pods else situation.no_member_text()
