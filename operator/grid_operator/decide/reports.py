"""What Kubernetes reports of pods that it cannot make and volumes that it cannot bind.

A pod that a policy, a quota or a webhook forbids never exists, and no condition of its StatefulSet
or Job says why: only Events do. They are asked for once something has been missing for a while.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from grid_operator.api.conditions import ConditionStatus, ConditionType, find_condition
from grid_operator.api.names import MEMBER_CONTAINER, RESTORE_CONTAINER, statefulset_name
from grid_operator.decide.children.departure import is_terminating
from grid_operator.decide.containers import container_status, has_begun
from grid_operator.decide.pods import is_unscheduled, pod_name
from grid_operator.decide.situation import moment, since
from grid_operator.decide.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import Observed

PATIENCE_S: Final = 10.0
"""Before Events are asked for: most pods that are missing are made within a second."""
MAX_REPORT_LENGTH: Final = 512
"""In characters."""
NO_RIGHT: Final = "Events say why, and the operator may not list them: give it its version's Role"
_COMBINED: Final = "(combined from similar events): "
_OF_SET: Final = re.compile(
    r"create (?:Claim \S+ (?:for )?)?Pod (?P<pod>\S+) in StatefulSet", re.IGNORECASE
)
_AFTER_SET: Final = "failed error: "
_AFTER_JOB: Final = "Error creating: "
_GENERATED: Final = re.compile(r"-[a-z0-9]{5}(?=\")")
"""The end of the name of a Job's pod, another one each time."""
_IDENTIFIER: Final = re.compile(r"\b[0-9a-f]{12,}\b")
_REFUSED: Final = "FailedCreate"
_MADE: Final = "SuccessfulCreate"
_UNBOUND: Final = "FailedBinding"
"""Recorded as Normal, although a claim without a StorageClass waits until it gets a volume."""
_CREATING: Final = frozenset({"ContainerCreating", "PodInitializing"})


def asked_about(observed: Observed, now: datetime) -> tuple[KubeObject, ...]:
    """Return the objects whose Events say what is in the way; mostly none."""
    cluster = observed.cluster
    ready = find_condition(cluster.status.conditions, ConditionType.READY)
    if ready is None or ready.status is ConditionStatus.TRUE:
        return ()
    if since(ready.last_transition_time, now) < timedelta(seconds=PATIENCE_S):
        return ()
    if cluster.metadata.deletion_timestamp is not None:
        return ()
    return (*_makers(observed), *_unbound_claims(observed), *_unmade_pods(observed))


def _makers(observed: Observed) -> Iterator[KubeObject]:
    """Yield the StatefulSet and the Job of which a pod is missing."""
    for child in observed.children:
        if child["kind"] == "StatefulSet" and missing_pods(observed, child):
            yield child
        ended = child.get("status", {}).get("conditions")
        if child["kind"] == "Job" and not observed.job_pods and not ended:
            yield child


def missing_pods(observed: Observed, statefulset: KubeObject) -> list[str]:
    """Return the names of pods that the StatefulSet wants and that do not exist."""
    base = statefulset_name(observed.cluster.metadata.name)
    if statefulset["metadata"]["name"] != base:
        return []
    there = set(map(pod_name, observed.pods))
    replicas = int(statefulset["spec"].get("replicas", 0))
    wanted = (f"{base}-{ordinal}" for ordinal in range(replicas))
    return [name for name in wanted if name not in there]


def _unbound_claims(observed: Observed) -> Iterator[KubeObject]:
    if not any(is_unscheduled(pod) for pod in (*observed.pods, *observed.job_pods)):
        return
    for claim in observed.claims:
        if claim.get("status", {}).get("phase") == "Pending":
            yield claim


def _unmade_pods(observed: Observed) -> Iterator[KubeObject]:
    """Yield pods that have a node, and whose own container that node cannot create."""
    pods = ((pod, MEMBER_CONTAINER) for pod in observed.pods)
    job_pods = ((pod, RESTORE_CONTAINER) for pod in observed.job_pods)
    for pod, name in (*pods, *job_pods):
        own = container_status(pod, name)
        waiting = (own or {}).get("state", {}).get("waiting", {})
        if not is_terminating(pod) and not has_begun(own) and waiting.get("reason") in _CREATING:
            yield pod


def unreadable(observed: Observed, obj: KubeObject) -> dict[str, str]:
    """Return what is told in place of Events that the operator may not list."""
    names = missing_pods(observed, obj) if obj["kind"] == "StatefulSet" else []
    return dict.fromkeys(names or [str(obj["metadata"]["name"])], NO_RIGHT)


def read_events(obj: KubeObject, events: Iterable[KubeObject]) -> dict[str, str]:
    """Return what an object's Events report, by the name of the pod or claim that it is about.

    What has succeeded since is not reported any more. Numbers and names that are others each time
    are left out, or the status would change with every attempt.
    """
    readers = {"StatefulSet": _of_set, "Job": _of_job}
    newest: dict[str, tuple[datetime, bool, str]] = {}
    for event in events:
        found = readers.get(obj["kind"], _of_itself)(obj, event)
        time = _time(event)
        if found is None or time is None:
            continue
        name, text = found
        # Within one second an attempt that failed comes after one that succeeded.
        entry = (time, bool(text), text)
        newest[name] = max(newest.get(name, entry), entry)
    return {name: text for name, (_, failed, text) in newest.items() if failed}


def _of_set(obj: KubeObject, event: KubeObject) -> tuple[str, str] | None:
    message = _message(event)
    about = _OF_SET.search(message)
    if about is None or event.get("reason") not in (_REFUSED, _MADE):
        return None
    if event["reason"] == _MADE:
        # A claim that was made says nothing of its pod.
        return None if "Claim" in about.group() else (about["pod"], "")
    return about["pod"], _shortened(message.partition(_AFTER_SET)[2] or message)


def _of_job(obj: KubeObject, event: KubeObject) -> tuple[str, str] | None:
    name = str(obj["metadata"]["name"])
    if event.get("reason") == _MADE:
        return name, ""
    if event.get("reason") != _REFUSED:
        return None
    message = _message(event).removeprefix(_AFTER_JOB)
    return name, _shortened(_GENERATED.sub("", message))


def _of_itself(obj: KubeObject, event: KubeObject) -> tuple[str, str] | None:
    name = str(obj["metadata"]["name"])
    if event.get("type") == "Warning" or event.get("reason") == _UNBOUND:
        return name, _shortened(_IDENTIFIER.sub("…", _message(event)))
    # A pod got on: it has a node now, or its image is being pulled. A claim that waits did not.
    return (name, "") if obj["kind"] == "Pod" else None


def _message(event: KubeObject) -> str:
    return str(event.get("message", "")).removeprefix(_COMBINED)


def _shortened(text: str) -> str:
    return printable(text)[:MAX_REPORT_LENGTH].strip()


def _time(event: KubeObject) -> datetime | None:
    series: dict[str, Any] = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((found for text in times if (found := moment(text)) is not None), None)
