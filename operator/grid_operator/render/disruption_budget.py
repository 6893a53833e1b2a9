"""The PodDisruptionBudget of several members: nobody takes two of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.names import disruption_budget_name, selector_labels
from grid_operator.render.metadata import child_metadata

if TYPE_CHECKING:
    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject


def disruption_budget(cluster: GridCluster) -> KubeObject | None:
    """Return the budget, None for a single member: it would keep its node from being drained."""
    if cluster.spec.is_alone:
        return None
    name = cluster.metadata.name
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(cluster, disruption_budget_name(name)),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector_labels(name)}},
    }
