"""Queue polls of this member: those that wait, and those whose take is on its way."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import Done, Item, Reason, Refused
from grid_member.engine.operations import QueueTake

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from grid_member.engine.lane import Lane

MAX_TIMER_S: Final = 2**31 - 1
"""Seconds; a longer wait is cut to it."""
MAX_WAITING_POLLS: Final = 65_536
"""Polls that may wait on one queue; more are refused as OVERLOADED."""

_OVERLOADED: Final = Refused(Reason.OVERLOADED, "too many polls wait on the queue")


class QueuePoll:
    """One poll: waiting, taking, or over (then done is None)."""

    __slots__ = ("deadline_s", "done", "timer", "waiting")

    def __init__(self, done: Done[Item | None], deadline_s: float) -> None:
        self.done: Done[Item | None] | None = done
        self.deadline_s = deadline_s
        self.timer: asyncio.TimerHandle | None = None
        self.waiting: OrderedDict[QueuePoll, None] | None = None
        """Where it waits, to be taken out of."""

    def cancel(self) -> None:
        """Stop waiting; an item on its way goes back to the head."""
        self.done = None
        if self.waiting is not None:
            self.waiting.pop(self, None)
            self.waiting = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def finish(self, outcome: Item | Refused | None) -> bool:
        """Call back once; False when the poll was over already."""
        done = self.done
        self.cancel()
        if done is None:
            return False
        done(outcome)
        return True


class QueuePolls:
    """The polls of one queue, first come, first served."""

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        unwanted: Callable[[Item], None],
        taken: Callable[[Item], None],
    ) -> None:
        """Make the polls of the queue called name.

        Args:
            name: the queue.
            loop: for timers.
            unwanted: takes an item whose poll was cancelled meanwhile.
            taken: hears of each item that a poll is about to get.
        """
        self._name = name
        self._loop = loop
        self._unwanted = unwanted
        self._taken = taken
        self._waiting: OrderedDict[QueuePoll, None] = OrderedDict()
        self._taking = 0

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is on its way, so that this may be forgotten."""
        return not self._waiting and not self._taking

    def poll(self, lane: Lane, timeout_s: float, done: Done[Item | None]) -> QueuePoll:
        """Take the head of the queue, which lives in the lane now, or wait for one."""
        timeout_s = min(timeout_s, MAX_TIMER_S)
        poll = QueuePoll(done, self._loop.time() + timeout_s)
        if len(self._waiting) >= MAX_WAITING_POLLS:
            poll.finish(_OVERLOADED)
            return poll
        self._wait(poll)
        self.serve(lane)
        if timeout_s <= 0:
            if poll.waiting is not None:
                poll.finish(None)
        elif poll.done is not None:
            poll.timer = self._loop.call_later(timeout_s, self._time_out, poll)
        return poll

    def serve(self, lane: Lane) -> None:
        """Send a take for each waiting poll that an item is there for in the lane."""
        ready = lane.state.queue_size(self._name) - self._taking
        while ready > 0 and self._waiting:
            poll, _ = self._waiting.popitem(last=False)
            poll.waiting = None
            ready -= 1
            self._taking += 1
            lane.propose(QueueTake(self._name), _Taking(self, poll).answer, 0)

    def finish_waiting(self, outcome: Refused | None) -> None:
        """End every waiting poll with the outcome; those with a take on its way go on."""
        for poll in list(self._waiting):
            poll.finish(outcome)

    def answer(self, poll: QueuePoll, outcome: Item | Refused | None) -> None:
        """Give a take's outcome to its poll, or let the poll wait on."""
        self._taking -= 1
        if outcome is None and poll.done is not None and self._loop.time() < poll.deadline_s:
            self._wait(poll)
            self._waiting.move_to_end(poll, last=False)
        elif not isinstance(outcome, Item):
            poll.finish(outcome)
        elif poll.done is None:
            self._unwanted(outcome)
        else:
            self._taken(outcome)
            poll.finish(outcome)

    def _wait(self, poll: QueuePoll) -> None:
        self._waiting[poll] = None
        poll.waiting = self._waiting

    def _time_out(self, poll: QueuePoll) -> None:
        if poll.waiting is not None:
            poll.finish(None)


class _Taking:
    """Ties a take to its poll: the callback of its operation."""

    __slots__ = ("_poll", "_polls")

    def __init__(self, polls: QueuePolls, poll: QueuePoll) -> None:
        self._polls = polls
        self._poll = poll

    def answer(self, outcome: Item | Refused | None) -> None:
        """Hand the outcome on."""
        self._polls.answer(self._poll, outcome)
