"""What a shard of a cluster needs of its log beyond what any shard does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from grid_member.engine.log.log import Log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.api import EngineError
    from grid_member.engine.nats.client.errors import ShortError
    from grid_member.engine.state.operations import Record


class SharedLog(Log, Protocol):
    """A log that other members write, too."""

    @property
    def created(self) -> str:
        """When its stream was made, as servers told before the last replay."""

    @property
    def crowded(self) -> bool:
        """Whether records had better wait."""

    def carries(self, counter: int) -> bool:
        """Tell whether the record of this incarnation with that counter is on its way."""

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what is sent."""

    @property
    def damaged(self) -> bool:
        """Whether nothing is taken any more, for ever."""

    def reconnect(self) -> None:
        """Go on over a new connection."""

    def withdraw(self) -> list[Record]:
        """Forget what is on its way."""

    def forget(self, counters: Iterable[int]) -> None:
        """Send those records no more: they are in the log."""

    def distrust(self, error: ShortError) -> None:
        """Take nothing until `resume`: what the stream holds now is not what was read of it."""

    @property
    def confirmed_s(self) -> float:
        """When the last own record that came back was sent first, by the loop's clock."""

    def halt(self) -> None:
        """Take and send nothing until `resume`: all members leave what the stream holds."""

    async def await_growth(self, error: ShortError, delay_s: float) -> None:
        """Wait until reading it again may help, as `again.await_growth`."""

    def resume(self) -> None:
        """Consume what is behind the last replay."""

    def fail(self, error: EngineError) -> None:
        """Take nothing any more."""
