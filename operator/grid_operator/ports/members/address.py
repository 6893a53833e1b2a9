"""Where a pod's member answers, and how. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.names import CLUSTER_LABEL, MEMBER_CONTAINER, headless_service_name

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject


def process_id(pod: KubeObject) -> str:
    """Return what tells this pod from a later one of the same name."""
    meta = pod["metadata"]
    return str(meta.get("uid") or meta["name"])


def cluster_id(pod: KubeObject) -> str:
    """Return what tells the pod's cluster from others."""
    meta = pod["metadata"]
    return f"{meta.get('namespace', '')}/{meta.get('labels', {}).get(CLUSTER_LABEL, '')}"


def member_url(pod: KubeObject, port: int) -> str:
    """Return the beginning of the URLs of the pod's management listener."""
    address = str(pod["status"]["podIP"])
    host = f"[{address}]" if ":" in address else address
    return f"{'https' if is_encrypted(pod) else 'http'}://{host}:{port}"


def is_encrypted(pod: KubeObject) -> bool:
    """Return whether the pod was made with TLS: what its own probes speak, its member speaks.

    The spec may say otherwise until the pod was replaced. Probes of other containers, which a mesh
    may add, tell nothing.
    """
    return any(
        container.get("readinessProbe", {}).get("httpGet", {}).get("scheme") == "HTTPS"
        for container in pod.get("spec", {}).get("containers", ())
        if container.get("name") == MEMBER_CONTAINER
    )


def server_name(pod: KubeObject) -> str:
    """Return the name that the member's certificate has to be for: the pod's name in DNS."""
    meta = pod["metadata"]
    cluster = meta.get("labels", {}).get(CLUSTER_LABEL, "")
    return f"{meta['name']}.{headless_service_name(cluster)}.{meta.get('namespace', '')}.svc"
