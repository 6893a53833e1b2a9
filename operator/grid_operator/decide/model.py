"""What reconcile gathers for a decision, and what a decision consists of. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster, GridClusterStatus
    from grid_operator.api.objects import KubeObject, ObjectRef


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


@dataclass(frozen=True, slots=True)
class MemberProblem:
    """Why a member could not be asked, in words for a condition; never a credential."""

    message: str
    unauthenticated: bool = False
    """It answers, but does not accept the operator's credentials: only a new pod takes new ones."""


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
    delete: tuple[ObjectRef, ...] = ()
    """Owned children that are no longer rendered."""
    delete_pods: tuple[KubeObject, ...] = ()
    """Live pods to delete, with their uid as precondition."""
    events: tuple[ClusterEvent, ...] = ()
    requeue_after_s: float = field(default=10.0)
    """Seconds until the next look, before jitter."""
