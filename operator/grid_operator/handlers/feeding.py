"""What watches pass on becomes keys of the work queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.names import PLURAL
from grid_operator.reconcile.reconciler import ClusterKey

if TYPE_CHECKING:
    from grid_operator.ports.kube_watch import ObjectMeta, WatchTarget
    from grid_operator.ports.metrics import OperatorMetrics
    from grid_operator.reconcile.queue import WorkQueue


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
