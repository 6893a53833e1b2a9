"""What each watch has heard and when; an operator whose watches hear nothing has to end.

A watch that fails is begun again by itself (see `watching`), so one that is refused costs only
what it is about: it shows in the log, in the metrics and in the health answer. When no watch at all
has succeeded for `HEARING_LIMIT_S`, something is wrong that a new process may not have: stale
connections, credentials or names. The operator then ends, which also frees its Lease for another.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from grid_operator.ports.errors import Conflict, Rejected, Silent, Unavailable, Unheard
from grid_operator.ports.metrics import DEFECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.ports.kubernetes.watch import WatchTarget
    from grid_operator.ports.metrics import OperatorMetrics

LOG: Final = logging.getLogger(__name__)

HEARING_LIMIT_S: Final = 50.0
"""Longer than the time for which a healthy watch may be without a word, and such that the process
has ended within a minute."""
LOOKS: Final = 50
"""How often it is looked at within that limit."""
REMINDER_S: Final = 600.0
"""A watch that keeps failing in one way is logged this often."""
SHOWN_WATCHES: Final = 50
ALL_NAMESPACES: Final = "*"
"""What stands for all namespaces in labels and answers."""
_REASONS: Final = {
    Conflict: "expired",
    Rejected: "refused",
    Silent: "silent",
    Unavailable: "unavailable",
}


class WatchState:
    """What one watch has heard, and how it fails."""

    def __init__(
        self, target: WatchTarget, now: Callable[[], float], metrics: OperatorMetrics
    ) -> None:
        """Know of a watch that has just been begun and has not heard anything.

        Args:
            target: What it is about.
            now: A monotonic clock, in seconds.
            metrics: Where it is shown.
        """
        self.target = target
        self.heard_s: float | None = None
        """When a list or a watch succeeded, or a line of a watch came."""
        self.failing_since_s: float | None = None
        self.error = ""
        self.refused = False
        """The API server refuses it, and has answered no list since."""
        self.restarts = 0
        self._now = now
        self._began_s = now()
        self._logged = ("", 0.0)
        self._metrics = metrics
        self._labels = (target.plural, target.namespace or ALL_NAMESPACES)
        metrics.show_watch(*self._labels, self.silence_s, lambda: self.failing_since_s is not None)

    def silence_s(self) -> float:
        """Return the seconds since it heard anything, or was begun."""
        return self._now() - (self._began_s if self.heard_s is None else self.heard_s)

    def heard(self) -> None:
        """Note a sign of life."""
        self.heard_s = self._now()
        self.refused = False

    def works(self) -> None:
        """Note that it is followed again."""
        if self.failing_since_s is None:
            return
        LOG.info("watch of %s: works again", self.target)
        self.failing_since_s = None

    def failed(self, error: Exception, *, warn: bool = True) -> None:
        """Note that it has to be begun again.

        Args:
            error: Why.
            warn: False: it is part of normal life, so far.
        """
        self.restarts += 1
        self._metrics.watch_restarted(*self._labels, _REASONS.get(type(error), DEFECT))
        if not warn:
            return
        self.error = str(error) or type(error).__name__
        self.refused = isinstance(error, Rejected)
        if self.failing_since_s is None:
            self.failing_since_s = self._now()
        logged, logged_s = self._logged
        if logged != self.error or self._now() - logged_s >= REMINDER_S:
            LOG.warning("watch of %s: failed, is begun again: %s", self.target, self.error)
            self._logged = (self.error, self._now())

    def shown(self) -> dict[str, object]:
        """Return what the health answer says of it while it fails."""
        since_s = self.failing_since_s
        return {
            "resource": self._labels[0],
            "namespace": self._labels[1],
            "failingSeconds": None if since_s is None else round(self._now() - since_s, 1),
            "silentSeconds": round(self.silence_s(), 1),
            "everHeard": self.heard_s is not None,
            "restarts": self.restarts,
            "lastError": self.error,
        }


class Hearing:
    """All watches of one operator."""

    def __init__(
        self,
        now: Callable[[], float],
        metrics: OperatorMetrics,
        limit_s: float = HEARING_LIMIT_S,
    ) -> None:
        """Know of no watch.

        Args:
            now: A monotonic clock, in seconds.
            metrics: Where the watches are shown.
            limit_s: After so many seconds without a success of any watch the operator has to end.
        """
        self._now = now
        self._metrics = metrics
        self._limit_s = limit_s
        self._states: list[WatchState] = []

    def of(self, target: WatchTarget) -> WatchState:
        """Return the state of a watch that is begun now."""
        state = WatchState(target, self._now, self._metrics)
        self._states.append(state)
        return state

    def silence_s(self) -> float:
        """Return the seconds since any watch heard something; 0 while there is none."""
        return min((state.silence_s() for state in self._states), default=0.0)

    def hears(self) -> bool:
        """Return whether the operator may go on like this."""
        return self.silence_s() < self._limit_s

    def failing(self) -> list[WatchState]:
        """Return the watches that fail, or have been silent for too long."""
        return [
            state
            for state in self._states
            if state.failing_since_s is not None or state.silence_s() >= self._limit_s
        ]

    def is_refused(self, plural: str, namespace: str) -> bool:
        """Return whether the API server refuses to list and watch this resource there."""
        return any(
            state.refused
            for state in self._states
            if state.target.plural == plural and state.target.namespace in (None, namespace)
        )

    def shown(self) -> dict[str, object]:
        """Return what the health answer says."""
        failing = self.failing()
        return {
            "hears": self.hears(),
            "silentSeconds": round(self.silence_s(), 1),
            "watches": len(self._states),
            "failing": len(failing),
            "failingWatches": [state.shown() for state in failing[:SHOWN_WATCHES]],
        }

    async def guard(self) -> None:
        """Return never.

        Raises:
            Unheard: No watch has succeeded for too long.
        """
        while self.hears():  # noqa: ASYNC110 - a clock ends it, no event
            await asyncio.sleep(self._limit_s / LOOKS)
        errors = sorted({f"{state.target}: {state.error}" for state in self.failing()})
        raise Unheard(
            f"no watch has heard anything for {self._limit_s:g} s, so a new process has to try; "
            + ("; ".join(errors[:3]) or "no watch reported an error")
        )
