"""GridClusters for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_operator.api.gridcluster import GridCluster
from grid_operator.api.names import API_VERSION, KIND
from grid_operator.render import RenderContext, render_children

if TYPE_CHECKING:
    from grid_operator.api.objects import KubeObject

CONTEXT = RenderContext("grid-system", "grid-operator", "a-password")

FULL_SPEC: dict[str, Any] = {
    "image": "registry.example/grid-member:1",
    "imagePullPolicy": "Always",
    "clusterName": "orders",
    "rest": {
        "endpointGroups": [
            {"name": "Data", "enabled": True},
            {"name": "ClusterRead", "enabled": False},
        ]
    },
    "maps": [{"name": "default"}, {"name": "session-*", "timeToLiveSeconds": 60}],
    "queues": [{"name": "jobs", "maxSize": 10}],
    "persistence": {"enabled": True, "size": "2Gi", "storageClassName": "fast"},
    "logging": {"format": "Text", "level": "Debug"},
    "pod": {
        "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": 2}},
        "env": [{"name": "TZ", "value": "UTC"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"key": "grid", "operator": "Exists"},
            {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
        ],
        "annotations": {"example.org/team": "grid"},
        "labels": {"team": "grid"},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "deletionPolicy": "Delete",
}


def make_cluster(
    spec: dict[str, Any] | None = None, name: str = "demo", **metadata: Any
) -> GridCluster:
    """Return a GridCluster as the API server would hand it out."""
    meta = {"name": name, "namespace": "default", "uid": "uid-1", "generation": 1, **metadata}
    return GridCluster.from_kube(
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec or {}}
    )


def render(spec: dict[str, Any] | None = None) -> tuple[KubeObject, ...]:
    """Return the children of a cluster with this spec."""
    return render_children(make_cluster(spec), CONTEXT)
