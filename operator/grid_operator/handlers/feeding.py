"""What watches pass on becomes keys of the work queue."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from grid_operator.api.names import PLURAL
from grid_operator.ports.errors import Rejected
from grid_operator.reconcile.reconciler import ClusterKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_operator.handlers.hearing import Hearing
    from grid_operator.ports.kubernetes.watch import ObjectMeta, WatchTarget
    from grid_operator.ports.metrics import OperatorMetrics
    from grid_operator.reconcile.queue import WorkQueue

LOG: Final = logging.getLogger(__name__)


def forgetting(
    reconcile: Callable[[ClusterKey], Awaitable[float | None]], hearing: Hearing
) -> Callable[[ClusterKey], Awaitable[float | None]]:
    """Return a reconcile that gives up clusters of which nothing can be known.

    The API server refuses the cluster, and the list of all in its namespace: the rights went, often
    together with the namespace. When they come back the watch begins with a list, which passes on
    what the queue has forgotten.
    """

    async def look(key: ClusterKey) -> float | None:
        try:
            return await reconcile(key)
        except Rejected as refusal:
            if not hearing.is_refused(PLURAL, key.namespace):
                raise
            LOG.warning("%s: is not looked after until it can be listed: %s", key, refusal)
            return None

    return look


class QueueFeed:
    """Implements `watching.Sink`: each object makes its cluster due, nothing else happens here."""

    def __init__(self, queue: WorkQueue[ClusterKey], metrics: OperatorMetrics) -> None:
        self._queue = queue
        self._metrics = metrics

    def changed(self, target: WatchTarget, meta: ObjectMeta) -> bool:
        """Make the object's cluster due; return false when the queue is full."""
        self._metrics.watch_event(target.plural)
        key = cluster_key(target, meta)
        return key is None or self._queue.add(key)

    def has(self, target: WatchTarget, meta: ObjectMeta) -> bool:
        """Return whether the queue knows the object's cluster."""
        key = cluster_key(target, meta)
        return key is None or key in self._queue


def cluster_key(target: WatchTarget, meta: ObjectMeta) -> ClusterKey | None:
    """Return the cluster that an object is, or belongs to by its label; None: to none."""
    name = meta.name if target.plural == PLURAL else meta.cluster
    return None if name is None else ClusterKey(meta.namespace, name)
