"""A cut over the lanes of a cluster: one moment of all that they hold, although each has its log.

    take():        a mark into every lane ─▶ each state is imaged at its mark
    every member:  what comes back behind a mark is not answered before all marks were seen

What is in the cut was asked for before the last mark came into its lane, and what is not in it was
answered after that. So nothing is in the cut that was asked for after the answer of something that
is not. Who cannot wait takes the marks away first, and `take` sees that: such a cut is none.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.api import EngineError
from grid_member.engine.local.system import ignore
from grid_member.engine.state.operations import SystemPut, SystemRemove

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from grid_member.engine.api import Refused
    from grid_member.engine.replicated.shard import ClusterLane, Reader
    from grid_member.engine.state.snapshot import Image

MARK: Final = "cut/"
"""Begins the keys of marks in the system store of each lane."""
MARK_MS: Final = 60_000
"""After that a mark goes by itself, should nobody be left to take it away."""
PATIENCE_S: Final = 2.0
"""How long answers wait for the other lanes' marks; one without a leader gets none."""
GIVE_UP_LOOKS: Final = 5
"""Times that patience is lost until those who wait are told that nobody knows: ten seconds."""
ATTEMPTS: Final = 5
RETRY_S: Final = 1.0
"""Between two attempts: a new leader takes some seconds."""
REMEMBERED: Final = 64
"""Cuts that are over and whose late marks are no reason to wait."""
NO_CUT: Final = (
    "no moment could be had that all members agree on: a part of the data has no leader now, or a "
    "member lagged behind: try again"
)


class Marked(Protocol):
    """Is called when marks came into a lane or went."""

    def __call__(self, *, at_record: bool = True) -> None:
        """Hear of it; at_record tells whether the state is the one right behind the record."""


def unwatched(*, at_record: bool = True) -> None:
    """Hear of marks where nobody takes cuts."""


def is_mark(key: str) -> bool:
    """Tell whether a key of the system store is that of a mark."""
    return key.startswith(MARK)


class Cuts:
    """The cuts that are under way, as one member sees them. For the thread of the event loop."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._whole = False
        self._lanes: Sequence[ClusterLane] = ()
        self._marks: list[frozenset[str]] = []
        """Of each lane, when it was looked at last."""
        self._over: deque[str] = deque(maxlen=REMEMBERED)
        self._wanted: dict[str, dict[int, Image]] = {}
        """Images of the cuts that this member takes, by lane."""
        self._patience: dict[str, asyncio.TimerHandle] = {}

    def begin(self, lanes: Sequence[ClusterLane], *, whole: bool = True) -> None:
        """Watch these durable lanes from now on, and no others; a cut may be under way.

        Args:
            lanes: those that this member has.
            whole: whether these are all; else it sees that a cut is over when its mark is removed.
        """
        for former in self._lanes:
            if former not in lanes:
                former.marked = unwatched
                former.release()
        self._lanes, self._whole = lanes, whole
        self._marks = [frozenset()] * len(lanes)
        for lane in lanes:
            lane.marked = self.look
        self.look(at_record=False)

    def end(self) -> None:
        """Watch no more."""
        for timer in self._patience.values():
            timer.cancel()

    def look(self, *, at_record: bool = True) -> None:
        """Hear that marks came or went.

        Args:
            at_record: whether the lane's state is the one right behind the mark.
        """
        former = self._marks
        self._marks = [_marks_of(lane) for lane in self._lanes]
        for place, (before, now) in enumerate(zip(former, self._marks, strict=True)):
            self._over.extend(name for name in before - now if name not in self._over)
            for name in now - before:
                if at_record and name in self._wanted:
                    self._wanted[name][place] = self._lanes[place].state.snapshot()
        whole = frozenset.intersection(*self._marks) if self._whole else frozenset()
        self._over.extend(name for name in whole if name not in self._over)
        under_way = frozenset.union(*self._marks).difference(self._over)
        self._watch(under_way)
        for lane, marks in zip(self._lanes, self._marks, strict=True):
            if not marks & under_way:
                lane.release()
            elif lane.held is None:
                lane.held = []

    async def take(self) -> list[Image]:
        """Return an image of each lane, all of one moment.

        Raises:
            EngineError: that could not be had.
        """
        for _ in range(ATTEMPTS):
            images = await self._tried(MARK + uuid.uuid4().hex)
            if images is not None:
                return images
            await asyncio.sleep(RETRY_S)
        raise EngineError(NO_CUT)

    async def _tried(self, name: str) -> list[Image] | None:
        images = self._wanted[name] = {}
        try:
            if any(await asyncio.gather(*self._marking(name))):
                return None
            # Who answered before all marks were there has taken one away first: that is known now.
            barriers = [_outcome(lane.when_current) for lane in self._lanes]
            if any(await asyncio.gather(*barriers)):
                return None
            whole = all(name in lane.state.system.found for lane in self._lanes)
            if whole and len(images) == len(self._lanes):
                return [images[place] for place in range(len(images))]
            return None
        finally:
            del self._wanted[name]
            for lane in self._lanes:
                lane.propose_system(SystemRemove(name), ignore)

    def _marking(self, name: str) -> Iterable[Awaitable[Refused | None]]:
        """Put a mark into each lane; the outcomes come when all of them were seen."""
        put = SystemPut(name, b"", MARK_MS)
        return [_outcome(partial(lane.propose_system, put)) for lane in self._lanes]

    def _watch(self, under_way: frozenset[str]) -> None:
        for name in [name for name in self._patience if name not in under_way]:
            self._patience.pop(name).cancel()
        for name in under_way.difference(self._patience):
            self._wait(name, 1)

    def _wait(self, name: str, looks: int) -> None:
        loop = asyncio.get_running_loop()
        self._patience[name] = loop.call_later(PATIENCE_S, self._lose_patience, name, looks)

    def _lose_patience(self, name: str, looks: int) -> None:
        """Let the lanes go on, which they do when the log has taken that."""
        for lane, marks in zip(self._lanes, self._marks, strict=True):
            if name in marks:
                lane.propose_system(SystemRemove(name), ignore)
            if looks >= GIVE_UP_LOOKS:
                lane.refuse_held()
        self._wait(name, looks + 1)


def _marks_of(lane: ClusterLane) -> frozenset[str]:
    return frozenset(key for key, _ in lane.state.system.items(MARK, 0))


def _outcome(begin: Callable[[Reader], None]) -> asyncio.Future[Refused | None]:
    outcome: asyncio.Future[Refused | None] = asyncio.get_running_loop().create_future()

    def done(refused: Refused | None) -> None:
        if not outcome.done():
            outcome.set_result(refused)

    begin(done)
    return outcome
