"""The kopf handlers: every event becomes a key in the work queue, nothing else happens here.

Only `on.event` handlers are used: kopf then writes neither annotations nor finalizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kopf

from grid_operator.api.names import CLUSTER_LABEL, GROUP, PLURAL, VERSION
from grid_operator.ports.kube import CHILD_KINDS, POD_KIND
from grid_operator.reconcile.reconciler import ClusterKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from grid_operator.ports.kube_rest import Credentials


def make_registry(
    add: Callable[[ClusterKey], object],
    fetch_credentials: Callable[[], Awaitable[Credentials]],
    gauges: Mapping[str, Callable[[], int]],
) -> kopf.OperatorRegistry:
    """Return the handlers.

    Args:
        add: Puts a key into the work queue.
        fetch_credentials: Called at start and whenever the API server answers 401.
        gauges: Numbers that the liveness endpoint shows, by name.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return connection_info(await fetch_credentials())

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def on_cluster(namespace: str | None, name: str, **_: Any) -> None:
        add(ClusterKey(namespace or "", name))

    async def on_child(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        add(ClusterKey(namespace or "", labels[CLUSTER_LABEL]))

    for api_version, _kind, plural in (*CHILD_KINDS, POD_KIND):
        group, _, version = api_version.rpartition("/")
        kopf.on.event(
            group, version, plural, labels={CLUSTER_LABEL: kopf.PRESENT}, registry=registry
        )(on_child)

    for name, gauge in gauges.items():
        kopf.on.probe(id=name, registry=registry)(_probe(gauge))
    return registry


def connection_info(credentials: Credentials) -> kopf.ConnectionInfo:
    """Return the same credentials as kopf wants them."""
    scheme, _, token = (credentials.authorization or "").partition(" ")
    return kopf.ConnectionInfo(
        server=credentials.server,
        ca_path=credentials.ca_path,
        insecure=credentials.insecure,
        certificate_path=credentials.certificate_path,
        private_key_path=credentials.private_key_path,
        scheme=scheme.capitalize() or None,
        token=token or None,
    )


def _probe(gauge: Callable[[], int]) -> Callable[..., Awaitable[int]]:
    async def probe(**_: Any) -> int:
        return gauge()

    return probe
