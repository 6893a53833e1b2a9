"""What reconcile gathers for a decision, and what a decision consists of. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_operator.api.desired import Desired, Live

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject, ObjectRef
    from grid_operator.api.status import GridClusterStatus
    from grid_operator.decide.calls import MemberCall

__all__ = [
    "STARTING",
    "ClusterEvent",
    "Decision",
    "Desired",
    "Live",
    "MemberOperation",
    "MemberProblem",
    "MemberView",
    "Observed",
    "StructureUse",
    "WanPublisherView",
]

STARTING: Final = "STARTING"
"""The node state of a member that has not joined since its process began."""


@dataclass(frozen=True, slots=True)
class MemberOperation:
    """One long operation of a member, as `GET /grid/rest/management/cluster/operations` has it."""

    id: str
    kind: str
    stage: str
    """STARTED, IN_PROGRESS, FINISHED, FAILED."""
    progress: int
    """Percent."""
    error: str


@dataclass(frozen=True, slots=True)
class StructureUse:
    """One map or queue of a member, as `GET /grid/rest/management/cluster/usage` has it."""

    kind: str
    """`map` or `queue`."""
    name: str
    entries: int


@dataclass(frozen=True, slots=True)
class WanPublisherView:
    """One publisher of a member, as `GET /grid/rest/wan/status` has it."""

    replication: str
    id: str
    states: Mapping[str, str]
    """By the UUID of each member: REPLICATING, PAUSED, STOPPED."""
    reason: str = ""
    """Why the publisher needs a synchronisation; empty when it needs none."""

    @property
    def name(self) -> tuple[str, str]:
        """Replication and id."""
        return self.replication, self.id


@dataclass(frozen=True, slots=True)
class MemberView:
    """What one member says of itself over its management listener."""

    uuid: str
    address: str
    version: str
    """Package version, `major.minor.patch`."""
    cluster_version: str
    """`major.minor`; `0.0` before the member has joined."""
    node_state: str
    """Upper case as in `GET /grid/health`: STARTING, ACTIVE, PASSIVE, SHUT_DOWN."""
    cluster_state: str
    cluster_safe: bool
    migration_queue_size: int
    cluster_size: int
    ready: bool
    """`GET /grid/health/ready` answered 200."""
    problem: str = ""
    """Why it is not ready in its own words, without counts; empty when it does not say."""
    unsafe: str = ""
    """Why the cluster is not safe in its words, without counts; empty when it does not say."""
    operations: tuple[MemberOperation, ...] = ()
    """The long operations that the member knows, the oldest first."""
    structures: tuple[StructureUse, ...] = ()
    """Structures that hold anything or are configured by their full name."""
    wan: tuple[WanPublisherView, ...] | None = None
    """The publishers that the members agreed on; None: not asked, or it cannot tell now."""


@dataclass(frozen=True, slots=True)
class MemberProblem:
    """Why a member could not be asked, in words for a condition; never a credential."""

    message: str
    unauthenticated: bool = False
    """It answers, but does not accept the operator's credentials: only a new pod takes new ones."""
    node_state: str = ""
    """Of a member that answers and has not joined: STARTING, or PASSIVE when it is parked."""
    own_words: bool = False
    """The message is what a member says that has joined and has no majority to go by."""

    @property
    def parked(self) -> bool:
        """True when the member was shut down over REST and waits for its pod to be deleted."""
        return self.node_state == "PASSIVE"


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything a decision may depend on, read within one reconcile."""

    cluster: GridCluster
    children: tuple[KubeObject, ...]
    """Live objects that carry the cluster's label and its owner reference, pods and volume
    claims left out."""
    pods: tuple[KubeObject, ...]
    members: dict[str, MemberView | MemberProblem]
    """By pod name; pods without an address are left out."""
    claims: tuple[KubeObject, ...] = ()
    """Volume claims that carry the cluster's label."""
    job_pods: tuple[KubeObject, ...] = ()
    """Pods of the Job that restores, if there is one."""
    reports: Mapping[str, str] = field(default_factory=dict)
    """What Kubernetes reports of a pod, claim or Job that is missing or stuck, by its name."""
    may_hold: bool = False
    """The operator may set its finalizer: its rights outlive the cluster's namespace."""
    contested: frozenset[ObjectRef] = frozenset()
    """Children that somebody else changes, or deletes, again and again."""
    held: frozenset[ObjectRef] = frozenset()
    """Those of them that were set back less than a minute ago and have to wait."""
    dropped: tuple[str, ...] | None = None
    """Fields of the status that the API server does not keep, as `status.admitted`; None: not known
    yet."""
    namespace_terminating: bool = False
    """The cluster's namespace is being deleted; looked at only when the cluster is."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An Event to record on the GridCluster. The reason is stable: people alert on it."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now. An unchanged cluster's decision has nothing to write."""

    status: GridClusterStatus
    apply: tuple[KubeObject, ...] = ()
    """In this order, by server-side apply."""
    ask_again: tuple[KubeObject, ...] = ()
    """Children of which the API server keeps something otherwise: it may not, any more."""
    delete: tuple[ObjectRef, ...] = ()
    """Owned children that are no longer rendered, and those that only a new one can replace."""
    delete_pods: tuple[KubeObject, ...] = ()
    """Live pods to delete, with their uid as precondition."""
    finalizers: tuple[str, ...] | None = None
    """What the GridCluster's finalizers should be, all of them; None: what they are."""
    call: MemberCall | None = None
    """To be sent after the status of this decision, which holds its intent, was written."""
    events: tuple[ClusterEvent, ...] = ()
    requeue_after_s: float = field(default=10.0)
    """Seconds until the next look, before jitter."""
