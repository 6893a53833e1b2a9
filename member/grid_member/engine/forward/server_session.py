"""A lite member as its forward server knows it: what it asks for, waits for and was given."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from grid_member.engine.api import ClusterState, Engine, Entry, Item, Reason, Refused
from grid_member.engine.forward.messages import (
    AGAIN_S,
    READS,
    TOO_LARGE,
    Flag,
    ForwardMessage,
    Frame,
    FrameKind,
    frame_groups,
    outcome_frame,
)
from grid_member.engine.forward.session import SILENT_S
from grid_member.engine.leasehold import LATE, steady_s
from grid_member.engine.local.system import nothing
from grid_member.engine.local.usage import encode_usage
from grid_member.engine.nats.client.errors import WireError, describe_unexpected
from grid_member.engine.shard.answers import FAILED, StateChange
from grid_member.engine.state.operations import ClusterStateChange, TransientStateChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done, Poll
    from grid_member.engine.forward.server import ForwardServer
    from grid_member.engine.local.usage import StructureUsage
    from grid_member.engine.shard.shard import Shard

_ALWAYS: Final = {FrameKind.QUEUE_CONFIRM, FrameKind.QUEUE_RETURN, FrameKind.CANCEL, FrameKind.HELD}
"""What is done while this member stops, too."""
_STATES: Final = {
    state.value: state for state in ClusterState if state is not ClusterState.IN_TRANSITION
}
"""Those that can be set."""
MAX_USAGE_BYTES: Final = 4 << 20
"""What a lite member is told of structures, encoded; far more than a hundred thousand take."""
_TOO_MANY: Final = Refused(
    Reason.UNAVAILABLE, "there are too many structures: ask a member that holds the data"
)
_NOT_TOLD: Final = Refused(Reason.UNAVAILABLE, "what the structures hold cannot be told: try again")
_NOT_KNOWN: Final = Refused(
    Reason.UNAVAILABLE, "the member that holds the data is of another version and does not know it"
)
LEASE_PATIENCE_S: Final = 8.0
"""How long such a lease is waited for; the member that asks waits for 10 s for an outcome."""
LEASE_LOOK_S: Final = 0.1
"""How often it is looked for."""
_log: Final = logging.getLogger("grid.engine")


class PollEngine(Protocol):
    """The engine as the poll of a session needs it."""

    leased_until_s: float
    """Until when the others leave this member what it takes, by `steady_s`."""

    @property
    def answering(self) -> bool:
        """Whether no shard refuses what it is asked."""

    @property
    def takes_polls(self) -> bool:
        """Whether a poll may wait; else each is refused, or ends at once."""

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> Poll:
        """Take the head, waiting up to timeout_s seconds for one; None when none came."""

    def queue_return(self, item: Item) -> None:
        """The client left before it had the item: it goes back to the head of its queue."""


class ServedEngine(Engine, PollEngine, Protocol):
    """The engine as sessions need it."""

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends, in every shard."""

    @property
    def leased(self) -> bool:
        """Whether every shard has held a lease since it refused anything."""

    @property
    def agreed(self) -> bool:
        """Whether all shards have the same cluster state, as applied."""

    @property
    def shards(self) -> list[Shard]:
        """All shards."""

    def structure_usage(self) -> list[StructureUsage]:
        """Return what every structure holds that holds anything."""


class ServerPoll:
    """A poll for a member that asks; it is sent to the engine, again if need be.

    That member needs time to hand the item out: this one must hold its lease for so long. As any
    poll waits for a lease (ADR 0051), this one waits for one that is long enough.
    """

    __slots__ = (
        "_deadline_s",
        "_done",
        "_engine",
        "_loop",
        "_name",
        "_patient_s",
        "_poll",
        "_timer",
    )

    def __init__(
        self,
        engine: PollEngine,
        name: str,
        timeout_s: float,
        done: Callable[[Item | Refused | None], None],
    ) -> None:
        self._engine = engine
        self._name = name
        self._loop = asyncio.get_running_loop()
        now_s = self._loop.time()
        self._deadline_s = now_s + timeout_s if timeout_s > 0 else 0.0
        self._done = done
        self._patient_s = max(now_s, self._deadline_s) + LEASE_PATIENCE_S
        """Until when such a lease is waited for, however often one is lacking."""
        self._poll: Poll | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Poll, or wait for a lease first."""
        self._timer = None
        engine = self._engine
        if not self._hopes() or _in_time(engine.leased_until_s):
            left_s = self._deadline_s - self._loop.time() if self._deadline_s else 0.0
            self._poll = engine.queue_poll(self._name, max(0.0, left_s), self._take_outcome)
        elif not self._waits():
            self._done(LATE)

    def cancel(self) -> None:
        """Stop waiting; an item on its way goes back to the head."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._poll is not None:
            self._poll.cancel()

    def _take_outcome(self, outcome: Item | Refused | None) -> None:
        self._poll = None
        if isinstance(outcome, Item) and self._is_too_late(outcome):
            self._engine.queue_return(outcome)
        else:
            self._done(outcome)

    def _is_too_late(self, item: Item) -> bool:
        """Tell whether an item goes back, as a longer lease may come: then that is waited for."""
        return not _in_time(item.until_s) and self._hopes() and self._waits()

    def _hopes(self) -> bool:
        """Tell whether a lease is worth waiting for; else the engine has an answer at once."""
        return self._engine.answering and self._engine.takes_polls

    def _waits(self) -> bool:
        """Look again soon; False when that went on for too long."""
        if self._loop.time() >= self._patient_s:
            return False
        self._timer = self._loop.call_later(LEASE_LOOK_S, self.begin)
        return True


