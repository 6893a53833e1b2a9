"""The StatefulSet that makes the member pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import (
    DATA_VOLUME,
    child_labels,
    headless_service_name,
    selector_labels,
    statefulset_name,
)
from grid_operator.render.metadata import child_metadata
from grid_operator.render.pod import pod_template

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.context import RenderContext

REVISION_HISTORY_LIMIT: Final = 5


def member_statefulset(cluster: GridCluster, context: RenderContext) -> KubeObject:
    """Return the StatefulSet. Only the operator deletes pods, so its strategy is OnDelete."""
    name = cluster.metadata.name
    spec: dict[str, Any] = {
        "replicas": cluster.spec.size,
        "serviceName": headless_service_name(name),
        "selector": {"matchLabels": selector_labels(name)},
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "revisionHistoryLimit": REVISION_HISTORY_LIMIT,
        # The StatefulSet controller deletes the claims, or keeps them; no finalizer is needed.
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": cluster.spec.deletion_policy.value,
            "whenScaled": "Retain",
        },
        "template": pod_template(cluster, context),
    }
    if cluster.spec.persistence.enabled:
        spec["volumeClaimTemplates"] = [_volume_claim(cluster)]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": child_metadata(cluster, statefulset_name(name)),
        "spec": spec,
    }


def _volume_claim(cluster: GridCluster) -> dict[str, Any]:
    persistence = cluster.spec.persistence
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": persistence.size}},
    }
    if persistence.storage_class_name is not None:
        spec["storageClassName"] = persistence.storage_class_name
    labels = child_labels(cluster.metadata.name)
    return {"metadata": {"name": DATA_VOLUME, "labels": labels}, "spec": spec}
