"""What a pod object says: whether it is ready, going, outdated, and why it is not ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.names import MEMBER_CONTAINER, REVISION_LABEL
from grid_operator.decide.children.departure import is_terminating
from grid_operator.decide.containers import (
    container_status,
    has_begun,
    others_problems,
    own_problem,
)
from grid_operator.decide.words import printable, with_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grid_operator.api.objects import KubeObject

_ENDED: Final = frozenset({"Failed", "Succeeded"})
_PENDING: Final = "Pending"


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


def serves(pod: KubeObject) -> bool:
    """Return whether the pod's member can be used, whatever the pod's other containers do."""
    if is_terminating(pod) or pod.get("status", {}).get("phase") in _ENDED:
        return False
    own = container_status(pod, MEMBER_CONTAINER) or {}
    return is_ready(pod) or bool(own.get("ready"))


def has_no_process(pod: KubeObject) -> bool:
    """Return whether the member of the pod does not run; False when that is not told.

    A pod is Pending for as long as any of its containers has not started, such as one that others
    have added and whose image cannot be pulled: its member may run all the same.
    """
    phase = pod.get("status", {}).get("phase")
    if phase in _ENDED:
        return True
    own = container_status(pod, MEMBER_CONTAINER)
    if own is None:
        return bool(phase == _PENDING)
    state = own.get("state", {})
    return "waiting" in state or "terminated" in state


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


def pod_problem(pod: KubeObject, own: str = MEMBER_CONTAINER, said: str = "") -> str | None:
    """Return why the pod is not ready as Kubernetes sees it, None when it is.

    Args:
        pod: The pod.
        own: The container that the operator put into it; what others have added comes after it.
        said: What the process in that container says of itself.
    """
    if is_terminating(pod):
        return "is being deleted"
    if is_ready(pod):
        return None
    status = pod.get("status", {})
    if status.get("phase") == "Failed" and status.get("reason"):
        text = f"has failed: {status['reason']}"  # such as Evicted
        return with_reason(text, printable(str(status.get("message", ""))))
    others = "; ".join(others_problems(pod, own))
    own_status = container_status(pod, own)
    found = own_problem(pod, own) or _scheduling_problem(pod)
    if found is None and ((own_status or {}).get("ready") or not has_begun(own_status)):
        return others or _unmet_gate(pod) or _with_words("is not ready yet", said)
    text = _with_words(found or "is not ready yet", said)
    return f"{text}; {others}" if others else text


def with_reports(problem: str, pod: KubeObject, reports: Mapping[str, str]) -> str:
    """Return the problem with what Kubernetes reports of the pod and of its volume claims."""
    volumes = pod.get("spec", {}).get("volumes") or ()
    claims = (volume.get("persistentVolumeClaim", {}).get("claimName") for volume in volumes)
    told = [f"claim {name}: {reports[name]}" for name in claims if name in reports]
    return "; ".join((with_reason(problem, reports.get(pod_name(pod), "")), *told))


def _with_words(problem: str, said: str) -> str:
    return f"{problem}: it {said}" if said else problem


def _unmet_gate(pod: KubeObject) -> str | None:
    """Return the first readiness gate, which others have put into the pod, that is not met."""
    for gate in pod.get("spec", {}).get("readinessGates") or ():
        kind = str(gate.get("conditionType"))
        if (_condition(pod, kind) or {}).get("status") != "True":
            return f"is not ready: its readiness gate {kind} is not True"
    return None


def newest(pods: Iterable[KubeObject]) -> KubeObject | None:
    """Return the pod that was made last, None without any."""
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


def _scheduling_problem(pod: KubeObject) -> str | None:
    condition = _condition(pod, "PodScheduled")
    if condition is None or condition.get("status") != "False":
        return None
    return f"cannot be scheduled: {condition.get('message', condition.get('reason', ''))}"


def _condition(pod: KubeObject, kind: str) -> dict[str, Any] | None:
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == kind), None)
