"""The narrow interfaces through which reconcile touches the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject, ObjectRef
    from grid_operator.decide.model import ClusterEvent, MemberProblem, MemberView


class Kube(Protocol):
    """The part of the Kubernetes API that the operator uses."""

    async def fetch_cluster(self, namespace: str, name: str) -> KubeObject | None:
        """Return the GridCluster, None when there is none."""

    async def fetch_children(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the objects of every kind that `render` makes and that the cluster owns."""

    async def fetch_pods(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the cluster's member pods."""

    async def fetch(self, ref: ObjectRef) -> KubeObject | None:
        """Return one object, whoever owns it; None when there is none."""

    async def apply(self, obj: KubeObject) -> KubeObject:
        """Server-side apply with the operator's field manager, forced; return the result."""

    async def delete(self, ref: ObjectRef, uid: str) -> None:
        """Delete the object if it still has this uid; no error when it is gone."""

    async def apply_status(self, cluster: KubeObject, status: KubeObject) -> None:
        """Write the status subresource, if the cluster is still the one that was observed."""

    async def record_event(self, cluster: KubeObject, event: ClusterEvent) -> None:
        """Record an Event on the GridCluster."""


class Members(Protocol):
    """The members' management REST endpoints."""

    async def fetch_view(
        self, pod: KubeObject, username: str, password: str
    ) -> MemberView | MemberProblem:
        """Ask one member what it says of itself; a problem, not an exception, when it cannot."""
