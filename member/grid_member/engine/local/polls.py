"""Queue polls of this member: those that wait, and those whose take is on its way."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from grid_member.engine.api import Done, Item, Reason, Refused
from grid_member.engine.state.operations import QueueTake

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from grid_member.engine.shard.shard import Shard

MAX_TIMER_S: Final = 2**31 - 1
"""Seconds; a longer wait is cut to it."""
MAX_WAITING_POLLS: Final = 65_536
"""Polls that may wait on one queue; more are refused as OVERLOADED."""

_OVERLOADED: Final = Refused(Reason.OVERLOADED, "too many polls wait on the queue")


class QueuePoll:
    """One poll: waiting, taking, or over (then done is None)."""

    __slots__ = (
        "_polls",
        "deadline_s",
        "done",
        "empty_seen",
        "patient_s",
        "ticket",
        "timer",
        "waiting",
    )

    def __init__(self, polls: QueuePolls, done: Done[Item | None], deadline_s: float) -> None:
        self._polls = polls
        self.done: Done[Item | None] | None = done
        self.deadline_s = deadline_s
        self.patient_s = 0.0
        """Until when it waits for a lease, also beyond its deadline; 0: it never lacked one."""
        self.ticket = 0
        """Grows from poll to poll where takes of several may come back empty."""
        self.empty_seen = False
        """Whether a take of this poll came back empty."""
        self.timer: asyncio.TimerHandle | None = None
        self.waiting: OrderedDict[QueuePoll, None] | None = None
        """Where it waits, to be taken out of."""

    def cancel(self) -> None:
        """Stop waiting; an item on its way goes back to the head."""
        self.done = None
        self._leave()

    def _leave(self) -> None:
        if self.waiting is not None:
            self.waiting.pop(self, None)
            self.waiting = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def finish(self, outcome: Item | Refused | None) -> None:
        """Call back, unless the poll is over already."""
        done = self.done
        if done is not None:
            self.done = None
            if self.waiting is not None or self.timer is not None:
                self._leave()
            done(outcome)

    def answer(self, outcome: Item | Refused | None) -> None:
        """Take what became of the take that was sent for this poll: mostly an item."""
        polls, done = self._polls, self.done
        polls.taking -= 1
        if type(outcome) is not Item or done is None:
            polls.answer(self, outcome)
            return
        self.done = None
        if self.timer is not None:
            self._leave()
        polls.on_taken(outcome)
        done(outcome)


class NoPoll:
    """A poll that was refused."""

    __slots__ = ()

    def cancel(self) -> None:
        """Nothing waits."""


class QueuePolls:
    """The polls of one queue, first come, first served."""

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        give_back: Callable[[Item], None],
        on_taken: Callable[[Item], None],
    ) -> None:
        """Make the polls of the queue called name.

        Args:
            name: the queue.
            loop: for timers.
            give_back: takes an item whose poll was cancelled meanwhile.
            on_taken: hears of each item that a poll is about to get.
        """
        self._name = name
        self._take = QueueTake(name)
        self._loop = loop
        self._give_back = give_back
        self.on_taken = on_taken
        """Hears of each item that a poll is about to get."""
        self._shard: Shard | None = None
        """Where the last take was sent."""
        self._waiting: OrderedDict[QueuePoll, None] = OrderedDict()
        self._patient = True
        """Whether a poll that finds nothing may wait."""
        self.taking = 0
        """Takes on their way."""

    @property
    def waiters(self) -> int:
        """How many polls wait for an item."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is on its way, so that this may be forgotten."""
        return not self._waiting and not self.taking

    def poll(self, shard: Shard, timeout_s: float, done: Done[Item | None]) -> QueuePoll:
        """Take the head of the queue, which lives in the shard now, or wait for one."""
        waits, waiting = timeout_s > 0 and self._patient, len(self._waiting)
        queue = shard.state.queues.by_name.get(self._name)
        if not waiting and queue is not None and len(queue.items) > self.taking:
            # As below, for most polls of a queue that is not empty.
            poll = QueuePoll(self, done, self._deadline_s(timeout_s))
            self._send(shard, poll)
            return poll
        poll = self._make(timeout_s, done)
        if poll.done is None:
            return poll
        if shard.state.queues.size(self._name) - self.taking > waiting:
            if waiting:
                self.serve(shard)  # who came before, and is not served yet
            self._send(shard, poll)
        else:
            if waits:
                self._wait(poll)
            if self._waiting:
                self.serve(shard)  # what is there, as after a take that was refused, is for them
            if not waits:
                poll.finish(None)
        return poll

    def _make(self, timeout_s: float, done: Done[Item | None]) -> QueuePoll:
        """Return a poll; it is over already when too many wait."""
        poll = QueuePoll(self, done, self._deadline_s(timeout_s))
        if len(self._waiting) >= MAX_WAITING_POLLS:
            poll.finish(_OVERLOADED)
        return poll

    def _deadline_s(self, timeout_s: float) -> float:
        return self._loop.time() + min(timeout_s, MAX_TIMER_S) if timeout_s > 0 else 0

    def serve(self, shard: Shard) -> None:
        """Send a take for each waiting poll that an item is there for in the shard."""
        ready = shard.state.queues.size(self._name) - self.taking
        while ready > 0 and self._waiting:
            poll, _ = self._waiting.popitem(last=False)
            poll.waiting = None
            ready -= 1
            self._send(shard, poll)

    def wait_no_more(self) -> None:
        """End every waiting poll, and let none wait from now on."""
        self._patient = False
        self.finish_waiting(None)

    def finish_waiting(self, outcome: Refused | None) -> None:
        """End every waiting poll with the outcome; those with a take on its way go on.

        Args:
            outcome: None: the queue is empty, as far as that is known for each poll.
        """
        for poll in list(self._waiting):
            poll.finish(outcome or self._nothing(poll))

    def answer(self, poll: QueuePoll, outcome: Item | Refused | None) -> None:
        """Take the outcome of a take that gave its poll no item; the poll may wait on."""
        if isinstance(outcome, Item):
            self._give_back(outcome)
        elif outcome is None and poll.done is not None and self._may_wait(poll):
            self._wait_again(poll)
        else:
            poll.finish(outcome)
            if outcome is not None and self._waiting:
                # What it did not get was kept from those who wait.
                self._loop.call_soon(self.serve_again)

    def _may_wait(self, poll: QueuePoll) -> bool:
        return self._patient and self._loop.time() < poll.deadline_s

    def serve_again(self) -> None:
        """See whether anything is there for those who wait, where the last take was sent."""
        if self._shard is not None:
            self.serve(self._shard)

    def _send(self, shard: Shard, poll: QueuePoll) -> None:
        self._shard = shard
        self.taking += 1
        shard.propose(self._take, poll.answer, 0)

    def _wait(self, poll: QueuePoll) -> None:
        self._waiting[poll] = None
        poll.waiting = self._waiting
        if poll.timer is None:
            poll.timer = self._loop.call_at(poll.deadline_s, self._time_out, poll)

    def _wait_again(self, poll: QueuePoll) -> None:
        self._wait(poll)
        self._waiting.move_to_end(poll, last=False)

    def _time_out(self, poll: QueuePoll) -> None:
        poll.timer = None
        if poll.waiting is not None:
            poll.finish(self._nothing(poll))

    def _nothing(self, _: QueuePoll) -> Refused | None:
        """Return the outcome of a poll that ends while it waits: the state here is the queue."""
        return None
