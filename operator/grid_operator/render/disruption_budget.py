"""The PodDisruptionBudget of several members: nobody takes two of them at once.

It lets one go, and none while the cluster says that it is not safe to take one: whoever drains one
node after the other would else be faster than the copies. A member that is not ready may always
go, so that a broken one never keeps its own node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.conditions import ConditionStatus, ConditionType, find_condition
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
    safe = find_condition(cluster.status.conditions, ConditionType.SAFE_TO_DISRUPT)
    unsafe = safe is not None and safe.status == ConditionStatus.FALSE
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(cluster, disruption_budget_name(name)),
        "spec": {
            "maxUnavailable": 0 if unsafe else 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector_labels(name)},
        },
    }
