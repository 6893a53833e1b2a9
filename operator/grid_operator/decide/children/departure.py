"""Objects that are being deleted: since when, and what holds them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import timestamp

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

OVERDUE_S: Final = 60.0
"""After the end of a pod's grace, which its deletionTimestamp tells: its node does not answer."""


def is_terminating(obj: KubeObject) -> bool:
    """Return whether the object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_overdue(pod: KubeObject, now: datetime) -> bool:
    """Return whether the pod is being deleted and should be gone by now."""
    return _is_past(pod, now, OVERDUE_S)


def going(obj: KubeObject, now: datetime) -> str:
    """Return that the object is being deleted and, if it should be gone by now, what holds it.

    A finalizer is named as soon as the grace is over: what set it, and nothing else, takes it away.
    """
    held = _holding(obj) if _is_past(obj, now) else ""
    late = obj.get("kind") == "Pod" and is_overdue(obj, now) and _may_run(obj)
    if held and not late:
        return f"is being deleted since {_asked_at(obj)}, and {held}"
    if not late:
        return "is being deleted"
    text = obj["metadata"]["deletionTimestamp"]
    more = f"; {held}" if held else ""
    return (
        f"is being deleted and should have been gone at {text}: look whether node "
        f"{node_name(obj)} works{more}"
    )


def former(obj: KubeObject) -> str:
    """Return what holds an object that is being deleted, empty when no finalizer does."""
    held = _holding(obj)
    return f": it is being deleted since {_asked_at(obj)}, and {held}" if held else ""


def node_name(pod: KubeObject) -> str:
    """Return the name of the pod's node."""
    return str(pod.get("spec", {}).get("nodeName") or "of it")


def _holding(obj: KubeObject) -> str:
    names = ", ".join(obj["metadata"].get("finalizers") or ())
    if not is_terminating(obj) or not names:
        return ""
    return f"its finalizer {names} holds it"


def _may_run(pod: KubeObject) -> bool:
    """Return whether a container of the pod may still run: only its node says that none does."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    ended = ("terminated" in status.get("state", {}) for status in statuses)
    return not (statuses and all(ended))


def _asked_at(obj: KubeObject) -> str:
    """Return when the deletion was asked for: the timestamp is that of the end of the grace."""
    meta = obj["metadata"]
    end = _end_of_grace(obj)
    grace_s = float(meta.get("deletionGracePeriodSeconds") or 0)
    if end is None:
        return str(meta.get("deletionTimestamp"))
    return timestamp(end - timedelta(seconds=grace_s))


def _is_past(obj: KubeObject, now: datetime, margin_s: float = 0.0) -> bool:
    end = _end_of_grace(obj)
    return end is not None and now - end > timedelta(seconds=margin_s)


def _end_of_grace(obj: KubeObject) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(obj["metadata"].get("deletionTimestamp", "")))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