class ServerSession:
    """One start of a lite member, as its forward server knows it."""

    def __init__(self, owner: ForwardServer, engine: ServedEngine, incarnation: bytes) -> None:
        self.session = 0
        self.heard_s = 0.0
        self._owner = owner
        self._engine = engine
        self._incarnation = incarnation
        self._reply = b""
        self._received = 0
        """The number of the last message that was taken."""
        self._sent = 0
        self._polls: dict[int, ServerPoll] = {}
        """Those without an outcome."""
        self._out: dict[tuple[str, int, int], Item] = {}
        """What it was given and has neither confirmed nor returned."""
        self._deliveries: set[tuple[str, int, int]] = set()
        """What it says that it has, while it says that."""
        self._outcomes: list[Frame] = []
        self._flushes = False
        self._over = False
        """Whether something of the session was lost, so that nothing of it is heard or said."""
        self._loop = asyncio.get_running_loop()

    def hear(self, message: ForwardMessage, reply: bytes, *, begins: bool) -> bool:
        """Do what a message asks for; False when its session is over."""
        if begins:
            self._begin(message.session, reply)
        if message.session < self.session:
            return True  # nobody waits for that any more
        if self._over or message.session > self.session or message.number != self._received + 1:
            return False
        try:
            self._take(message)
        except Exception:
            self._over = True  # nobody knows what of it was done
            raise
        return True

    def _begin(self, session: int, reply: bytes) -> None:
        """Begin a session; what was asked for in the former one is of no matter any more."""
        self._cancel_polls()
        self.session, self._reply = session, reply
        self._received = self._sent = 0
        self._outcomes = []
        self._deliveries = set()
        self._over = False

    def _take(self, message: ForwardMessage) -> None:
        self._received = message.number
        self.heard_s = self._loop.time()
        for frame in message.frames:
            self._begin_call(frame)
        if message.flags & Flag.ALL_HELD:
            # The others were sent, and never got there.
            self._give_back(set(self._out) - self._deliveries)
            self._deliveries = set()
        if message.flags & Flag.PING:
            self._soon()
        if message.flags & Flag.BYE:
            self.end()

    def leave(self) -> None:
        """Let waiting polls be asked of another forward server."""
        waiting = list(self._polls)
        self._cancel_polls()
        self._soon()
        self._outcomes += [Frame(FrameKind.NOT_TAKEN, call) for call in waiting]

    def end(self) -> None:
        """Be gone: nobody waits for anything, or has anything."""
        self.session, self._over = 0, True
        self._cancel_polls()
        self._give_back(set(self._out))
        self._owner.forget(self._incarnation)

    def _begin_call(self, frame: Frame) -> None:
        kind = frame.kind
        if self._owner.leaving and kind not in _ALWAYS:
            self._soon()
            self._outcomes.append(Frame(FrameKind.NOT_TAKEN, frame.call))
            return
        done = partial(self._note_outcome, self.session, frame.call)
        try:
            self._carry_out(frame, done)
        except Exception as error:
            if kind not in READS:
                raise
            # Asked again it would fail again, and end the session for all others each time.
            self._loop.call_exception_handler(
                {"message": "what another member asks for failed", "exception": error}
            )
            done(FAILED)

    def _carry_out(self, frame: Frame, done: Callable[[Any], None]) -> None:
        kind, engine = frame.kind, self._engine
        match kind:
            case FrameKind.MAP_GET:
                engine.map_get(frame.name, frame.key, done)
            case FrameKind.MAP_PUT:
                engine.map_put(frame.name, frame.key, frame.value, frame.content_type, done)
            case FrameKind.MAP_REMOVE:
                engine.map_remove(frame.name, frame.key, done)
            case FrameKind.MAP_CLEAR:
                engine.map_clear(frame.name, done)
            case FrameKind.QUEUE_OFFER:
                engine.queue_offer(frame.name, frame.value, frame.content_type, done)
            case FrameKind.QUEUE_SIZE:
                engine.queue_size(frame.name, done)
            case FrameKind.SPREAD | FrameKind.SPREAD_FOR_NOW:
                self._spread(frame, done)
            case FrameKind.USAGE:
                packing = self._loop.run_in_executor(None, encode_usage, engine.structure_usage())
                packing.add_done_callback(lambda packed: done(_usage(packed)))
            case _:
                self._begin_on_item(frame, done)

    def _spread(self, frame: Frame, done: Callable[[Any], None]) -> None:
        """Tell the shards but the first a cluster state."""
        state, shards = _STATES.get(frame.name), self._engine.shards[1:]
        if state is None:
            done(_NOT_KNOWN)
        elif not shards:
            done(False)
        else:
            change = ClusterStateChange if frame.kind is FrameKind.SPREAD else TransientStateChange
            StateChange(shards, change(state), nothing, done).send()

    def _begin_on_item(self, frame: Frame, done: Callable[[Any], None]) -> None:
        match frame.kind:
            case FrameKind.QUEUE_POLL:
                poll = ServerPoll(self._engine, frame.name, frame.number / 1000, done)
                self._polls[frame.call] = poll
                poll.begin()
            case FrameKind.CANCEL:
                cancelled = self._polls.pop(frame.call, None)
                if cancelled is not None:
                    cancelled.cancel()
            case FrameKind.QUEUE_CONFIRM | FrameKind.QUEUE_RETURN:
                # It may have gone back already, or have been confirmed over an earlier session.
                item = self._out.pop(_delivery(frame), None)
                if item is not None and frame.kind is FrameKind.QUEUE_CONFIRM:
                    self._engine.queue_confirm(item)
                elif item is not None:
                    self._engine.queue_return(item)
                done(None)
            case FrameKind.HELD:
                self._deliveries.add(_delivery(frame))
            case _:
                done(_NOT_KNOWN)

    def _note_outcome(self, session: int, call: int, outcome: object) -> None:
        """Send an outcome with the others of this tick."""
        if session != self.session:
            return  # a poll was cancelled when its session ended: this is none
        if self._polls:
            self._polls.pop(call, None)
        if isinstance(outcome, Item):
            self._out[outcome.queue, outcome.item_id, outcome.take_id] = outcome
        self._soon()
        self._outcomes.append(outcome_frame(call, outcome))

    def _soon(self) -> None:
        """Say what there is at the end of this tick."""
        if not self._flushes:
            self._flushes = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Say what there is, and what of that there is no room for a little later."""
        self._flushes = False
        outcomes, self._outcomes = [self._in_time(frame) for frame in self._outcomes], []
        if not self._owner.connected:
            self._over = True  # what was said before may be lost as well
        if self._over:
            return
        place = 0
        for frames in list(frame_groups(outcomes)) or [[]]:
            if not self._say(frames):
                self._outcomes = outcomes[place:]
                self._flushes = True
                self._loop.call_later(AGAIN_S, self.flush)
                return
            place += len(frames)

    def _say(self, frames: list[Frame]) -> bool:
        flags, number = self._owner.flags, self._sent + 1
        message = ForwardMessage(
            self._incarnation, self.session, number, flags, frames, self._received
        )
        try:
            sent = self._owner.say(self._reply, message)
        except WireError as error:
            _log.error("an outcome cannot be sent to the member that asked: %s", error)
            small = [self._too_large(frame) for frame in frames]
            sent = self._owner.say(self._reply, message._replace(frames=small))
        self._sent += sent
        return sent

    def _in_time(self, frame: Frame) -> Frame:
        """Return what is said now; an item goes back that a lite member may hand out too late."""
        if frame.kind is FrameKind.ITEM:
            item = self._out.get(_delivery(frame))
            if item is not None and steady_s() + SILENT_S > item.until_s:
                self._give_back({_delivery(frame)})
                return outcome_frame(frame.call, LATE)
        return frame

    def _too_large(self, frame: Frame) -> Frame:
        """Return what is said in place of an outcome; an item goes back."""
        if frame.kind is FrameKind.ITEM:
            self._give_back({_delivery(frame)} & set(self._out))
        return outcome_frame(frame.call, TOO_LARGE)

    def _cancel_polls(self) -> None:
        polls, self._polls = self._polls, {}
        for poll in polls.values():
            poll.cancel()

    def _give_back(self, deliveries: set[tuple[str, int, int]]) -> None:
        for delivery in sorted(deliveries):
            self._engine.queue_return(self._out.pop(delivery))


def _usage(packing: asyncio.Future[bytes]) -> Entry | Refused:
    try:
        packed = packing.result()
    except Exception as error:
        _log.error(
            "another member is not told what structures hold: %s", describe_unexpected(error)
        )
        return _NOT_TOLD
    return Entry(packed, None) if len(packed) <= MAX_USAGE_BYTES else _TOO_MANY


def _delivery(frame: Frame) -> tuple[str, int, int]:
    return frame.name, frame.number, frame.take_id


def _in_time(until_s: float) -> bool:
    """Tell whether an item of a lease that ends then can still be handed out elsewhere."""
    return steady_s() + SILENT_S <= until_s
