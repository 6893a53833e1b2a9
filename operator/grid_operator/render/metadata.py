"""Metadata that all children share, and the digests that tell whether one is up to date."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import (
    API_VERSION,
    GRID_NAME,
    KIND,
    PART_OF_LABEL,
    RENDERED_HASH_ANNOTATION,
    VERSION_LABEL,
    child_labels,
)

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject

DIGEST_LENGTH: Final = 16
"""Hexadecimal digits kept of a SHA-256: enough to notice a change."""
_IMAGE_TAG: Final = re.compile(r"[^@]*:([A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)(?:@.*)?")
"""An image with a tag that is a label's value as well; the host's port is before a slash."""


def child_metadata(cluster: GridCluster, name: str) -> dict[str, Any]:
    """Return a child's metadata: name, labels, and the cluster as its controlling owner."""
    metadata = unowned_metadata(cluster, name)
    return {
        **metadata,
        "labels": {**metadata["labels"], **_describing_labels(cluster)},
        "ownerReferences": [owner_reference(cluster, controller=True)],
    }


def unowned_metadata(cluster: GridCluster, name: str) -> dict[str, Any]:
    """Return the metadata of an object that stays when the cluster goes."""
    meta = cluster.metadata
    return {"name": name, "namespace": meta.namespace, "labels": child_labels(meta.name)}


def _describing_labels(cluster: GridCluster) -> dict[str, str]:
    """Return the labels that are on owned objects alone.

    A pod template with another version would replace every pod; of a claim template Kubernetes
    lets nothing change, and claims outlive versions.
    """
    tag = _IMAGE_TAG.fullmatch(cluster.spec.image)
    version = {} if tag is None else {VERSION_LABEL: tag[1]}
    return {PART_OF_LABEL: GRID_NAME, **version}


def owner_reference(cluster: GridCluster, *, controller: bool) -> dict[str, Any]:
    """Return the cluster as an owner; its deletion waits for what it controls."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": cluster.metadata.name,
        "uid": cluster.metadata.uid,
        "controller": controller,
        "blockOwnerDeletion": controller,
    }


def with_rendered_hash(obj: KubeObject) -> KubeObject:
    """Return the object with the annotation that holds its own digest."""
    meta = obj["metadata"]
    annotations = {**meta.get("annotations", {}), RENDERED_HASH_ANNOTATION: _object_digest(obj)}
    return {**obj, "metadata": {**meta, "annotations": annotations}}


def digest(*texts: str) -> str:
    """Return a short digest of the texts; where one ends and the next begins counts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:DIGEST_LENGTH]


def _object_digest(obj: KubeObject) -> str:
    # Annotations are readable by more people than Secrets are: nothing of a Secret's content
    # goes into one. Its content is compared field by field anyway.
    shown = {k: v for k, v in obj.items() if k != "data"} if obj["kind"] == "Secret" else obj
    return digest(json.dumps(shown, sort_keys=True))
