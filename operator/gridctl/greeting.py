"""What `gridctl up` prints when the cluster is ready: addresses and lines to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.gridcluster import GridCluster
from grid_operator.api.network import EndpointGroupName

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grid_operator.api.objects import KubeObject


def greeting(obj: KubeObject, addresses: Sequence[str], directory: Path) -> str:
    """Return the text for a cluster that has become ready, its members at these addresses."""
    cluster = GridCluster.from_kube(obj)
    scheme = "http" if cluster.spec.tls is None else "https"
    urls = [f"{scheme}://{address}:{cluster.spec.rest_port}" for address in addresses]
    lines = ["", f"{cluster.metadata.name} is ready", *(f"  REST   {url}" for url in urls)]
    if cluster.spec.persistence.enabled:
        lines.append(f"  Data   {directory}")
    lines += ["", *_curl_lines(cluster, urls[0] if urls else "")]
    return "\n".join([*lines, "", "Ctrl-C stops it.", ""])


def _curl_lines(cluster: GridCluster, url: str) -> list[str]:
    groups = {group.name: group.enabled for group in cluster.spec.rest.endpoint_groups}
    if not groups.get(EndpointGroupName.DATA, False):
        return [f"curl {url}/grid/health"]
    lines = []
    if cluster.spec.maps:
        entry = f"{url}/grid/rest/maps/{cluster.spec.maps[0].name}/greeting"
        lines.append(f"curl -d hello {entry} && curl -w '\\n' {entry}")
    if cluster.spec.queues:
        queue = f"{url}/grid/rest/queues/{cluster.spec.queues[0].name}"
        lines.append(f"curl -d hello {queue} && curl -w '\\n' -X DELETE {queue}/1")
    return lines or [f"curl {url}/grid/health"]
