"""Two processes that are the same member, and met only after both had begun.

Servers of one name refuse each other, so the two never hear of each other by themselves: every
other member hears both and tells the younger one. One process after another is no pair: a former
one is not heard again behind its successor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.engine.bootstrap.incarnation import Incarnation

SILENT_S: Final = 10.0
"""What was not heard of for so long is forgotten."""
SURE_BEATS: Final = 2
"""As often is a process heard behind the first word of another one before both live."""


class TwinDetector:
    """What a member hears of processes, and which of them are the same member."""

    def __init__(self) -> None:
        self._incarnations: dict[str, dict[str, tuple[Incarnation, float]]] = {}
        """By member and token: the process, and when it was heard last."""
        self._between: dict[tuple[str, str], int] = {}
        """By two tokens: how often the one was heard since the other one was first."""

    def hear(
        self, incarnation: Incarnation, now_s: float
    ) -> tuple[Incarnation, Incarnation] | None:
        """Take a heartbeat; return the older and the younger twin when both live."""
        incarnations = self._incarnations.setdefault(incarnation.member, {})
        for token in [
            token for token, (_, at_s) in incarnations.items() if now_s - at_s > SILENT_S
        ]:
            self._forget(incarnations, token)
        new = incarnation.token not in incarnations
        incarnations[incarnation.token] = incarnation, now_s
        for token, (other, _) in incarnations.items():
            if token == incarnation.token:
                continue
            if new:
                self._between[token, incarnation.token] = 0
                continue
            pair = incarnation.token, token
            if pair in self._between:
                self._between[pair] += 1
            if max(self._between.get(pair, 0), self._between.get(pair[::-1], 0)) >= SURE_BEATS:
                return (
                    (other, incarnation) if incarnation.yields_to(other) else (incarnation, other)
                )
        return None

    def _forget(self, incarnations: dict[str, tuple[Incarnation, float]], token: str) -> None:
        del incarnations[token]
        self._between = {pair: n for pair, n in self._between.items() if token not in pair}
