"""What the containers of a pod say: the operator's own one, and those that others have put into it.

A mesh or a policy adds containers when a pod is made. Whether a member runs, and how it ended, is
told by its own container alone; another container only matters when it keeps the pod from being
ready.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from grid_operator.decide.words import printable, with_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_operator.api.objects import KubeObject

KILLED: Final = 128
"""Exit codes from here on tell of a signal."""
MAX_WORDS_LENGTH: Final = 512
"""Of a container, in characters."""
_BEGINNING: Final = frozenset({None, "ContainerCreating", "PodInitializing"})
"""Reasons to wait that every container has before it starts."""
_LOG_HEAD: Final = re.compile(r"^\d{4}-\d\d-\d\dT\S+Z [A-Z]+ ")


def container_status(pod: KubeObject, name: str) -> dict[str, Any] | None:
    """Return what the kubelet says of the container with this name, None when it says nothing."""
    statuses: list[dict[str, Any]] = pod.get("status", {}).get("containerStatuses") or []
    return next((status for status in statuses if status.get("name") == name), None)


def exit_code(pod: KubeObject, name: str) -> int | None:
    """Return the exit code of a container that has ended for good, None while it has not."""
    status = container_status(pod, name) or {}
    code = (status.get("state", {}).get("terminated") or {}).get("exitCode")
    return code if isinstance(code, int) else None


def last_words(pod: KubeObject, name: str) -> str:
    """Return the last line that the container wrote before it ended badly, empty otherwise."""
    if not exit_code(pod, name):
        return ""
    status = container_status(pod, name) or {}
    return _last_line(status["state"]["terminated"])


def has_begun(status: dict[str, Any] | None) -> bool:
    """Return whether the container was started at least once."""
    state = (status or {}).get("state", {})
    return "running" in state or "terminated" in state or bool((status or {}).get("lastState"))


def own_problem(pod: KubeObject, name: str) -> str | None:
    """Return why the operator's own container does not work, None when it gives no reason."""
    status = container_status(pod, name)
    if status is None or status.get("ready"):
        return None
    return _problem(f"container {name}", status)


def others_problems(pod: KubeObject, own: str) -> list[str]:
    """Return a line per container of others that keeps the pod from being ready."""
    return [*_init_problems(pod), *_beside_problems(pod, own)]


def _beside_problems(pod: KubeObject, own: str) -> Iterator[str]:
    for status in pod.get("status", {}).get("containerStatuses") or ():
        name = status.get("name")
        if name == own or status.get("ready"):
            continue
        found = _problem(f"container {name}", status)
        if found is None and "running" in status.get("state", {}):
            found = f"container {name} is not ready yet"
        if found is not None:
            yield found


def _init_problems(pod: KubeObject) -> Iterator[str]:
    specs = pod.get("spec", {}).get("initContainers") or ()
    sidecars = {spec["name"] for spec in specs if spec.get("restartPolicy") == "Always"}
    for status in pod.get("status", {}).get("initContainerStatuses") or ():
        name = status.get("name")
        if status.get("ready"):
            continue  # one that has ended well is ready as well
        found = _problem(f"init container {name}", status)
        if found is None and "running" in status.get("state", {}):
            missing = "is not ready" if name in sidecars else "has not ended"
            found = f"init container {name} {missing} yet"
        if found is not None:
            yield found


def _problem(title: str, status: dict[str, Any]) -> str | None:
    state = status.get("state", {})
    waiting, terminated = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason") not in _BEGINNING:
        # The reason only: messages carry back-off times, which would change all the time.
        return f"{title}: {waiting['reason']}{_last_end(status)}"
    if terminated:
        return f"{title} ended with code {terminated.get('exitCode')}"
    before = _last_end(status)
    return f"{title} is not ready yet{before}" if before else None


def _last_end(status: dict[str, Any]) -> str:
    """Return how the container ended before it was started again, empty when it did not."""
    terminated = status.get("lastState", {}).get("terminated")
    if not terminated:
        return ""
    reason, code = terminated.get("reason"), terminated.get("exitCode")
    why = f" ({reason})" if reason not in (None, "Error", "Completed") else ""
    # Of one that was killed the last line is about anything.
    said = _last_line(terminated) if isinstance(code, int) and 0 < code < KILLED else ""
    return with_reason(f"; it ended with code {code}{why} before", said)


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
