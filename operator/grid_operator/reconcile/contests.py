"""Children that somebody else changes again and again.

Each time the operator sets one back, the other writes again, and neither ends. The operator gives
way in time, not in substance: after some repairs it sets the child back once a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.api.objects import ObjectRef

FREE_REPAIRS: Final = 20
"""Of one child, at once; people who try things out need fewer."""
CALM_S: Final = 600.0
"""Without a repair for so long, the contest is over."""
REPAIR_PERIOD_S: Final = 60.0
"""Between two repairs of a contested child."""
MAX_CHILDREN: Final = 10_000
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
        self._repairs: dict[ObjectRef, _Repairs] = {}

    def note(self, ref: ObjectRef) -> None:
        """Note that a child is set back now."""
        now = self._steady_s()
        before = self._repairs.pop(ref, None)
        calm = before is None or now - before.last_s >= CALM_S
        self._repairs[ref] = _Repairs(1 if before is None or calm else before.count + 1, now)
        while len(self._repairs) > MAX_CHILDREN:
            del self._repairs[next(iter(self._repairs))]

    def contested(self, *refs: ObjectRef) -> frozenset[ObjectRef]:
        """Return which of these were set back more often than anybody tries things out."""
        return frozenset(ref for ref in refs if self._is_over(ref, CALM_S))

    def held(self, *refs: ObjectRef) -> frozenset[ObjectRef]:
        """Return which of these must not be set back yet."""
        return frozenset(ref for ref in refs if self._is_over(ref, REPAIR_PERIOD_S))

    def _is_over(self, ref: ObjectRef, period_s: float) -> bool:
        found = self._repairs.get(ref)
        if found is None or found.count <= FREE_REPAIRS:
            return False
        return self._steady_s() - found.last_s < period_s
