"""Tells which pods do not run what the spec says, and which of them may be replaced now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grid_operator.api.conditions import ProgressingReason
from grid_operator.api.names import (
    DATA_VOLUME,
    management_secret_name,
    statefulset_name,
)
from grid_operator.decide.children.admission import unsettled
from grid_operator.decide.children.departure import going, is_terminating
from grid_operator.decide.model import STARTING, MemberProblem
from grid_operator.decide.pods import (
    by_ordinal,
    has_no_process,
    is_outdated,
    is_ready,
    is_unscheduled,
    pod_name,
    serves,
)
from grid_operator.decide.words import with_reason

if TYPE_CHECKING:
    from datetime import datetime

    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import GridClusterStatus
    from grid_operator.decide.model import Observed


@dataclass(frozen=True, slots=True)
class Roll:
    """Which pods are outdated, which of them may go now, and what is waited for otherwise."""

    outdated: tuple[str, ...] = ()
    """Names of pods that do not run what the spec says."""
    delete_pods: tuple[KubeObject, ...] = ()
    """A pod that serves nobody, to be deleted at once."""
    restartable: tuple[KubeObject, ...] = ()
    """Outdated pods whose members may be restarted now, the lowest ordinal first."""
    reason: ProgressingReason | None = None
    waiting: str = ""
    unsettled: bool = False
    """Which pods are outdated will be known when the newest template was written and seen."""

    def without_deletion(self) -> Roll:
        """Return the same view with nothing to do about it."""
        return replace(self, delete_pods=(), restartable=(), reason=None, waiting="")


def plan_roll(
    observed: Observed,
    rendered: KubeObject | None,
    live: KubeObject | None,
    kept: frozenset[str],
    now: datetime,
) -> Roll:
    """Return the next step of a roll; an empty one when every pod is up to date.

    Args:
        observed: What there is.
        rendered: The StatefulSet as it should be.
        live: The StatefulSet as it is.
        kept: Names of pods that stay as they are although they serve nobody.
        now: When this is.
    """
    pods = by_ordinal(observed.pods)
    if rendered is None or live is None or not pods:
        return Roll()
    everyone = tuple(map(pod_name, pods))
    if _template_differs(rendered, live, observed.cluster.status):
        return Roll(outdated=everyone, unsettled=True)
    status = live.get("status", {})
    # Until the controller has seen the newest template, its updateRevision names an older one.
    if status.get("observedGeneration", 0) < live["metadata"].get("generation", 0):
        waiting = "the StatefulSet controller has not seen the newest revision yet"
        reason = ProgressingReason.WAITING_FOR_MEMBERS
        return Roll(everyone, reason=reason, waiting=waiting, unsettled=True)
    outdated = [pod for pod in pods if is_outdated(pod, status.get("updateRevision", ""))]
    return _next_step(observed, pods, outdated, kept, now)


def _template_differs(rendered: KubeObject, live: KubeObject, status: GridClusterStatus) -> bool:
    return any(difference.in_template for difference in unsettled(rendered, live, status))


def _next_step(
    observed: Observed,
    pods: list[KubeObject],
    outdated: list[KubeObject],
    kept: frozenset[str],
    now: datetime,
) -> Roll:
    names = tuple(map(pod_name, outdated))
    # A pod that serves nobody can go at once: replacing it costs nothing, and a StatefulSet never
    # replaces one whose template was broken and has been mended. Nor does a member that was shut
    # down over REST come back before its pod does. One that only does not answer the operator may
    # serve its clients, or hold what no other has, so it waits for the gate.
    lost = [pod for pod in outdated if is_lost(observed, pod)]
    lost += [pod for pod in pods if pod not in outdated and is_parked(observed, pod)]
    lost = [pod for pod in lost if pod_name(pod) not in kept]
    if not outdated and not lost:
        return Roll()
    leaving = [pod for pod in pods if is_terminating(pod)]
    if leaving:
        waiting = f"pod {pod_name(leaving[0])} {going(leaving[0], now)}"
        return Roll(names, reason=ProgressingReason.WAITING_FOR_MEMBERS, waiting=waiting)
    deleted = claim_obstacle(observed, lost[0]) if lost else None
    if deleted is not None:
        return Roll(names, reason=ProgressingReason.WAITING_FOR_SAFETY, waiting=deleted)
    if lost:
        waiting = f"replacing pod {pod_name(lost[0])}"
        return Roll(names, (lost[0],), (), ProgressingReason.ROLLING, waiting)
    obstacle = disruption_obstacle(observed)
    if obstacle is not None:
        return Roll(names, reason=ProgressingReason.WAITING_FOR_SAFETY, waiting=obstacle)
    waiting = f"replacing pod {names[-1]}"
    return Roll(names, (), tuple(outdated), ProgressingReason.ROLLING, waiting)


def is_parked(observed: Observed, pod: KubeObject) -> bool:
    """Return whether the pod's member was shut down over REST and waits for a new pod."""
    view = observed.members.get(pod_name(pod))
    return isinstance(view, MemberProblem) and view.parked


