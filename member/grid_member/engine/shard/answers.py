"""Callbacks of the engine's own operations that take more than one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from grid_member.engine.api import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done
    from grid_member.engine.shard.shard import Shard
    from grid_member.engine.state.operations import ClusterStateChange, TransientStateChange

T = TypeVar("T")
FAILED: Final = Refused(Reason.FAILED, "unexpected error")


def reader(read: Callable[[Done[T]], None], done: Done[T]) -> Callable[[Refused | None], None]:
    """Return what reads when a shard is current, and tells done why not; a failure, too."""

    def told(refused: Refused | None) -> None:
        if refused is not None:
            done(refused)
            return
        try:
            read(done)
        except Exception:
            done(FAILED)  # nobody waits for it who was told before
            raise

    return told


class StateChange:
    """Sets the cluster state in every shard, one after the other, then answers.

    The first shard decides: it has the system store, and the state that counts.
    """

    def __init__(
        self,
        shards: list[Shard],
        operation: ClusterStateChange | TransientStateChange,
        on_change: Callable[[], None],
        done: Done[bool],
    ) -> None:
        self._shards = list(shards)
        self._operation = operation
        self._on_change = on_change
        self._done = done
        self._outcome: bool | None = None

    def send(self) -> None:
        """Propose the change to the next shard."""
        self._shards.pop(0).propose_system(self._operation, self.answer)

    def answer(self, outcome: bool | Refused) -> None:
        """Go on to the next shard, or answer."""
        if isinstance(outcome, Refused):
            self._done(outcome)
            return
        if self._outcome is None:
            self._outcome = outcome
        if self._shards:
            self.send()
            return
        self._on_change()
        self._done(self._outcome)
