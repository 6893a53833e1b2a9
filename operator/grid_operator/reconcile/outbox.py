"""Events that are still to be recorded, kept over rounds in which the API server refuses them.

Events inform people; nothing depends on them. They are kept in memory, within bounds, until the
API server takes them; what a restart of the operator loses is lost.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from grid_operator.api.conditions import ChildrenReason
from grid_operator.api.objects import ObjectRef
from grid_operator.decide.events import EventReason
from grid_operator.ports.errors import OperatorError, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_operator.api.objects import KubeObject
    from grid_operator.decide.model import ClusterEvent
    from grid_operator.ports.api import Kube

LOG: Final = logging.getLogger(__name__)

MAX_CLUSTERS: Final = 2_000
MAX_EVENTS: Final = 32
"""Of one cluster; beyond it the oldest are dropped."""
SAME_AGAIN_S: Final = 600.0
"""An Event of `_LIMITED` that says the same is told again after this: somebody who sets a field
back against the operator again and again is told of once in a while."""
MAX_TOLD: Final = 10_000
"""Events of `_LIMITED` that are remembered; while there are so many, no more are told."""
_LIMITED: Final = frozenset(
    {
        EventReason.DRIFT_REVERTED.value,
        ChildrenReason.ADMITTED.value,
        ChildrenReason.CONTESTED.value,
    }
)


class Outbox:
    """Records Events, again and again until the API server has them."""

    def __init__(self, kube: Kube, steady_s: Callable[[], float]) -> None:
        """Make an empty one.

        Args:
            kube: Where Events are recorded.
            steady_s: A monotonic clock, in seconds.
        """
        self._kube = kube
        self._steady_s = steady_s
        self._kept: dict[str, deque[ClusterEvent]] = {}
        self._told: dict[tuple[str, ClusterEvent], float] = {}

    def put(self, cluster: KubeObject, events: Iterable[ClusterEvent]) -> None:
        """Keep these behind what is kept already."""
        uid = cluster["metadata"]["uid"]
        news = [event for event in events if self._is_news(uid, event)]
        for event in news:
            LOG.info("%s: %s: %s", ObjectRef.of(cluster), event.reason, event.message)
        if not news:
            return
        if uid not in self._kept and len(self._kept) >= MAX_CLUSTERS:
            del self._kept[next(iter(self._kept))]
        self._kept.setdefault(uid, deque(maxlen=MAX_EVENTS)).extend(news)

    async def send(self, cluster: KubeObject) -> None:
        """Record what is kept for the cluster, in its order, as far as possible."""
        uid = cluster["metadata"]["uid"]
        kept = self._kept.get(uid)
        while kept and await self._recorded(cluster, kept[0]):
            kept.popleft()
        if not kept:
            self._kept.pop(uid, None)

    async def _recorded(self, cluster: KubeObject, event: ClusterEvent) -> bool:
        """Record one; return whether it needs no further attempt."""
        try:
            await self._kube.record_event(cluster, event)
        except Rejected as error:
            LOG.warning("%s: Event %s is lost: %s", ObjectRef.of(cluster), event.reason, error)
        except OperatorError as error:
            LOG.info("%s: Event %s has to wait: %s", ObjectRef.of(cluster), event.reason, error)
            return False
        return True

    def _is_news(self, uid: str, event: ClusterEvent) -> bool:
        if event.reason not in _LIMITED:
            return True
        now = self._steady_s()
        self._told = {k: t for k, t in self._told.items() if now - t < SAME_AGAIN_S}
        if (uid, event) in self._told or len(self._told) >= MAX_TOLD:
            return False
        self._told[uid, event] = now
        return True
