"""The host's side of forwarding: what lite members ask for is asked of this member's engine.

    lite member ─ calls of a tick ─▶ Hosting ─▶ Guest ─▶ engine ─▶ outcomes of a tick ─▶ lite member

What is asked for here is as if a client had asked: items are taken by this member and return when
it is gone. A guest that is silent for too long has what it took returned as well.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from grid_member.engine.answers import StateChange
from grid_member.engine.api import ClusterState, Engine, Entry, Item, Reason, Refused
from grid_member.engine.fields import CodecError
from grid_member.engine.forward_words import (
    HOSTS,
    Flag,
    Kind,
    Said,
    Word,
    as_word,
    decode_said,
    encode_said,
    forward_subject,
    together,
)
from grid_member.engine.nats.errors import WireError
from grid_member.engine.operations import ClusterStateChange, TransientStateChange
from grid_member.engine.system_side import nothing
from grid_member.engine.usage import packed_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.engine.api import Poll
    from grid_member.engine.lane import Lane
    from grid_member.engine.nats.client import NatsClient
    from grid_member.engine.nats.wire import Message
    from grid_member.engine.usage import StructureUsage

GUEST_SILENT_S: Final = 10.0
"""A guest that gave no sign of life for so long is gone. It has given up this host long before."""
LOOK_S: Final = 1.0
STALL_S: Final = 3.0
"""This process stood still when nothing was looked at for so long: nobody knows who is silent."""
_ALWAYS: Final = {Kind.QUEUE_CONFIRM, Kind.QUEUE_RETURN, Kind.CANCEL, Kind.HELD}
"""What is done while this member stops, too."""
MAX_USAGE_BYTES: Final = 4 << 20
"""What a lite member is told of structures, packed; far more than a hundred thousand take."""
_TOO_MANY: Final = Refused(
    Reason.UNAVAILABLE, "there are too many structures: ask a member that holds the data"
)
_log: Final = logging.getLogger("grid.engine")


class HostEngine(Engine, Protocol):
    """The engine as hosting needs it."""

    @property
    def in_contact(self) -> bool:
        """Whether a quorum confirms what this member sends, in every lane."""

    @property
    def lanes(self) -> list[Lane]:
        """All lanes."""

    def structure_usage(self) -> list[StructureUsage]:
        """Return what every structure holds that holds anything."""


class Hosting:
    """Serves lite members; for one event loop."""

    def __init__(self, client: NatsClient, engine: HostEngine, member: bytes) -> None:
        """Serve nobody yet.

        Args:
            client: connected to the member's own server.
            engine: holds the data.
            member: this member's UUID, 16 bytes.
        """
        self._client = client
        self._engine = engine
        self._member = member
        self._guests: dict[bytes, Guest] = {}
        self._leaving = False
        self._looked_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Listen to lite members from now on."""
        self._client.subscribe(HOSTS, self._wanted)
        self._client.subscribe(forward_subject(self._member), self._heard)
        self._looked_s = asyncio.get_running_loop().time()
        self._look()

    def leave(self) -> None:
        """Begin nothing any more: this member stops. What was begun gets its outcome."""
        self._leaving = True
        for guest in self._guests.values():
            guest.leave()

    def end(self) -> None:
        """Look at nobody any more."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def weak(self) -> bool:
        """Whether lite members had better ask another host."""
        return self._leaving or not self._engine.ready or not self._engine.in_contact

    @property
    def leaving(self) -> bool:
        """Whether nothing is begun any more."""
        return self._leaving

    def say(self, reply: bytes, said: Said) -> bool:
        """Send a message; False when it was not."""
        try:
            return self._client.publish(reply, encode_said(said))
        except WireError as error:
            _log.error("an outcome cannot be sent to the lite member that asked: %s", error)
            return False

    def forget(self, life: bytes) -> None:
        """Forget a guest."""
        self._guests.pop(life, None)

    def _wanted(self, messages: Sequence[Message]) -> None:
        if self.weak:
            return
        for message in messages:
            self._client.publish(message.reply, self._member)

    def _heard(self, messages: Sequence[Message]) -> None:
        for message in messages:
            try:
                said = decode_said(message.payload)
            except CodecError as error:
                _log.warning("a lite member said what cannot be read: %s", error)
                continue
            guest = self._guests.get(said.life)
            begins = said.number == 1 and (guest is None or said.session > guest.session)
            if begins and guest is None and not self._leaving:
                guest = self._guests[said.life] = Guest(self, self._engine, said.life)
            if guest is not None and begins:
                guest.begin(said, message.reply)
            if guest is not None and guest.follows(said):
                guest.take(said)
            elif guest is None or said.session >= guest.session:
                broken = Said(said.life, said.session, 0, Flag.BROKEN, [])
                self.say(message.reply, broken)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        try:
            self._look_at_guests(now_s)
        finally:
            self._looked_s = now_s
            self._timer = loop.call_later(LOOK_S, self._look)

    def _look_at_guests(self, now_s: float) -> None:
        away = now_s - self._looked_s > STALL_S or not self._engine.in_contact
        for guest in list(self._guests.values()):
            if away:
                guest.heard_s = now_s  # it may be this member that is not to be heard
            elif now_s - guest.heard_s > GUEST_SILENT_S:
                _log.info("a lite member is silent: what it has of queues here goes back")
                guest.end()


class Guest:
    """One start of a lite member, as its host knows it."""

    def __init__(self, hosting: Hosting, engine: HostEngine, life: bytes) -> None:
        self.session = 0
        self.heard_s = 0.0
        self._hosting = hosting
        self._engine = engine
        self._life = life
        self._reply = b""
        self._heard = 0
        """The number of the last message that was taken."""
        self._said = 0
        self._polls: dict[int, Poll | None] = {}
        """Those without an outcome; None while a poll begins."""
        self._out: dict[tuple[str, int, int], Item] = {}
        """What it was given and has neither confirmed nor returned."""
        self._outcomes: list[Word] = []
        self._flag = Flag.NONE
        self._loop = asyncio.get_running_loop()

    def begin(self, said: Said, reply: bytes) -> None:
        """Begin a session; what was asked for in the former one is of no matter any more."""
        self._cancel_polls()
        self.session, self._reply = said.session, reply
        self._heard = self._said = 0
        self._outcomes = []
        held = {_delivery(word) for word in said.words if word.kind is Kind.HELD}
        # The others were sent, and never got there.
        self._give_back(set(self._out) - held)

    def follows(self, said: Said) -> bool:
        """Tell whether nothing was lost before this message."""
        return said.session == self.session and said.number == self._heard + 1

    def take(self, said: Said) -> None:
        """Do what a message asks for."""
        self._heard = said.number
        self.heard_s = self._loop.time()
        for word in said.words:
            self._begin_call(word)
        if said.flags & Flag.PING:
            self._soon()
            self._flag = Flag.PONG
        if said.flags & Flag.BYE:
            self.end()

    def leave(self) -> None:
        """Let waiting polls be asked of another host."""
        waiting = list(self._polls)
        self._cancel_polls()
        self._soon()
        self._outcomes += [Word(Kind.NOT_TAKEN, call) for call in waiting]

    def end(self) -> None:
        """Be gone: nobody waits for anything, or has anything."""
        self.session, self._heard = 0, -1
        self._cancel_polls()
        self._give_back(set(self._out))
        self._hosting.forget(self._life)

    def _begin_call(self, word: Word) -> None:
        kind, engine = word.kind, self._engine
        if self._hosting.leaving and kind not in _ALWAYS:
            self._soon()
            self._outcomes.append(Word(Kind.NOT_TAKEN, word.call))
            return
        done = partial(self._done, self.session, word.call)
        match kind:
            case Kind.MAP_GET:
                engine.map_get(word.name, word.key, done)
            case Kind.MAP_PUT:
                engine.map_put(word.name, word.key, word.value, word.content_type, done)
            case Kind.MAP_REMOVE:
                engine.map_remove(word.name, word.key, done)
            case Kind.MAP_CLEAR:
                engine.map_clear(word.name, done)
            case Kind.QUEUE_OFFER:
                engine.queue_offer(word.name, word.value, word.content_type, done)
            case Kind.QUEUE_SIZE:
                engine.queue_size(word.name, done)
            case Kind.SPREAD | Kind.SPREAD_FOR_NOW:
                change = ClusterStateChange if kind is Kind.SPREAD else TransientStateChange
                operation = change(ClusterState(word.name))
                StateChange(engine.lanes[1:], operation, nothing, done).send()
            case Kind.USAGE:
                packing = self._loop.run_in_executor(None, packed_usage, engine.structure_usage())
                packing.add_done_callback(lambda packed: done(_usage(packed.result())))
            case _:
                self._begin_on_item(word, done)

    def _begin_on_item(self, word: Word, done: Callable[[Any], None]) -> None:
        match word.kind:
            case Kind.QUEUE_POLL:
                self._polls[word.call] = None
                poll = self._engine.queue_poll(word.name, word.number / 1000, done)
                if word.call in self._polls:
                    self._polls[word.call] = poll
            case Kind.CANCEL:
                cancelled = self._polls.pop(word.call, None)
                if cancelled is not None:
                    cancelled.cancel()
            case Kind.QUEUE_CONFIRM | Kind.QUEUE_RETURN:
                # It may have gone back already, or have landed over an earlier session.
                item = self._out.pop(_delivery(word), None)
                if item is not None and word.kind is Kind.QUEUE_CONFIRM:
                    self._engine.queue_confirm(item)
                elif item is not None:
                    self._engine.queue_return(item)
                done(None)

    def _done(self, session: int, call: int, outcome: object) -> None:
        """Send an outcome with the others of this tick."""
        if session != self.session:
            return  # a poll was cancelled when its session ended: this is none
        if self._polls:
            self._polls.pop(call, None)
        if isinstance(outcome, Item):
            self._out[outcome.queue, outcome.item_id, outcome.take_id] = outcome
        self._soon()
        self._outcomes.append(as_word(call, outcome))

    def _soon(self) -> None:
        """Say what there is at the end of this tick."""
        if not self._outcomes and not self._flag:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        flag, self._flag = self._flag, Flag.NONE
        if self._hosting.weak:
            flag |= Flag.WEAK
        groups = list(together(outcomes))
        for words in groups or [[]] * bool(flag):
            self._said += 1
            said = Said(self._life, self.session, self._said, flag, words)
            flag &= ~Flag.PONG
            if not self._hosting.say(self._reply, said):
                self._heard = -1  # what comes next does not follow
                return

    def _cancel_polls(self) -> None:
        polls, self._polls = self._polls, {}
        for poll in polls.values():
            if poll is not None:
                poll.cancel()

    def _give_back(self, deliveries: set[tuple[str, int, int]]) -> None:
        for delivery in sorted(deliveries):
            self._engine.queue_return(self._out.pop(delivery))


def _usage(packed: bytes) -> Entry | Refused:
    return Entry(packed, None) if len(packed) <= MAX_USAGE_BYTES else _TOO_MANY


def _delivery(word: Word) -> tuple[str, int, int]:
    return word.name, word.number, word.take_id
