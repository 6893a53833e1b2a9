"""What the work of a job in one shard is made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from grid_member.wan.ports import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.engine.wan.agreement import MapReference, PublisherName
    from grid_member.engine.wan.changes import Change
    from grid_member.wan.comparison.buckets import ComparedMap
    from grid_member.wan.endpoints import Address
    from grid_member.wan.hello import Welcome
    from grid_member.wan.link import Link
    from grid_member.wan.pacing import Pacer

T = TypeVar("T")
GIVE_UP_S: Final = 600.0
"""After so long without progress a job fails."""
YIELD_S: Final = 0.01
"""How long a job waits before it sends while changes wait: those go first."""


class JobShard(Protocol):
    """One shard as it is at the moment of each call."""

    @property
    def held(self) -> bool:
        """Whether nothing may be sent now: a backup that is made may not have what changed."""

    def maps(self, publisher: PublisherName) -> list[str]:
        """Return the maps that the publisher sends, in order."""

    def compared(self, name: str) -> ComparedMap:
        """Return a map as a comparison reads it."""

    def entries(self, name: str) -> int:
        """Return how many entries a map has."""

    def reference(self, name: str) -> MapReference | None:
        """Return how a map is replicated; None when it is not, or not any more."""

    def stamp(self) -> int:
        """Return the newest stamp of all changes."""

    def change(self, name: str, key: str) -> Change | None:
        """Return the last change of a key as it is now; None when nothing is known of the key."""

    def clear_change(self, name: str) -> Change | None:
        """Return the last clear of a map; None without one."""

    def removal(self, name: str, key: str, stamp: int) -> Change | None:
        """Return a removal of a key that this cluster does not know; None when it knows the key."""

    def waits(self, publisher: PublisherName, name: str, key: str) -> bool:
        """Tell whether a change of the key waits for the publisher."""

    def busy(self, publisher: PublisherName) -> bool:
        """Tell whether any change waits that may be sent now."""

    def job(self, publisher: PublisherName, name: str) -> bytes:
        """Return the job that takes care of the gaps of a map; empty without one."""

    async def compare(
        self, publisher: PublisherName, name: str, job: bytes, *, begin: bool
    ) -> bool:
        """Note that the job begins to take care of a map, or has done so; False: not now."""


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """What the configuration says of a publisher, and which shard this is."""

    name: PublisherName
    cluster_id: bytes
    """Of the source."""
    lane: int
    lanes: int
    batch_size: int
    at_once: int
    """Batches under way."""
    in_flight_ms: int
    """How old a request may become that arrives after its answer was given up."""
    removes_extra: bool
    """Whether entries go of which only the target knows."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One shard, and the way from it to the target."""

    settings: LaneSettings
    shard: JobShard
    link: Link
    pacer: Pacer
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    seal: Callable[[bytes], Awaitable[bytes]]
    """Makes a batch of its body."""


class Patience:
    """How long a job has gone without progress."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._progressed_s = lane.clock()

    @property
    def left_s(self) -> float:
        """The seconds until the job fails; 0 when it does."""
        return max(0.0, self._progressed_s + GIVE_UP_S - self._lane.clock())

    def renew(self) -> None:
        """Note that the job made progress."""
        self._progressed_s = self._lane.clock()

    async def post(self, path: str, message: bytes) -> bytes:
        """Return the target's answer; while the target takes nothing, ask again.

        Raises:
            TargetError: the target did not answer, or has taken nothing for too long.
        """
        return await self._repeated(partial(self._lane.link.ask, path, message))

    async def greet(self, target: bytes) -> Welcome:
        """Return what the cluster of an id says now; asks again and raises as `post` does."""
        return await self._repeated(lambda _: self._lane.link.greet(target))

    async def _repeated(self, request: Callable[[Address | None], Awaitable[T]]) -> T:
        again_at: Address | None = None
        while True:
            try:
                return await request(again_at)
            except OverloadedError as problem:
                if not self.left_s:
                    raise
                again_at = problem.again_at
                await self._lane.sleep(problem.retry_after_s)
