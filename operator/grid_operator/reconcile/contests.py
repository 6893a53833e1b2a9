"""Children that somebody else changes, or deletes, again and again.

Each time the operator sets one back, the other writes again, and neither ends. The operator gives
way in time, not in substance: after some repairs it sets the child back once a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import KubeObject, ObjectRef

FREE_REPAIRS: Final = 20
"""Of one child, at once; people who try things out need fewer."""
CALM_S: Final = 600.0
"""Without a repair for so long, the contest is over."""
REPAIR_PERIOD_S: Final = 60.0
"""Between two repairs of a contested child."""
MAX_CLUSTERS: Final = 2_000
"""That are remembered; beyond it the ones that were repaired first are forgotten."""


@dataclass(frozen=True, slots=True)
class _Repairs:
    count: int
    last_s: float


class Contests:
    """Counts the repairs of each child. A restart of the operator forgets them."""

    def __init__(self, steady_s: Callable[[], float]) -> None:
        """Know of none; `steady_s` is a monotonic clock, in seconds."""
        self._steady_s = steady_s
        self._repairs: dict[str, dict[ObjectRef, _Repairs]] = {}
        """By uid of the GridCluster."""

    def note(self, cluster: KubeObject, ref: ObjectRef) -> None:
        """Note that a child is set back, or made, now."""
        now, uid = self._steady_s(), cluster["metadata"]["uid"]
        if uid not in self._repairs and len(self._repairs) >= MAX_CLUSTERS:
            del self._repairs[next(iter(self._repairs))]
        of_cluster = self._repairs.setdefault(uid, {})
        before = of_cluster.get(ref)
        calm = before is None or now - before.last_s >= CALM_S
        of_cluster[ref] = _Repairs(1 if before is None or calm else before.count + 1, now)

    def contested(self, cluster: KubeObject) -> frozenset[ObjectRef]:
        """Return the children that were set back more often than anybody tries things out."""
        return self._repaired(cluster, CALM_S)

    def held(self, cluster: KubeObject) -> frozenset[ObjectRef]:
        """Return those of them that must not be set back yet."""
        return self._repaired(cluster, REPAIR_PERIOD_S)

    def _repaired(self, cluster: KubeObject, period_s: float) -> frozenset[ObjectRef]:
        since_s = self._steady_s() - period_s
        known = self._repairs.get(cluster["metadata"]["uid"], {})
        return frozenset(
            ref for ref, r in known.items() if r.count > FREE_REPAIRS and r.last_s > since_s
        )
