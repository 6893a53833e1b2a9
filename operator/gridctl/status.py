"""`gridctl status`: what `kubectl get gc` shows, for local and for Kubernetes clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.ports.kube import KubeClient
from grid_operator.ports.kube_rest import KubeRest
from gridctl.local_state import LocalState

if TYPE_CHECKING:
    from pathlib import Path

    from grid_operator.api.objects import KubeObject


def fetch_local(data_dir: Path) -> list[KubeObject]:
    """Return the clusters that `gridctl up` runs now from this data directory."""
    running = (state.read_running() for state in LocalState.all_in(data_dir))
    return [cluster for cluster in running if cluster is not None]


async def fetch_kubernetes(
    kubeconfig: str, context: str | None, namespace: str | None
) -> list[KubeObject]:
    """Return the GridClusters of a namespace, or of all namespaces.

    Raises:
        OperatorError: The API server cannot be asked, or refuses.
    """
    rest = await KubeRest.connect(kubeconfig, context)
    try:
        return await KubeClient(rest, "gridctl").fetch_clusters(namespace)
    finally:
        await rest.close()
