"""The narrow interfaces through which reconcile touches the world."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_operator.api.objects import KubeObject, ObjectRef
    from grid_operator.decide.calls import CallOutcome, MemberCall
    from grid_operator.decide.model import ClusterEvent, MemberProblem, MemberView


@dataclass(frozen=True, slots=True)
class MemberAccess:
    """What opens the members' management listener."""

    username: str
    password: str = field(repr=False)
    authority: str = ""
    """Certificates, as PEM, that sign those of the members; empty: the ones this system trusts."""
    asks_wan: bool = False
    """Whether members are asked what they show of WAN replication."""


class Kube(Protocol):
    """The part of the Kubernetes API that the operator uses."""

    async def fetch_cluster(self, namespace: str, name: str) -> KubeObject | None:
        """Return the GridCluster, None when there is none."""

    async def fetch_children(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the objects of every kind that `render` makes and that the cluster owns.

        Pods and volume claims are left out.
        """

    async def fetch_pods(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the pods that carry the cluster's label."""

    async def fetch_claims(self, cluster: KubeObject) -> list[KubeObject]:
        """Return the volume claims that carry the cluster's label."""

    async def is_terminating(self, namespace: str) -> bool:
        """Return whether the namespace is being deleted; False when that is not known."""

    async def fetch_events(self, obj: KubeObject) -> list[KubeObject] | None:
        """Return the Events about an object, None when the operator has no right to list them."""

    async def fetch(self, ref: ObjectRef) -> KubeObject | None:
        """Return one object, whoever owns it; None when there is none."""

    async def apply(self, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        """Server-side apply with the operator's field manager, forced; return the result.

        Args:
            obj: What is to be.
            dry_run: Admission answers what it would make of it, and nothing is stored.
        """

    async def patch(
        self, obj: KubeObject, operations: Sequence[KubeObject], *, dry_run: bool = False
    ) -> KubeObject:
        """Change an object where an apply leaves it as it is; return the result.

        Args:
            obj: The object as it was read last.
            operations: A JSON patch (RFC 6902).
            dry_run: As in `apply`.

        Raises:
            Conflict: Somebody wrote the object since; nothing is written.
            Rejected: One of the operations cannot be; nothing is written.
        """

    async def delete(self, ref: ObjectRef, uid: str) -> None:
        """Delete the object if it still has this uid; no error when it is gone."""

    async def apply_status(self, cluster: KubeObject, status: KubeObject) -> KubeObject:
        """Write the status subresource, if the cluster is still the one that was observed.

        Returns:
            The cluster as it is now, for the next write of its status.

        Raises:
            Conflict: Somebody wrote the cluster since; nothing is written.
        """

    async def set_finalizers(self, cluster: KubeObject, finalizers: tuple[str, ...]) -> None:
        """Replace the cluster's finalizers, if the cluster is still the one that was observed.

        Raises:
            Conflict: Somebody wrote the cluster since; nothing is written.
        """

    async def record_event(self, cluster: KubeObject, event: ClusterEvent) -> None:
        """Record an Event on the GridCluster."""


class Members(Protocol):
    """The members' management REST endpoints."""

    async def fetch_view(self, pod: KubeObject, access: MemberAccess) -> MemberView | MemberProblem:
        """Ask one member what it says of itself; a problem, not an exception, when it cannot."""

    async def call(
        self, call: MemberCall, access: MemberAccess, may_send: Callable[[], bool]
    ) -> CallOutcome | None:
        """Tell one member what to do; an outcome, not an exception, whatever happens.

        Args:
            call: What to tell whom.
            access: What opens the member's listener.
            may_send: Asked once, immediately before the request goes out: whether it still may.

        Returns:
            None when `may_send` said no: nothing was sent.
        """
