"""What a pod object says: whether it is ready, going, outdated, and why it is not ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_operator.api.names import REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_operator.api.objects import KubeObject


def pod_name(pod: KubeObject) -> str:
    """Return the pod's name."""
    return str(pod["metadata"]["name"])


def by_ordinal(pods: Iterable[KubeObject]) -> list[KubeObject]:
    """Return the pods in the order of their StatefulSet ordinals."""
    return sorted(pods, key=ordinal)


def ordinal(pod: KubeObject) -> tuple[int, str]:
    """Return what sorts pods by their StatefulSet ordinal."""
    last = pod_name(pod).rpartition("-")[2]
    return (int(last) if last.isdecimal() else -1, pod_name(pod))


def is_terminating(pod: KubeObject) -> bool:
    """Return whether the pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_ready(pod: KubeObject) -> bool:
    """Return whether Kubernetes sends traffic to the pod."""
    condition = _condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True" and not is_terminating(pod)


def is_outdated(pod: KubeObject, update_revision: str) -> bool:
    """Return whether the pod was made from another template than the newest."""
    revision: object = pod["metadata"].get("labels", {}).get(REVISION_LABEL)
    return revision != update_revision


def pod_problem(pod: KubeObject) -> str | None:
    """Return why the pod is not ready as Kubernetes sees it, None when it is."""
    if is_terminating(pod):
        return "is being deleted"
    if is_ready(pod):
        return None
    return _container_problem(pod) or _scheduling_problem(pod) or "is not ready yet"


def _container_problem(pod: KubeObject) -> str | None:
    for container in pod.get("status", {}).get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            # The reason only: messages carry back-off times, which would change all the time.
            return f"container {container['name']}: {waiting['reason']}"
        terminated = container.get("state", {}).get("terminated")
        if terminated:
            return f"container {container['name']} ended with code {terminated.get('exitCode')}"
    return None


def _scheduling_problem(pod: KubeObject) -> str | None:
    condition = _condition(pod, "PodScheduled")
    if condition is None or condition.get("status") != "False":
        return None
    return f"cannot be scheduled: {condition.get('message', condition.get('reason', ''))}"


def _condition(pod: KubeObject, kind: str) -> dict[str, Any] | None:
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == kind), None)
