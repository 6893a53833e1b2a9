"""Callbacks of the engine's own operations that take more than one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_member.engine.api import ClusterState, Done, Refused
from grid_member.engine.operations import ClusterStateChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.lane import Lane


class StateChange:
    """Sets the cluster state in every lane, the durable ones first, then answers."""

    def __init__(
        self,
        lanes: list[Lane],
        state: ClusterState,
        changed: Callable[[], None],
        done: Done[bool],
    ) -> None:
        self._lanes = list(lanes)
        self._state = state
        self._changed = changed
        self._done = done
        self._any = False

    def send(self) -> None:
        """Propose the change to the next lane."""
        self._lanes.pop(0).propose_always(ClusterStateChange(self._state), self.answer)

    def answer(self, outcome: bool | Refused) -> None:
        """Go on to the next lane, or answer."""
        if isinstance(outcome, Refused):
            self._done(outcome)
            return
        self._any = self._any or outcome
        if self._lanes:
            self.send()
            return
        self._changed()
        self._done(self._any)
