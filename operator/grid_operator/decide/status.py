"""The status that tells what was observed and what is being done about it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from grid_operator.api.conditions import (
    ConditionStatus,
    ConditionType,
    ConfigValidReason,
    ProgressingReason,
    ReadyReason,
    make_condition,
)
from grid_operator.api.gridcluster import GridClusterStatus, MemberStatus
from grid_operator.api.names import selector_labels, statefulset_name
from grid_operator.decide.model import MemberProblem, MemberView
from grid_operator.decide.pods import by_ordinal, is_ready, pod_name, pod_problem

if TYPE_CHECKING:
    from datetime import datetime

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import Observed
    from grid_operator.decide.plan import Plan

UNKNOWN: Final = "Unknown"

TRUE: Final = ConditionStatus.TRUE
FALSE: Final = ConditionStatus.FALSE

Verdict: TypeAlias = tuple[ConditionStatus, StrEnum, str]
"""Status, reason and message of one condition."""


def make_status(observed: Observed, plan: Plan, now: datetime) -> GridClusterStatus:
    """Return the status; equal to the previous one when nothing changed."""
    cluster = observed.cluster
    pods = by_ordinal(observed.pods)
    views = [v for v in observed.members.values() if isinstance(v, MemberView)]
    labels = selector_labels(cluster.metadata.name)
    verdicts: tuple[tuple[ConditionType, Verdict], ...] = (
        (ConditionType.READY, _ready(observed, plan)),
        (ConditionType.PROGRESSING, _progressing(observed, plan)),
        (ConditionType.CONFIG_VALID, _config_valid(plan)),
    )
    generation = cluster.metadata.generation
    return GridClusterStatus(
        observed_generation=generation,
        conditions=tuple(
            make_condition(
                cluster.status.conditions, kind, status, reason, message, generation, now
            )
            for kind, (status, reason, message) in verdicts
        ),
        size=len(pods),
        ready_members=sum(_member_problem(observed, pod) is None for pod in pods),
        selector=",".join(f"{key}={value}" for key, value in labels.items()),
        cluster_state=camel_case(_agreed({v.cluster_state for v in views})),
        cluster_version=_agreed({v.cluster_version for v in views} - {"0.0"}),
        members=tuple(_member_status(pod, observed) for pod in pods),
    )


def camel_case(state: str) -> str:
    """Return a member's state as the API writes it: `NO_MIGRATION` is `NoMigration`."""
    return state if state == UNKNOWN else "".join(w.capitalize() for w in state.split("_"))


def _ready(observed: Observed, plan: Plan) -> tuple[ConditionStatus, ReadyReason, str]:
    if observed.cluster.metadata.deletion_timestamp is not None:
        return FALSE, ReadyReason.DELETING, "the GridCluster is being deleted"
    if plan.problem is not None:
        text = "the spec cannot work, see ConfigValid; members keep what they run"
        return FALSE, ReadyReason.CONFIG_INVALID, text
    problems = _member_problems(observed)
    if problems:
        return FALSE, ReadyReason.MEMBERS_NOT_READY, "; ".join(problems)
    if plan.roll.outdated:
        text = f"running an older revision: {', '.join(plan.roll.outdated)}"
        return FALSE, ReadyReason.MEMBERS_OUTDATED, text
    size = observed.cluster.spec.size
    return TRUE, ReadyReason.ALL_MEMBERS_READY, f"{size} of {size} members are ready"


def _progressing(observed: Observed, plan: Plan) -> tuple[ConditionStatus, ProgressingReason, str]:
    cluster = observed.cluster
    if cluster.metadata.deletion_timestamp is not None:
        return TRUE, ProgressingReason.DELETING, "Kubernetes removes the children"
    if plan.problem is not None:
        return FALSE, ProgressingReason.BLOCKED, "nothing is applied, see ConfigValid"
    if cluster.spec.paused:
        return FALSE, ProgressingReason.PAUSED, _pause_text(plan)
    if plan.apply or plan.delete:
        return TRUE, ProgressingReason.APPLYING, ", ".join(plan.pending)
    if plan.roll.reason is not None:
        return TRUE, plan.roll.reason, plan.roll.waiting
    problems = _member_problems(observed)
    if problems:
        return TRUE, ProgressingReason.WAITING_FOR_MEMBERS, "; ".join(problems)
    return FALSE, ProgressingReason.UP_TO_DATE, "everything is as the spec says"


def _config_valid(plan: Plan) -> tuple[ConditionStatus, ConfigValidReason, str]:
    if plan.problem is not None:
        return FALSE, plan.problem.reason, plan.problem.message
    return TRUE, ConfigValidReason.VALID, ""


def _pause_text(plan: Plan) -> str:
    if not plan.pending:
        return "spec.paused is true"
    return f"spec.paused is true; not applied: {', '.join(plan.pending)}"


def _member_problems(observed: Observed) -> list[str]:
    """Return a line per wanted member that cannot be used."""
    cluster = observed.cluster
    pods = {pod_name(pod): pod for pod in observed.pods}
    base = statefulset_name(cluster.metadata.name)
    problems = []
    for ordinal in range(cluster.spec.size):
        name = f"{base}-{ordinal}"
        problem = _member_problem(observed, pods[name]) if name in pods else "does not exist yet"
        if problem is not None:
            problems.append(f"{name} {problem}")
    return problems


def _member_problem(observed: Observed, pod: KubeObject) -> str | None:
    problem = pod_problem(pod)
    if problem is not None:
        return problem
    view = observed.members.get(pod_name(pod))
    if view is None:
        return "has no address yet"
    if isinstance(view, MemberProblem):
        return f"does not answer: {view.message}"
    return None if view.ready else f"says that it is not ready (node state {view.node_state})"


def _member_status(pod: KubeObject, observed: Observed) -> MemberStatus:
    view = observed.members.get(pod_name(pod))
    if not isinstance(view, MemberView):
        return MemberStatus(pod=pod_name(pod))
    return MemberStatus(
        pod=pod_name(pod),
        address=view.address,
        uuid=view.uuid,
        version=view.version,
        node_state=camel_case(view.node_state),
        ready=view.ready and is_ready(pod),
    )


def _agreed(values: set[str]) -> str:
    return values.pop() if len(values) == 1 else UNKNOWN
