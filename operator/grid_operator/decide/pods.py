"""What a pod object says: whether it is ready, going, outdated, and why it is not ready."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import REVISION_LABEL
from grid_operator.decide.words import printable, with_reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_operator.api.objects import KubeObject

_ENDED: Final = frozenset({"Failed", "Succeeded"})
_PENDING: Final = "Pending"
OVERDUE_S: Final = 60.0
"""After the end of the pod's grace, which its deletionTimestamp tells: its node does not answer."""
KILLED: Final = 128
"""Exit codes from here on tell of a signal."""
MAX_WORDS_LENGTH: Final = 512
"""Of a container, in characters."""
_LOG_HEAD: Final = re.compile(r"^\d{4}-\d\d-\d\dT\S+Z [A-Z]+ ")


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


def ready_changed(pod: KubeObject) -> str | None:
    """Return when the pod became ready, or ceased to be, None when it is not told."""
    found: str | None = (_condition(pod, "Ready") or {}).get("lastTransitionTime")
    return found


def is_unscheduled(pod: KubeObject) -> bool:
    """Return whether no node has taken the pod yet, so that it uses no volume."""
    condition = _condition(pod, "PodScheduled")
    return condition is not None and condition.get("status") == "False"


def has_no_process(pod: KubeObject) -> bool:
    """Return whether the pod's status says that nothing runs in it; False when it is not told."""
    status = pod.get("status", {})
    if status.get("phase") in {_PENDING, *_ENDED}:
        return True
    states = [container.get("state", {}) for container in status.get("containerStatuses", ())]
    return bool(states) and all("waiting" in state or "terminated" in state for state in states)


def is_outdated(pod: KubeObject, update_revision: str) -> bool:
    """Return whether the pod was made from another template than the newest."""
    revision: object = pod["metadata"].get("labels", {}).get(REVISION_LABEL)
    return revision != update_revision


def has_address(pod: KubeObject) -> bool:
    """Return whether the address in the pod's status is its own.

    One that has ended still shows the address that it had, and that may be another pod's by now.
    """
    status = pod.get("status", {})
    return bool(status.get("podIP")) and status.get("phase") not in _ENDED


def is_overdue(pod: KubeObject, now: datetime) -> bool:
    """Return whether the pod is being deleted and should be gone by now."""
    text = str(pod["metadata"].get("deletionTimestamp", ""))
    try:
        return now - datetime.fromisoformat(text) > timedelta(seconds=OVERDUE_S)
    except (ValueError, TypeError):
        return False


def going(pod: KubeObject, now: datetime) -> str:
    """Return that the pod is being deleted, and if it should be gone by now, where to look."""
    if not is_overdue(pod, now):
        return "is being deleted"
    text = pod["metadata"]["deletionTimestamp"]
    return (
        f"is being deleted and should have been gone at {text}: look whether node "
        f"{node_name(pod)} works"
    )


def node_name(pod: KubeObject) -> str:
    """Return the name of the pod's node."""
    return str(pod.get("spec", {}).get("nodeName") or "of it")


def pod_problem(pod: KubeObject) -> str | None:
    """Return why the pod is not ready as Kubernetes sees it, None when it is."""
    if is_terminating(pod):
        return "is being deleted"
    if is_ready(pod):
        return None
    status = pod.get("status", {})
    if status.get("phase") == "Failed" and status.get("reason"):
        return f"has failed: {status['reason']}"  # such as Evicted
    return _container_problem(pod) or _scheduling_problem(pod) or "is not ready yet"


def newest(pods: Iterable[KubeObject]) -> KubeObject | None:
    """Return the pod that was made last, None without any."""
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


def last_words(pod: KubeObject) -> str:
    """Return the last line that a container of the pod said before it ended badly."""
    for container in pod.get("status", {}).get("containerStatuses", ()):
        terminated = container.get("state", {}).get("terminated") or {}
        if terminated.get("exitCode"):
            return _last_line(terminated)
    return ""


def _last_line(terminated: dict[str, Any]) -> str:
    """Return what a container said last, without the time and place that a log line begins with."""
    lines = str(terminated.get("message", "")).strip().splitlines()
    text = lines[-1] if lines else ""
    try:
        entry = json.loads(text)
    except ValueError:
        entry = None
    said = entry.get("message") if isinstance(entry, dict) else None
    plain = said if isinstance(said, str) else _LOG_HEAD.sub("", text)
    return printable(plain)[:MAX_WORDS_LENGTH].strip()


def _container_problem(pod: KubeObject) -> str | None:
    for container in pod.get("status", {}).get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            # The reason only: messages carry back-off times, which would change all the time.
            return f"container {container['name']}: {waiting['reason']}{_last_end(container)}"
        terminated = container.get("state", {}).get("terminated")
        if terminated:
            return f"container {container['name']} ended with code {terminated.get('exitCode')}"
        if _last_end(container):
            return f"container {container['name']} is not ready yet{_last_end(container)}"
    return None


def _last_end(container: dict[str, Any]) -> str:
    """Return how the container ended before it was started again, empty when it did not."""
    terminated = container.get("lastState", {}).get("terminated")
    if not terminated:
        return ""
    reason, code = terminated.get("reason"), terminated.get("exitCode")
    why = f" ({reason})" if reason not in (None, "Error", "Completed") else ""
    # Of one that was killed the last line is about anything.
    said = _last_line(terminated) if isinstance(code, int) and 0 < code < KILLED else ""
    return with_reason(f"; it ended with code {code}{why} before", said)


def _scheduling_problem(pod: KubeObject) -> str | None:
    condition = _condition(pod, "PodScheduled")
    if condition is None or condition.get("status") != "False":
        return None
    return f"cannot be scheduled: {condition.get('message', condition.get('reason', ''))}"


def _condition(pod: KubeObject, kind: str) -> dict[str, Any] | None:
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == kind), None)