def is_lost(observed: Observed, pod: KubeObject) -> bool:
    """Return whether the pod serves nobody, or knows the operator no more and can be replaced.

    A ready pod that holds its data in memory only is never taken away because a Secret was lost.
    """
    kept = observed.cluster.spec.persistence.enabled
    refuses = kept and _refuses_the_operator(observed, pod) and _others_are_ready(observed, pod)
    return _serves_nobody(observed, pod) or refuses or is_parked(observed, pod)


def _serves_nobody(observed: Observed, pod: KubeObject) -> bool:
    """Return whether the pod is not ready, and can go without being missed.

    One of several may hold what no other has, as long as its process lives and it has not said
    itself that it has not joined: without a majority, or when it is slow, a member answers
    nothing at all. Such a one goes through the gate, and so does one that is about to join when
    those that serve are too few without it.
    """
    if is_ready(pod):
        return False
    if has_no_process(pod):
        return True
    if observed.cluster.spec.is_alone:
        # One that only another container keeps from being ready is stopped gently.
        return not serves(pod)
    return _has_not_joined(observed, pod) and _is_not_needed(observed)


def _is_not_needed(observed: Observed) -> bool:
    """Return whether those that serve are enough, or nobody serves whom one more could help."""
    serving = sum(map(serves, observed.pods))
    # While members leave there are more of them than the spec says.
    members = max(observed.cluster.spec.size, len(observed.pods))
    return serving == 0 or 2 * serving > members


def _has_not_joined(observed: Observed, pod: KubeObject) -> bool:
    view = observed.members.get(pod_name(pod))
    return isinstance(view, MemberProblem) and view.node_state == STARTING


def _others_are_ready(observed: Observed, pod: KubeObject) -> bool:
    others = (p for p in observed.pods if pod_name(p) != pod_name(pod))
    return all(map(is_ready, others))


def _refuses_the_operator(observed: Observed, pod: KubeObject) -> bool:
    view = observed.members.get(pod_name(pod))
    return isinstance(view, MemberProblem) and view.unauthenticated


def _way_out(observed: Observed, pod: KubeObject) -> str:
    if not _refuses_the_operator(observed, pod):
        return ""
    secret = management_secret_name(observed.cluster.metadata.name)
    return (
        f"; put the former Secret {secret} back, or delete pod {pod_name(pod)}, which loses what "
        "it holds in memory"
    )


def disruption_obstacle(observed: Observed) -> str | None:
    """Return what speaks against taking a member away, or telling one to go; None: nothing does.

    Besides what members say, every pod that the StatefulSet wants has to be there: who is taken
    away may not come back either, such as under a quota.
    """
    return _missing_pod(observed) or gate_obstacle(observed)


def _missing_pod(observed: Observed) -> str | None:
    base = statefulset_name(observed.cluster.metadata.name)
    sets = (child for child in observed.children if child["kind"] == "StatefulSet")
    live = next((one for one in sets if one["metadata"]["name"] == base), None)
    replicas = 0 if live is None else int(live["spec"].get("replicas", 0))
    there = set(map(pod_name, observed.pods))
    wanted = (f"{base}-{ordinal}" for ordinal in range(replicas))
    return next((f"{name} does not exist yet" for name in wanted if name not in there), None)


def gate_obstacle(observed: Observed) -> str | None:
    """Return which member says what against taking one of these pods away, None when all is well.

    Every member must answer, all must agree on the number of members, the cluster must be safe
    and nothing may be migrating.
    """
    for pod in by_ordinal(observed.pods):
        name = pod_name(pod)
        view = observed.members.get(name, MemberProblem("it has no address yet"))
        if isinstance(view, MemberProblem):
            return f"{name} does not answer: {view.message}{_way_out(observed, pod)}"
        if not view.cluster_safe:
            return with_reason(f"{name} says that the cluster is not safe", view.unsafe)
        if view.migration_queue_size > 0:
            return f"{name} says that {view.migration_queue_size} migrations are waiting"
        if view.cluster_size != len(observed.pods):
            return f"{name} sees {view.cluster_size} members, there are {len(observed.pods)}"
        obstacle = claim_obstacle(observed, pod)
        if obstacle is not None:
            return obstacle
    return None


def claim_obstacle(observed: Observed, pod: KubeObject) -> str | None:
    """Return why the pod must stay: its volume claim was deleted and is there only as long as it.

    Nothing brings such a claim back, so whoever deletes the pod deletes the data.
    """
    name = f"{DATA_VOLUME}-{pod_name(pod)}"
    claims = (claim["metadata"] for claim in observed.claims)
    deleted = any(meta["name"] == name and meta.get("deletionTimestamp") for meta in claims)
    if not deleted or is_unscheduled(pod):
        return None
    return (
        f"claim {name} is being deleted, and its data goes with pod {pod_name(pod)}: make a backup "
        "and restore it into another GridCluster, or delete the pod to give the data up"
    )
