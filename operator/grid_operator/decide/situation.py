"""What was observed, in the words in which decisions are made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import SHUTDOWN_FINALIZER, statefulset_name
from grid_operator.decide.children.departure import going, is_terminating
from grid_operator.decide.model import STARTING, MemberProblem, MemberView
from grid_operator.decide.pods import (
    by_ordinal,
    is_ready,
    pod_name,
    pod_problem,
    serves,
    with_reports,
)
from grid_operator.decide.words import with_reason

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster, GridClusterSpec
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.status import GridClusterStatus, OperationStatus
    from grid_operator.decide.model import Desired, Observed
    from grid_operator.decide.roll import Roll

IN_TRANSITION: Final = "IN_TRANSITION"
PASSIVE: Final = "PASSIVE"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Situation:
    """One round's facts."""

    observed: Observed
    desired: Desired
    roll: Roll
    now: datetime

    @property
    def cluster(self) -> GridCluster:
        """The GridCluster as the API server holds it."""
        return self.observed.cluster

    @property
    def spec(self) -> GridClusterSpec:
        """What the cluster should be."""
        return self.observed.cluster.spec

    @property
    def status(self) -> GridClusterStatus:
        """The status that the API server holds, the journal in it."""
        return self.observed.cluster.status

    @property
    def operation(self) -> OperationStatus | None:
        """The operation that the API server holds."""
        return self.observed.cluster.status.operation

    @property
    def pods(self) -> list[KubeObject]:
        """Live member pods, the lowest ordinal first."""
        return by_ordinal(self.observed.pods)

    @property
    def deleted(self) -> bool:
        """Whether the GridCluster is being deleted."""
        return self.cluster.metadata.deletion_timestamp is not None

    @property
    def held(self) -> bool:
        """Whether the operator's finalizer is on the GridCluster."""
        return SHUTDOWN_FINALIZER in self.cluster.metadata.finalizers

    @property
    def stop_wanted(self) -> bool:
        """Whether the spec asks for no members."""
        return self.spec.run_state == "Stopped"

    @property
    def pause_end(self) -> datetime | None:
        """When a pause with an end is over; None: no such pause now."""
        end = moment(self.spec.paused_until)
        return end if end is not None and end > self.now else None

    @property
    def paused(self) -> bool:
        """Whether the operator only looks."""
        return self.spec.paused or self.pause_end is not None

    @property
    def statefulset(self) -> KubeObject | None:
        """The live StatefulSet of the members."""
        name = statefulset_name(self.cluster.metadata.name)
        found = (c for c in self.observed.children if c["kind"] == "StatefulSet")
        return next((c for c in found if c["metadata"]["name"] == name), None)

    def with_status(self, status: GridClusterStatus) -> Situation:
        """Return the same facts with another status, as if it had been written already."""
        cluster = self.cluster.model_copy(update={"status": status})
        return replace(self, observed=replace(self.observed, cluster=cluster))

    def with_roll(self, roll: Roll) -> Situation:
        """Return the same facts with another view of what is outdated."""
        return replace(self, roll=roll)

    def pod(self, name: str, uid: str = "") -> KubeObject | None:
        """Return the live pod of this name, and of this uid when one is given."""
        found = next((pod for pod in self.observed.pods if pod_name(pod) == name), None)
        if found is None or (uid and found["metadata"].get("uid") != uid):
            return None
        return found

    def view(self, pod: KubeObject) -> MemberView | MemberProblem | None:
        """Return what the pod's member says, None while it has no address."""
        return self.observed.members.get(pod_name(pod))

    def joined(self) -> list[tuple[KubeObject, MemberView]]:
        """Return the members that answer and have joined, with their pods."""
        pairs = ((pod, self.view(pod)) for pod in self.pods if not is_terminating(pod))
        return [(pod, view) for pod, view in pairs if isinstance(view, MemberView)]

    def waiting_for_data(self) -> KubeObject | None:
        """Return the pod of a member that answers and waits for what to do with damaged data."""
        for pod in self.pods:
            view = self.view(pod)
            waits = isinstance(view, MemberProblem) and view.node_state == STARTING
            if waits and not is_terminating(pod):
                return pod
        return None

    def states(self) -> set[str]:
        """Return the cluster states that joined members show."""
        return {view.cluster_state for _, view in self.joined()}

    def wanted_pods(self) -> list[str]:
        """Return the names of the pods of all wanted members; those that are to leave are not."""
        base = statefulset_name(self.cluster.metadata.name)
        return [f"{base}-{ordinal}" for ordinal in range(self.spec.size)]

    def member_problems(self, besides: frozenset[str] = frozenset()) -> list[str]:
        """Return a line per wanted member that cannot be used, besides those named."""
        problems = []
        for name in self.wanted_pods():
            if name in besides:
                continue
            pod = self.pod(name)
            problem = self._absence(name) if pod is None else self.member_problem(pod)
            if problem is not None:
                problems.append(f"{name} {problem}")
        return problems

    def _absence(self, name: str) -> str:
        return with_reason("does not exist yet", self.observed.reports.get(name, ""))

    def member_problem(self, pod: KubeObject) -> str | None:
        """Return why the pod's member cannot be used, None when it can."""
        view = self.view(pod)
        said = _said(view)
        if is_terminating(pod):
            return going(pod, self.now)
        # Of a pod that runs Kubernetes knows no reason; its member does.
        problem = pod_problem(pod, said=said)
        if problem is not None:
            return with_reports(problem, pod, self.observed.reports)
        if view is None:
            return "has no address yet"
        if isinstance(view, MemberProblem):
            return said or f"does not answer: {view.message}"
        text = f"says that it is not ready (node state {view.node_state})"
        return None if view.ready else with_reason(text, view.problem)

    def to_be_mended(self) -> frozenset[str]:
        """Return outdated pods whose members serve, and that only other containers hold unready.

        No operation waits for them to become ready: that would keep from them what may mend them.
        """
        unready = (pod for pod in self.pods if serves(pod) and not is_ready(pod))
        joined = (pod_name(pod) for pod in unready if isinstance(self.view(pod), MemberView))
        return frozenset(joined) & frozenset(self.roll.outdated)

    def presence(self, pod: KubeObject) -> str:
        """Return how it is with a pod that is to go."""
        return going(pod, self.now) if is_terminating(pod) else "is still there"

    def no_member_text(self) -> str:
        """Return why no member can be told anything."""
        if not self.observed.pods:
            first = self.observed.reports.get(self.wanted_pods()[0], "")
            return with_reason("there is no member pod", first)
        lines = (f"{pod_name(p)} {self.member_problem(p) or 'is ready'}" for p in self.pods)
        return "; ".join(lines)

    def ready_pods(self) -> list[KubeObject]:
        """Return the pods that Kubernetes sends traffic to."""
        return [pod for pod in self.pods if is_ready(pod)]


def _said(view: MemberView | MemberProblem | None) -> str:
    """Return what the member itself says of why it is not ready, empty when it does not."""
    if view is None:
        return ""
    if not isinstance(view, MemberProblem):
        return f"says: {view.problem}" if view.problem and not view.ready else ""
    if view.parked:
        return "was shut down over REST and waits for its pod to be replaced"
    if view.node_state == STARTING:
        return f"waits: {view.message}"
    return f"says: {view.message}" if view.own_words else ""


def moment(text: str | None) -> datetime | None:
    """Return the time that an RFC 3339 text means, None when it means none."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def since(text: str | None, now: datetime) -> timedelta:
    """Return how long ago it was; nothing when the clock was set back since."""
    then = moment(text)
    return max(now - then, timedelta()) if then is not None else timedelta()
