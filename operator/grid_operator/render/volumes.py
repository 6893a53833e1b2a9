"""Volume claims: the one for backups, the one that a restore fills, and who owns the data claims.

No claim is ever deleted by the operator. Data claims go with the GridCluster when an owner
reference says so; the backup claim has none, so that backups outlive the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.lifecycle import DeletionPolicy
from grid_operator.api.names import CLUSTER_LABEL, backup_claim_name, data_claim_name
from grid_operator.api.persistence import AccessMode
from grid_operator.api.quantity import parse_quantity
from grid_operator.render.metadata import owner_reference, unowned_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.persistence import PersistenceSpec
    from grid_operator.render.context import RenderContext


_CLAIMED: Final = ("accessModes", "volumeMode", "resources", "storageClassName")
"""The part of a claim that somebody asked for; the rest is what became of it."""


def claim_spec(persistence: PersistenceSpec) -> dict[str, Any]:
    """Return what is claimed for the data of one member."""
    return _claimed(AccessMode.READ_WRITE_ONCE, persistence.size, persistence.storage_class_name)


def backup_claim(cluster: GridCluster, context: RenderContext) -> KubeObject | None:
    """Return the claim for backups, None when the spec wants none."""
    backup = cluster.spec.persistence.backup
    if backup is None or backup.volume is None:
        return None
    volume, name = backup.volume, backup_claim_name(cluster.metadata.name)
    live = next((c for c in context.claims if c["metadata"]["name"] == name), None)
    size = volume.size if live is None else _larger(volume.size, _size(live))
    spec = _claimed(volume.access_mode, size, volume.storage_class_name)
    return _claim(cluster, name, spec)


def restored_claim(cluster: GridCluster) -> KubeObject:
    """Return the claim of the first member, for the Job that fills it before there is a member.

    It is what the StatefulSet controller would make, and later takes up by its name.
    """
    name = data_claim_name(cluster.metadata.name, 0)
    return _claim(cluster, name, claim_spec(cluster.spec.persistence))


def claim_owners(cluster: GridCluster, context: RenderContext) -> Iterator[KubeObject]:
    """Yield the data claims that the cluster owns, or owned and should not any more.

    A claim that somebody made before the StatefulSet controller could is a member's by its name:
    it is given the cluster's label, and follows the deletion policy like the others. What is
    claimed is the live claim's.
    """
    for live in context.claims:
        meta = live["metadata"]
        ordinal = _ordinal(cluster, meta["name"])
        if ordinal is None or meta.get("deletionTimestamp"):
            continue
        # That of a member that has left goes with its pod, when nobody else owns it.
        stays = ordinal < cluster.spec.size
        owned = stays and cluster.spec.deletion_policy is DeletionPolicy.DELETE
        if owned or _is_owned(live, cluster) or (stays and is_unlabelled(live)):
            claimed = {key: live["spec"][key] for key in _CLAIMED if key in live["spec"]}
            claim = _claim(cluster, meta["name"], claimed)
            owner = [owner_reference(cluster, controller=False)] if owned else []
            yield {**claim, "metadata": {**claim["metadata"], "ownerReferences": owner}}


def has_member_data(cluster: GridCluster, context: RenderContext) -> bool:
    """Return whether members have something on disk that others of their names would start on."""
    kept = cluster.spec.persistence.enabled
    return kept and (context.has_pods or members_with_claims(cluster, context) > 0)


def members_with_claims(cluster: GridCluster, context: RenderContext) -> int:
    """Return for how many members there are claims to stay, by the last one; 0 in memory."""
    if not cluster.spec.persistence.enabled:
        return 0
    metas = [live["metadata"] for live in context.claims]
    there = [meta["name"] for meta in metas if not meta.get("deletionTimestamp")]
    found = (_ordinal(cluster, name) for name in there)
    return max((ordinal + 1 for ordinal in found if ordinal is not None), default=0)


def is_unlabelled(claim: KubeObject) -> bool:
    """Return whether a claim carries no cluster's label: no StatefulSet of a cluster made it."""
    return CLUSTER_LABEL not in (claim["metadata"].get("labels") or {})


def _ordinal(cluster: GridCluster, claim: str) -> int | None:
    """Return whose data is on the claim, None when it is no member's."""
    tail = claim.rpartition("-")[2]
    if not tail.isdecimal() or claim != data_claim_name(cluster.metadata.name, int(tail)):
        return None
    return int(tail)


def _is_owned(claim: KubeObject, cluster: GridCluster) -> bool:
    owners = claim["metadata"].get("ownerReferences", ())
    return any(owner["uid"] == cluster.metadata.uid for owner in owners)


def _claim(cluster: GridCluster, name: str, spec: dict[str, Any]) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": unowned_metadata(cluster, name),
        "spec": spec,
    }


def _claimed(mode: AccessMode, size: str, storage_class: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": [mode.value],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": size}},
    }
    return spec if storage_class is None else {**spec, "storageClassName": storage_class}


def _size(claim: KubeObject) -> str:
    return str(claim["spec"].get("resources", {}).get("requests", {}).get("storage", "0"))


def _larger(wanted: str, live: str) -> str:
    # A volume only grows, and somebody may have let it grow by hand.
    one, other = parse_quantity(wanted), parse_quantity(live)
    return live if one is not None and other is not None and other > one else wanted
