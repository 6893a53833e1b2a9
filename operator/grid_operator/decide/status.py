"""The status that tells what was observed and what is being done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.conditions import ConditionType, make_condition
from grid_operator.api.names import selector_labels
from grid_operator.api.status import (
    GridClusterStatus,
    MemberStatus,
)
from grid_operator.decide.conditions import abnormal, aspects, verdicts
from grid_operator.decide.model import MemberView
from grid_operator.decide.pods import is_ready, pod_name
from grid_operator.decide.words import agreed, camel_case

if TYPE_CHECKING:
    from datetime import datetime

    from grid_operator.api.conditions import Condition
    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.plan import Plan


def make_status(plan: Plan, now: datetime) -> GridClusterStatus:
    """Return the status; equal to the previous one when nothing changed."""
    situation = plan.situation
    pods = situation.pods
    views = [view for view in situation.observed.members.values() if isinstance(view, MemberView)]
    labels = selector_labels(situation.cluster.metadata.name)
    return plan.progress.status.model_copy(
        update={
            "observed_generation": situation.cluster.metadata.generation,
            "observed_uid": situation.cluster.metadata.uid,
            "conditions": _conditions(plan, now),
            "size": len(pods),
            "ready_members": sum(situation.member_problem(pod) is None for pod in pods),
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
            "cluster_state": camel_case(agreed({v.cluster_state for v in views})),
            "cluster_version": agreed({v.cluster_version for v in views} - {"0.0"}),
            "members": tuple(_member_status(pod, plan) for pod in pods),
            "members_tls": situation.desired.members_tls,
            "admitted": plan.admitted or None,
        }
    )


def _conditions(plan: Plan, now: datetime) -> tuple[Condition, ...]:
    judged = (
        (ConditionType.READY, verdicts.ready(plan)),
        (ConditionType.PROGRESSING, verdicts.progressing(plan)),
        (ConditionType.CONFIG_VALID, verdicts.config_valid(plan)),
        (ConditionType.SAFE_TO_DISRUPT, verdicts.safe_to_disrupt(plan)),
        (ConditionType.STOPPED, verdicts.stopped(plan)),
        (ConditionType.CLUSTER_STATE_AS_DESIRED, aspects.cluster_state(plan)),
        (ConditionType.STRUCTURES_MATCH, aspects.structures_match(plan)),
        (ConditionType.CHILDREN_MATCH, aspects.children_match(plan)),
        (ConditionType.DEFINITION_MATCHES, aspects.definition_matches(plan)),
        (ConditionType.REQUESTS_VALID, verdicts.requests_valid(plan)),
        (ConditionType.BACKUP_SUCCEEDED, aspects.backup_succeeded(plan)),
        (ConditionType.RESTORED, verdicts.restored(plan)),
        (ConditionType.RECONCILING, abnormal.reconciling(plan)),
        (ConditionType.STALLED, abnormal.stalled(plan)),
    )
    before = plan.situation.status.conditions
    generation = plan.situation.cluster.metadata.generation
    return tuple(
        make_condition(before, kind, *verdict, generation, now)
        for kind, verdict in judged
        if verdict is not None
    )


def _member_status(pod: KubeObject, plan: Plan) -> MemberStatus:
    situation = plan.situation
    name = pod_name(pod)
    view = situation.view(pod)
    known = (m for m in plan.progress.status.members if m.pod == name)
    before = next(known, MemberStatus(pod=name))
    if not isinstance(view, MemberView):
        # Who it was, and what it was given, holds until somebody else answers there.
        return MemberStatus(pod=name, uuid=before.uuid, live_digest=before.live_digest)
    same = before.uuid == view.uuid
    return MemberStatus(
        pod=name,
        address=view.address,
        uuid=view.uuid,
        version=view.version,
        node_state=camel_case(view.node_state),
        ready=view.ready and is_ready(pod),
        live_digest=before.live_digest if same and situation.desired.live.digest else "",
    )
