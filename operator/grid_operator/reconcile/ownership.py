"""Which objects are the cluster's own, and which may become its own."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import CLUSTER_LABEL, KIND, statefulset_name
from grid_operator.api.objects import KubeObject, ObjectRef, other_manager
from grid_operator.decide.children.departure import former
from grid_operator.ports.errors import NotReady, Rejected
from grid_operator.reconcile.refusal import RefusalReason

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.ports.api import Kube

REMOVAL_DELAY_S: Final = 1.0
STATEFUL_SET: Final = "StatefulSet"


def check_may_take(ref: ObjectRef, existing: KubeObject | None, cluster: KubeObject) -> None:
    """Return if the operator may write the object under this name.

    Free names, the cluster's own objects (somebody took the label away) and orphans that carry
    the cluster's label (restored from a backup) may be taken. What another tool manages may not:
    the release of members that are handed over to the operator still removes them.

    Raises:
        NotReady: The object belongs to a deleted cluster of the same name and will be gone soon.
        Rejected: It belongs to somebody else.
    """
    if existing is None:
        return
    meta = existing["metadata"]
    owners = meta.get("ownerReferences", ())
    if any(owner["uid"] == cluster["metadata"]["uid"] for owner in owners):
        return
    name = cluster["metadata"]["name"]
    of_predecessor = any(owner["kind"] == KIND and owner["name"] == name for owner in owners)
    if of_predecessor or "deletionTimestamp" in meta:
        raise NotReady(f"until the former {ref} is gone{former(existing)}", REMOVAL_DELAY_S)
    manager = other_manager(existing)
    if not owners and meta.get("labels", {}).get(CLUSTER_LABEL) == name:
        if not manager:
            return
        raise Rejected(
            f"{ref} exists and is managed by {manager}: the operator goes on when {manager} has "
            "removed it; else give the GridCluster another name",
            RefusalReason.NAME_TAKEN,
        )
    raise Rejected(
        f"{ref} exists and does not belong to this GridCluster: delete it, or give the "
        "GridCluster another name",
        RefusalReason.NAME_TAKEN,
    )


async def unlabelled_statefulset(
    kube: Kube, cluster: KubeObject, children: list[KubeObject]
) -> list[KubeObject]:
    """Return the cluster's own StatefulSet when it is not among the children.

    Somebody took its label away. Without it the operator would take running members for none, and
    write over the record of what they were started with.
    """
    if any(child["kind"] == STATEFUL_SET for child in children):
        return []
    meta = cluster["metadata"]
    name = statefulset_name(meta["name"])
    found = await kube.fetch(ObjectRef("apps/v1", STATEFUL_SET, meta["namespace"], name))
    owners = () if found is None else found["metadata"].get("ownerReferences") or ()
    owned = any(owner["uid"] == meta["uid"] for owner in owners)
    return [found] if found is not None and owned else []


def member_pods(labelled: list[KubeObject], children: list[KubeObject]) -> list[KubeObject]:
    """Return the pods that the cluster's StatefulSet controls.

    A label alone proves nothing: whoever carries it would be sent the management credentials.
    """
    return _controlled(labelled, children, STATEFUL_SET)


def has_orphans(labelled: list[KubeObject], cluster: GridCluster) -> bool:
    """Return whether there are members' pods that belong to no object.

    The StatefulSet was taken away from above them, and the next one takes them up as its own.
    """
    name = re.compile(rf"{re.escape(statefulset_name(cluster.metadata.name))}-[0-9]+")
    metas = (pod["metadata"] for pod in labelled)
    return any(name.fullmatch(meta["name"]) and not meta.get("ownerReferences") for meta in metas)


def check_names_are_free(labelled: list[KubeObject], cluster: KubeObject, now: datetime) -> None:
    """Return if a new StatefulSet can make all of its pods.

    Its controller tries a name that a former pod still has ever more seldom, after minutes in the
    end. A pod that is there beyond its time, as on a node that is lost, holds the others up no
    longer.

    Raises:
        NotReady: Pods of a former StatefulSet still stop.
    """
    name = re.compile(rf"{re.escape(statefulset_name(cluster['metadata']['name']))}-[0-9]+")
    for pod in labelled:
        meta = pod["metadata"]
        ends = meta.get("deletionTimestamp")
        stops = datetime.fromisoformat(ends) > now if ends else bool(meta.get("ownerReferences"))
        if name.fullmatch(meta["name"]) and stops:
            raise NotReady(f"until the former {ObjectRef.of(pod)} is gone", REMOVAL_DELAY_S)


def job_pods(labelled: list[KubeObject], children: list[KubeObject]) -> list[KubeObject]:
    """Return the pods of the cluster's Job, if there is one."""
    return _controlled(labelled, children, "Job")


def _controlled(
    labelled: list[KubeObject], children: list[KubeObject], kind: str
) -> list[KubeObject]:
    uids = {obj["metadata"]["uid"] for obj in children if obj["kind"] == kind}
    return [
        pod
        for pod in labelled
        if any(owner["uid"] in uids for owner in pod["metadata"].get("ownerReferences", ()))
    ]
