"""Polls of a queue that other members offer to, too.

A take needs a leader of the log, as every write does, and a lease of this member. A poll waits for
either for the same time before it is refused (ADR 0051).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from grid_member.engine.api import Item, Reason, Refused
from grid_member.engine.jetstream.publisher import GIVE_UP_S
from grid_member.engine.leasehold import LATE
from grid_member.engine.local.polls import QueuePoll, QueuePolls

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done
    from grid_member.engine.leasehold import Leasehold
    from grid_member.engine.shard.shard import Shard

UNSEEN: Final = Refused(
    Reason.UNAVAILABLE,
    "no majority of the members told this one whether the queue is empty: nothing was taken",
)


class LeasedShard(Protocol):
    """A shard whose log other members write, too."""

    leasehold: Leasehold

    @property
    def refusal(self) -> Refused | None:
        """Why nothing can be taken now; None when it can, as far as is known."""


class ClusterPolls(QueuePolls):
    """Polls of a queue that other members offer to: only the log can tell that it is empty.

    A take that comes back empty is no exception here, so the order is kept by number.
    """

    ended: Callable[[], bool]
    """Whether nobody waits any more: the member stops, or writes are refused."""
    end: Callable[[], Refused | None]
    """What they are answered then."""
    shared: Callable[[Shard], LeasedShard]
    """Returns a shard as what it is here."""
    unheard: Callable[[], Refused | None]
    """Returns why the log with the leases refuses records; None when a lease may come soon."""
    patience_s: float = GIVE_UP_S
    """How long a poll waits for a lease, whatever its own time is."""
    _tickets = 0
    _blind = False
    """Whether polls wait for which no take was sent, as there was no lease."""
    _overdue = False
    """Whether polls may wait for a lease beyond their own time."""
    _in_order = True
    """Whether the polls that wait are in the order of their tickets."""

    def poll(self, shard: Shard, timeout_s: float, done: Done[Item | None]) -> QueuePoll:
        """Take the head of the queue, or wait for one."""
        poll = self._make(timeout_s, done)
        if poll.done is not None:
            if self._waiting:
                self.serve(shard)
            self._tickets += 1
            poll.ticket = self._tickets
            self._shard = shard
            if self.shared(shard).leasehold.holds:
                self._send(shard, poll)
            else:
                refusal = self._wait_for_lease(shard, poll)
                if refusal is not None:
                    poll.finish(refusal)
        return poll

    def serve(self, shard: Shard) -> None:
        """Send takes, unless what they take could not be handed out."""
        if not self.shared(shard).leasehold.holds:
            self._end_overdue(shard)
            return
        if not self._in_order:
            self._put_in_order()
        super().serve(shard)
        if self._blind:
            self._blind = self._overdue = False
            for poll in self._unseen():
                # Only the log can tell whether the queue is empty.
                if poll.waiting is not None:
                    del self._waiting[poll]
                    poll.waiting = None
                    self._send(shard, poll)

    def _unseen(self) -> list[QueuePoll]:
        return [poll for poll in self._waiting if not poll.empty_seen]

    def _end_overdue(self, shard: Shard) -> None:
        """Let polls wait only for their own time once the member knows that no lease can come."""
        if self._overdue and self._refusal(shard) is not None:
            self._overdue = False
            for poll in self._unseen():
                if poll.waiting is not None:
                    refusal = self._wait_on(shard, poll)
                    if refusal is not None:
                        poll.finish(refusal)

    def _refusal(self, shard: Shard) -> Refused | None:
        """Return why no lease can come, or could be of use; None when one may come soon."""
        return self.shared(shard).refusal or self.unheard()

    def _send(self, shard: Shard, poll: QueuePoll) -> None:
        if poll.patient_s and poll.timer is not None:
            poll.timer.cancel()  # should it wait on, it does so in its own time
            poll.timer = None
        self._shard = shard
        self.taking += 1
        shard.propose(self._take, partial(self._note_answer, shard, poll), 0)

    def _wait_for_lease(self, shard: Shard, poll: QueuePoll) -> Refused | None:
        """Let a poll wait for a lease; return why not, when it has waited for too long."""
        if poll.patient_s <= poll.deadline_s:  # beyond its own time it waits so long only once
            poll.patient_s = self._loop.time() + self.patience_s
        return self._wait_on(shard, poll)

    def _wait_on(self, shard: Shard, poll: QueuePoll) -> Refused | None:
        """Let a poll wait as long as it may now; return why not, when that is over.

        While nothing is confirmed no lease comes: then only the poll's own time is waited.
        """
        refusal, until_s = self._refusal(shard), poll.deadline_s
        if refusal is None and poll.patient_s > until_s:
            until_s, self._overdue = poll.patient_s, True
        if until_s <= self._loop.time() or not self._patient:
            return refusal or LATE
        if poll.timer is not None:
            poll.timer.cancel()
        poll.timer = self._loop.call_at(until_s, self._time_out, poll)
        poll.empty_seen = False
        if poll.waiting is None:
            self._wait_in_turn(poll)
        self._blind = True
        return None

    def _note_answer(self, shard: Shard, poll: QueuePoll, outcome: Item | Refused | None) -> None:
        """Hear what became of a take.

        Behind the end of a lease somebody else may have the item by now.
        """
        if type(outcome) is Item:
            leasehold = self.shared(shard).leasehold
            if leasehold.holds:
                outcome.until_s = leasehold.until_s
            else:
                self._give_back(outcome)
                outcome = self._wait_again_for_lease(shard, poll)
                if outcome is None:
                    self.taking -= 1
                    return
        elif outcome is None:
            poll.empty_seen = True
        poll.answer(outcome)

    def _wait_again_for_lease(self, shard: Shard, poll: QueuePoll) -> Refused | None:
        """Let a poll wait whose item went back, unless it is over; return what it is answered."""
        if poll.done is None:
            return LATE
        if self.ended():
            return self.end() or LATE
        refusal = self._wait_for_lease(shard, poll)
        if refusal is not None:
            self.shared(shard).leasehold.awaited = True
        return refusal

    def _time_out(self, poll: QueuePoll) -> None:
        """End a poll, unless it waits on for a lease.

        One that was shown an empty queue looks again when there is a lease.
        """
        shard = self._shard
        if poll.waiting is not None and shard is not None:
            leasehold = self.shared(shard).leasehold
            if not leasehold.holds:
                if poll.empty_seen:
                    poll.patient_s = 0.0  # whatever it waited for a lease before
                    refusal = self._wait_for_lease(shard, poll)
                else:
                    refusal = self._wait_on(shard, poll)
                if refusal is None:
                    return
                leasehold.awaited = True
        super()._time_out(poll)

    def _nothing(self, poll: QueuePoll) -> Refused | None:
        """Return the outcome of a poll that ends while it waits.

        It is empty-handed only if the log said so once, and nothing can have come unnoticed since.
        """
        shard = self._shard
        if shard is None or not poll.empty_seen:
            return UNSEEN
        shared = self.shared(shard)
        return shared.refusal or (None if shared.leasehold.holds else LATE)

    def _wait_again(self, poll: QueuePoll) -> None:
        if self.ended():
            # Its take went out before, and came back after all others were told.
            poll.finish(self.end())
            return
        self._wait_in_turn(poll)
        shard = self._shard
        if shard is not None and shard.state.queues.size(self._name) > self.taking:
            # The outcome was held for a while: what came meanwhile found nobody waiting.
            self._loop.call_soon(self.serve_again)

    def _wait_in_turn(self, poll: QueuePoll) -> None:
        """Let a poll wait; those that came back from between others are put in order together."""
        last = next(reversed(self._waiting), None)
        first = next(iter(self._waiting), None)
        self._wait(poll)
        if last is None or first is None or poll.ticket > last.ticket:
            return
        if poll.ticket < first.ticket:
            self._waiting.move_to_end(poll, last=False)
        else:
            self._in_order = False

    def _put_in_order(self) -> None:
        self._in_order = True
        in_order = sorted(self._waiting, key=lambda one: one.ticket)
        self._waiting.clear()
        self._waiting.update(dict.fromkeys(in_order))
