"""A write of a lane connection that was begun behind others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grid_member.http.fastpath.answers import LaneAnswers
    from grid_member.http.fastpath.plain import Beginning


class Slot:
    """The write and its outcome once there is one; `done` is the callback."""

    __slots__ = ("began_s", "beginning", "lane", "outcome", "over")

    def __init__(self, lane: LaneAnswers, beginning: Beginning, began_s: float) -> None:
        self.lane = lane
        self.beginning = beginning
        self.began_s = began_s
        self.outcome: Any = None
        self.over = False

    def done(self, outcome: Any) -> None:
        """Take the engine's outcome."""
        if not self.over:  # else it failed after it was done
            self.outcome = outcome
            self.over = True
            self.lane.completed()
