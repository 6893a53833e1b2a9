"""The StatefulSet that makes the member pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import (
    DATA_VOLUME,
    STRUCTURES_ANNOTATION,
    TEMPLATE_HASH_ANNOTATION,
    child_labels,
    headless_service_name,
    selector_labels,
    statefulset_name,
)
from grid_operator.api.phase import removed_ordinal
from grid_operator.render.metadata import child_metadata, digest
from grid_operator.render.pod import pod_template
from grid_operator.render.volumes import claim_spec

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.record import StartRecord

REVISION_HISTORY_LIMIT: Final = 5


def member_statefulset(cluster: GridCluster, record: StartRecord, replicas: int) -> KubeObject:
    """Return the StatefulSet. Only the operator deletes pods, so its strategy is OnDelete."""
    name = cluster.metadata.name
    spec: dict[str, Any] = {
        "replicas": replicas,
        "serviceName": headless_service_name(name),
        "selector": {"matchLabels": selector_labels(name)},
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "revisionHistoryLimit": REVISION_HISTORY_LIMIT,
        # Claims follow the GridCluster, not the StatefulSet: see `volumes`. But what a member that
        # has left had is of no use any more, and would be in the way of the next one of its name.
        # It is the only one: fewer replicas than its ordinal would take others' data away.
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": "Retain",
            "whenScaled": "Delete" if removed_ordinal(cluster) == replicas else "Retain",
        },
        "template": pod_template(cluster, record),
    }
    if cluster.spec.persistence.enabled:
        spec["volumeClaimTemplates"] = [
            {
                "metadata": {"name": DATA_VOLUME, "labels": child_labels(name)},
                "spec": claim_spec(cluster.spec.persistence),
            }
        ]
    metadata = child_metadata(cluster, statefulset_name(name))
    annotations = {
        STRUCTURES_ANNOTATION: record.annotation,
        TEMPLATE_HASH_ANNOTATION: digest(json.dumps(spec["template"], sort_keys=True)),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**metadata, "annotations": annotations},
        "spec": spec,
    }
