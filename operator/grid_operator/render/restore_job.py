"""The Job that fills the volume of a new cluster from a backup, before there is a member.

Its pod meets the restricted Pod Security Standard, reaches nothing over the network and carries no
token. A pod that is killed is replaced: what is there already is not copied again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import (
    BACKUP_DIR,
    BACKUP_VOLUME,
    DATA_DIR,
    DATA_VOLUME,
    RESTORE_CONTAINER,
    TMP_DIR,
    TMP_VOLUME,
    backup_claim_name,
    data_claim_name,
    restore_job_name,
    restore_labels,
    statefulset_name,
)
from grid_operator.render.configuration.tree import PERSISTENCE_DIR
from grid_operator.render.container import container_security_context, mount, resources
from grid_operator.render.metadata import child_metadata
from grid_operator.render.pod import claim_volume, pod_security_context, scheduling, tmp_volume

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.persistence import RestoreFromSpec

BACKOFF_LIMIT: Final = 2
"""Further pods after the first has failed: a damaged backup does not get better."""


def restore_job(cluster: GridCluster, source: RestoreFromSpec) -> KubeObject:
    """Return the Job."""
    name, pod = cluster.metadata.name, cluster.spec.pod
    labels = restore_labels(name)
    # What a policy asks of members' pods, and what keeps a mesh out of them, holds for this one.
    pod_metadata = {"labels": {**pod.labels, **labels}, "annotations": dict(pod.annotations)}
    metadata = child_metadata(cluster, restore_job_name(name))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "labels": {**metadata["labels"], **labels}},
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "template": {"metadata": pod_metadata, "spec": _pod_spec(cluster, source)},
        },
    }


def restore_source(source: RestoreFromSpec) -> tuple[str, str]:
    """Return the claim that holds the backup, and the path of the backup, or of all, in it.

    Raises:
        ValueError: the source names neither a cluster nor a claim, which the schema refuses.
    """
    claim = source.claim_name
    member = source.member
    if source.cluster is not None:
        claim = backup_claim_name(source.cluster)
        member = member or f"{statefulset_name(source.cluster)}-0"
    if claim is None or member is None:
        raise ValueError("restoreFrom needs a cluster, or a claimName and a member")
    return claim, member if source.backup is None else f"{member}/backup-{source.backup}"


def _pod_spec(cluster: GridCluster, source: RestoreFromSpec) -> dict[str, Any]:
    pod = cluster.spec.pod
    claim, path = restore_source(source)
    newest = ["--newest"] if source.backup is None else []
    several = [] if cluster.spec.is_alone else ["--several"]
    container = {
        "name": RESTORE_CONTAINER,
        "image": cluster.spec.image,
        "imagePullPolicy": cluster.spec.image_pull_policy.value,
        "args": [
            *("restore", f"{BACKUP_DIR}/{path}", *newest, *several, "--once"),
            *("--into", f"{DATA_DIR}/{PERSISTENCE_DIR}"),
        ],
        "resources": resources(pod),
        "securityContext": container_security_context(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            mount(TMP_VOLUME, TMP_DIR),
            mount(DATA_VOLUME, DATA_DIR),
            mount(BACKUP_VOLUME, BACKUP_DIR, read_only=True),
        ],
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security_context(pod),
        "containers": [container],
        "volumes": [
            tmp_volume(),
            claim_volume(DATA_VOLUME, data_claim_name(cluster.metadata.name, 0)),
            claim_volume(BACKUP_VOLUME, claim),
        ],
        **scheduling(pod),
    }
