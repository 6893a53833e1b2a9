"""What the sender and the receiver need of others, so that tests can stand in for these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from grid_member.engine.wan.agreement import MergePolicy
    from grid_member.engine.wan.changes import QueuedChange
    from grid_member.wan.endpoints import Address
    from grid_member.wan.places import QueueName


class TargetError(Exception):
    """The target did not take what was sent; the message is for people, without addresses."""


class UnreachableError(TargetError):
    """Nothing answered, or not the target: another address may."""


class RefusedError(TargetError):
    """The target lets this publisher not in, or speaks nothing that this member does."""


class OverloadedError(TargetError):
    """The target takes nothing now, and says when to ask again."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.again_at: Address | None = None
        """Where to ask again; None is anywhere."""


class TooLargeError(TargetError):
    """The target, or a proxy before it, takes no request of this size: a smaller one it may."""


class ConflictError(Exception):
    """This source is not taken, and repeating what it sent does not help; the message says why."""


class BusyError(Exception):
    """Nothing is taken now: to be sent again, nothing or not all of it was merged."""


class ComparingError(BusyError):
    """The answer to a question about a map takes longer: the same member is to be asked again."""


class Queues(Protocol):
    """The queues of one publisher in one shard."""

    def epoch(self) -> int:
        """Return a number that changes when places read before say nothing any more."""

    def queued_maps(self) -> Collection[str]:
        """Return the maps of which anything waits, also if it may not be sent now."""

    def waiting(self) -> Mapping[QueueName, int]:
        """Return how many keys each queue holds that may be sent: none of a paused member."""

    def read(
        self, queue: QueueName, after_place: int, limit: int, max_bytes: int
    ) -> list[QueuedChange]:
        """Return the changes after a place, in order; one at least if there is any."""

    def unread(self, queue: QueueName, after_place: int, most: int) -> int:
        """Count the changes after a place, up to so many."""

    def policy(self, map_name: str) -> MergePolicy:
        """Return how the target is to merge changes of a map."""

    async def acknowledge(self, places: Mapping[QueueName, int]) -> bool:
        """Take what is not newer than these places out of the queues; False: nothing was."""

    def listen(self, wake: Callable[[], None]) -> None:
        """Call back when there may be something new."""


class Transport(Protocol):
    """Carries requests to one target."""

    async def post(self, address: Address, path: str, body: bytes, content_type: str) -> bytes:
        """Return the body of a 200.

        Raises:
            TargetError: there was none.
        """
