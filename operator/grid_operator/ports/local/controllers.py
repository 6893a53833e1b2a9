"""What the StatefulSet controller and the kubelet would write, as plain functions."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_operator.api.objects import KubeObject
    from grid_operator.ports.local.pod import PodProcess

_RUNNING: Final[KubeObject] = {"running": {}}
_BETWEEN_TWO: Final[KubeObject] = {"waiting": {"reason": "CrashLoopBackOff"}}


def template_revision(stateful_set: KubeObject) -> str:
    """Return the name of the revision that the set's template stands for."""
    text = json.dumps(stateful_set["spec"]["template"], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{stateful_set['metadata']['name']}-{digest}"


def make_pod(stateful_set: KubeObject, ordinal: int, address: str) -> KubeObject:
    """Return the pod of this ordinal as it is before its process has started."""
    meta, template = stateful_set["metadata"], copy.deepcopy(stateful_set["spec"]["template"])
    name = f"{meta['name']}-{ordinal}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {
                **template["metadata"].get("labels", {}),
                REVISION_LABEL: template_revision(stateful_set),
                "apps.kubernetes.io/pod-index": str(ordinal),
                "statefulset.kubernetes.io/pod-name": name,
            },
            "annotations": template["metadata"].get("annotations", {}),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending", "podIP": address, "hostIP": address},
    }


def data_claims(stateful_set: KubeObject, pod: str) -> list[KubeObject]:
    """Return the volume claims that the controller makes for a pod."""
    namespace = stateful_set["metadata"]["namespace"]
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{template['metadata']['name']}-{pod}",
                "namespace": namespace,
                "labels": dict(template["metadata"].get("labels", {})),
            },
            "spec": copy.deepcopy(template["spec"]),
        }
        for template in stateful_set["spec"].get("volumeClaimTemplates", ())
    ]


def pod_status(pod: KubeObject, process: PodProcess, now: str) -> KubeObject:
    """Return the pod's status; the Ready condition's time moves only when it flips."""
    ready = process.ready
    state = "True" if ready else "False"
    old = {c["type"]: c for c in pod["status"].get("conditions", ())}.get("Ready")
    moved = old is None or old["status"] != state
    condition = {
        "type": "Ready",
        "status": state,
        "lastTransitionTime": now if moved or old is None else old["lastTransitionTime"],
    }
    return {
        **pod["status"],
        "phase": "Running",
        "conditions": [condition],
        "containerStatuses": [
            {
                "name": pod["spec"]["containers"][0]["name"],
                "ready": ready,
                "restartCount": process.restarts,
                "state": _RUNNING if process.pid is not None else _BETWEEN_TWO,
            }
        ],
    }


def is_ready(pod: KubeObject) -> bool:
    """Return whether the pod's Ready condition is true."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def set_status(stateful_set: KubeObject, pods: Iterable[KubeObject]) -> KubeObject:
    """Return the status that the StatefulSet controller would write with `OnDelete`."""
    pods = list(pods)
    revision = template_revision(stateful_set)
    updated = [p for p in pods if p["metadata"]["labels"][REVISION_LABEL] == revision]
    first = stateful_set.get("status", {}).get("currentRevision", revision)
    return {
        "observedGeneration": stateful_set["metadata"]["generation"],
        "replicas": len(pods),
        "readyReplicas": sum(map(is_ready, pods)),
        "availableReplicas": sum(map(is_ready, pods)),
        "currentRevision": first,
        "updateRevision": revision,
        "updatedReplicas": len(updated),
        "currentReplicas": len(pods) - len(updated) if first != revision else len(pods),
    }
