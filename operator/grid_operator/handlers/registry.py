"""The kopf handlers: every event becomes a key in the work queue, nothing else happens here.

Only `on.event` handlers are used: kopf then writes neither annotations nor finalizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kopf

from grid_operator.api.names import CLUSTER_LABEL, GROUP, PLURAL, VERSION
from grid_operator.ports.kube import LABELLED_KINDS
from grid_operator.reconcile.reconciler import ClusterKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping


def make_registry(
    add: Callable[[ClusterKey], object],
    connect: Callable[[], Awaitable[kopf.AiohttpSession]],
    seen: Callable[[str], None],
) -> kopf.OperatorRegistry:
    """Return the handlers.

    Args:
        add: Puts a key into the work queue.
        connect: Called at start and whenever the API server answers 401.
        seen: Told the resource of each event.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return await connect()

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def on_cluster(namespace: str | None, name: str, **_: Any) -> None:
        seen(PLURAL)
        add(ClusterKey(namespace or "", name))

    async def on_child(
        resource: kopf.Resource, namespace: str | None, labels: Mapping[str, str], **_: Any
    ) -> None:
        seen(resource.plural)
        add(ClusterKey(namespace or "", labels[CLUSTER_LABEL]))

    for api_version, _kind, plural in LABELLED_KINDS:
        group, _, version = api_version.rpartition("/")
        kopf.on.event(
            group, version, plural, labels={CLUSTER_LABEL: kopf.PRESENT}, registry=registry
        )(on_child)
    return registry
