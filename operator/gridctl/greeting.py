"""What `gridctl up` prints when the cluster is ready: addresses and lines to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.gridcluster import GridCluster
from grid_operator.api.names import PASSWORD_KEY, TLS_AUTHORITY_KEY, identity_secret_name
from grid_operator.api.network import EndpointGroupName
from grid_operator.ports.local.secret_files import secret_directory
from grid_operator.render.secrets import IDENTITY_USER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grid_operator.api.objects import KubeObject


def greeting(obj: KubeObject, addresses: Sequence[str], data_dir: Path) -> str:
    """Return the text for a cluster that has become ready, its members at these addresses."""
    cluster = GridCluster.from_kube(obj)
    scheme = "http" if cluster.spec.tls is None else "https"
    urls = [f"{scheme}://{address}:{cluster.spec.rest_port}" for address in addresses]
    lines = ["", f"{cluster.metadata.name} is ready", *(f"  REST   {url}" for url in urls)]
    meta = cluster.metadata
    if cluster.spec.persistence.enabled:
        lines.append(f"  Data   {data_dir / meta.namespace / meta.name}")
    for user, secret in _callers(cluster):
        path = secret_directory(data_dir, meta.namespace, secret) / PASSWORD_KEY
        lines.append(f"  User   {user}, password in {path}")
    curl = " ".join(["curl", *_curl_options(cluster, data_dir)])
    lines += ["", *_curl_lines(cluster, curl, urls[0] if urls else "")]
    return "\n".join([*lines, "", "Ctrl-C stops it.", ""])


def _callers(cluster: GridCluster) -> list[tuple[str, str]]:
    """Return who may call, and the Secrets with their passwords."""
    security = cluster.spec.security
    if not security.enabled:
        return []
    users = [(user.name, user.secret_name) for user in security.users]
    return users or [(IDENTITY_USER, identity_secret_name(cluster.metadata.name))]


def _curl_options(cluster: GridCluster, data_dir: Path) -> list[str]:
    namespace, options = cluster.metadata.namespace, []
    if cluster.spec.tls is not None:
        directory = secret_directory(data_dir, namespace, cluster.spec.tls.secret_name)
        options.append(f"--cacert {directory / TLS_AUTHORITY_KEY}")
    if cluster.spec.security.protected:
        user, secret = _callers(cluster)[0]
        path = secret_directory(data_dir, namespace, secret) / PASSWORD_KEY
        options.append(f'-u "{user}:$(cat {path})"')
    return options


def _curl_lines(cluster: GridCluster, curl: str, url: str) -> list[str]:
    groups = {group.name: group.enabled for group in cluster.spec.rest.endpoint_groups}
    if not groups.get(EndpointGroupName.DATA, False):
        return [f"{curl} {url}/grid/health"]
    lines = []
    if cluster.spec.maps:
        entry = f"{url}/grid/rest/maps/{cluster.spec.maps[0].name}/greeting"
        lines.append(f"{curl} -d hello {entry} && {curl} -w '\\n' {entry}")
    if cluster.spec.queues:
        queue = f"{url}/grid/rest/queues/{cluster.spec.queues[0].name}"
        lines.append(f"{curl} -d hello {queue} && {curl} -w '\\n' -X DELETE {queue}/1")
    return lines or [f"{curl} {url}/grid/health"]
