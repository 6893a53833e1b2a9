"""GridClusters as a table: the columns that `kubectl get gc` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gridctl.explain import worth_telling
from gridctl.judging import activity, is_ready, status_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from grid_operator.api.objects import KubeObject

HEADER: Final = ("NAMESPACE", "NAME", "SIZE", "READY", "STATE", "VERSION", "AGE")
GAP: Final = "   "
MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S


def cluster_row(cluster: KubeObject, now: datetime) -> tuple[str, ...]:
    """Return one GridCluster's cells, in the order of `HEADER`."""
    meta, status = cluster["metadata"], cluster.get("status", {})
    ready: dict[str, str] = next(
        (c for c in status.get("conditions", ()) if c["type"] == "Ready"), {}
    )
    return (
        meta["namespace"],
        meta["name"],
        str(cluster.get("spec", {}).get("size", 1)),
        str(ready.get("status", "Unknown")),
        str(status.get("clusterState", "")),
        str(status.get("clusterVersion", "")),
        age_text(meta.get("creationTimestamp"), now),
    )


def problem_lines(cluster: KubeObject) -> list[str]:
    """Return, for a cluster that is not Ready, why, and what is under way."""
    status = status_of(cluster)
    if is_ready(status):
        return []
    name = f"{cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
    lines = [
        f"{name}: {c.type} is {c.status.value} ({c.reason}): {c.message}"
        for c in worth_telling(status)
    ]
    return [*lines, f"{name}: {activity(cluster)}"] if status.operation is not None else lines


def age_text(created: str | None, now: datetime) -> str:
    """Return the age in the largest unit that makes at least 2, as kubectl does."""
    if created is None:
        return ""
    seconds = int((now - type(now).fromisoformat(created)).total_seconds())
    for unit_s, letter in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "m")):
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s}{letter}"
    return f"{max(seconds, 0)}s"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return header and rows as aligned text."""
    lines = [HEADER, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    return "\n".join(
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
