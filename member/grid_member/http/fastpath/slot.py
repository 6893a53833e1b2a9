"""A write of a fast-path connection that was begun behind others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grid_member.http.fastpath.answers import FastPathAnswers
    from grid_member.http.fastpath.plain import Beginning


class Slot:
    """The write and its outcome once there is one; `done` is the callback."""

    __slots__ = ("began_s", "beginning", "outcome", "over", "owner")

    def __init__(self, owner: FastPathAnswers, beginning: Beginning, began_s: float) -> None:
        self.owner = owner
        self.beginning = beginning
        self.began_s = began_s
        self.outcome: Any = None
        self.over = False

    def done(self, outcome: Any) -> None:
        """Take the engine's outcome."""
        if not self.over:  # else it failed after it was done
            self.outcome = outcome
            self.over = True
            self.owner.count_outcome()
