"""Clusters whose data comes from a backup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_operator.render import render_children
from tests.unit.operator.api.clusters import CONTEXT, make_cluster

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject

COPYING: dict[str, Any] = {
    "id": "restore-1",
    "kind": "Restore",
    "step": "Copy",
    "started": "2026-01-01T00:00:00Z",
    "stepStarted": "2026-01-01T00:00:00Z",
}


def restoring_cluster(
    source: dict[str, Any], operation: dict[str, Any] | None, **spec: Any
) -> GridCluster:
    """Return a cluster that is made from a backup, at the given step."""
    wanted = {"persistence": {"enabled": True, "size": "3Gi"}, "restoreFrom": source, **spec}
    status = {} if operation is None else {"operation": operation}
    return make_cluster(wanted, status=status)


def restore_children(**source: Any) -> tuple[KubeObject, ...]:
    """Return the children of a cluster while its volume is filled."""
    return render_children(restoring_cluster(source or {"cluster": "old"}, COPYING), CONTEXT)
