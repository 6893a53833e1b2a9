"""One host as a lite member knows it: sessions in which nothing may be lost.

Messages are counted both ways, and a heartbeat is asked for again and again. A loss ends the
session: then nobody knows what became of the calls that have no outcome, but for those of messages
that nobody listened to.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from grid_member.engine.forward.messages import (
    AGAIN_S,
    TOO_LARGE,
    Flag,
    Kind,
    Said,
    Word,
    decode_said,
    encode_said,
    forward_subject,
    together,
)
from grid_member.engine.leasehold import steady_s
from grid_member.engine.local.system import ignore
from grid_member.engine.nats.client.errors import WireError
from grid_member.engine.nats.client.wire import no_responders
from grid_member.engine.state.fields import CodecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from grid_member.engine.api import Refused
    from grid_member.engine.nats.client.client import NatsClient, Subscription
    from grid_member.engine.nats.client.wire import Message

SILENT_S: Final = 4.0
"""A host is given up whose last heartbeat was asked for so long ago. Far below the time after
which it gives this member up, so that nothing it has taken back by then is handed out here."""
_log: Final = logging.getLogger("grid.engine")


class Delivery(NamedTuple):
    """An item in flight, by its queue, its identifier and the identifier of its take."""

    queue: str
    item_id: int
    take_id: int


class Call:
    """Something that is asked of a host."""

    __slots__ = ("deadline_s", "done", "message", "word")

    def __init__(self, word: Word, done: Callable[[object], None], deadline_s: float) -> None:
        self.word = word
        self.done: Callable[[object], None] | None = done
        """None when nobody wants the outcome any more."""
        self.deadline_s = deadline_s
        self.message = 0
        """The number of the message that it went with."""


class Asker(Protocol):
    """The lite member's side of a host."""

    def answered(self, host: Host, call: Call | None, outcome: Word) -> None:
        """Take an outcome; call is None when nobody waits for it."""

    def refused(self, call: Call, outcome: Refused) -> None:
        """Take what is refused here: the host has not heard of the call."""

    def weakened(self, host: Host) -> None:
        """Hear that another host is better from now on."""

    def lost(self, host: Host, unknown: list[Call], unsent: list[Call]) -> None:
        """Take the calls of a session that is over; those unsent never got anywhere."""


class Host:
    """A member that holds data."""

    def __init__(
        self,
        client: NatsClient,
        incarnation: bytes,
        member: bytes,
        sessions: Iterator[int],
        asker: Asker,
    ) -> None:
        """Say nothing yet.

        Args:
            client: connected to the lite member's own server.
            incarnation: of the lite member.
            member: the host's UUID, 16 bytes.
            sessions: the numbers of sessions, each higher than any before.
            asker: hears of outcomes and losses.
        """
        self.open = self.weak = self.apart = False
        self.held: dict[Delivery, Call | None] = {}
        """Items that came from there, each with the call that ends its delivery, if any."""
        self.owing = False
        """Whether it may have taken an item for a poll of a session that was lost: it takes that
        back as soon as another session begins, and much later without one."""
        self.calls: dict[int, Call] = {}
        """Without an outcome, in the order in which they were sent."""
        self.heard_s = 0.0
        """When the last heartbeat was asked for that came, by `steady_s`, as all times here: the
        host may take back what it gave while this member's machine sleeps."""
        self._client = client
        self._incarnation = incarnation
        self._sessions = sessions
        self._asker = asker
        self._subject = forward_subject(member)
        self._session = self._said = self._heard = 0
        self.begun_s = 0.0
        """When the session began."""
        self._inbox = b""
        self._subscription: Subscription | None = None
        self._posted: list[Call] = []
        self._asked: deque[tuple[int, float]] = deque()
        """The messages that asked for a heartbeat and got none, and when that was."""
        self._loop = asyncio.get_running_loop()

    def lasts(self, for_s: float) -> bool:
        """Tell whether the host has sent heartbeats in this session for so long."""
        return self.open and self.heard_s - self.begun_s >= for_s

    @property
    def busy(self) -> bool:
        """Whether anything is asked for, or was given and is neither confirmed nor returned."""
        return bool(self.calls or self.held or self._posted or self.owing)

    def pending(self) -> list[Call]:
        """Return the calls without an outcome."""
        return [*self.calls.values(), *self._posted]

    def begin(self) -> None:
        """Begin another session."""
        self.open, self.weak, self.apart = True, False, False
        self._session = next(self._sessions)
        self._said = self._heard = 0
        self._asked.clear()
        self._inbox = self._client.unused_inbox()
        self._subscription = self._client.subscribe(self._inbox + b".*", self._take)
        self.begun_s = steady_s()
        held = [Word(Kind.HELD, 0, one.queue, "", b"", None, *one[1:]) for one in self.held]
        groups = list(together(held)) or [[]]
        for words in groups:
            last = words is groups[-1]
            if not self._say(words, Flag.PING | Flag.ALL_HELD if last else Flag.PING):
                self.lose()
                return
        for call in self.held.values():
            if call is not None:
                self.post(call)

    def post(self, call: Call) -> None:
        """Send a call with all that is asked of the host in this tick."""
        if not self._posted:
            self._loop.call_soon(self._flush)
        self._posted.append(call)

    def cancel(self, call: Call) -> None:
        """Wait no more for a poll that was sent or posted here."""
        if self.calls.pop(call.word.call, None) is not None and self.open:
            self.post(Call(Word(Kind.CANCEL, call.word.call), ignore, 0.0))

    def ask(self) -> None:
        """Ask for a heartbeat, or find that there was none for too long."""
        if self._is_silent():
            self.lose()
        else:
            self._say([], Flag.PING)

    def end(self) -> None:
        """End the session: nothing of it is needed any more."""
        if self.open:
            self._flush()
            self._say([], Flag.BYE)
            self._close()

    def lose(self, unheard: int | None = None) -> None:
        """Give the session up; messages from the number on were heard by nobody."""
        if not self.open:
            return
        self._close()
        sent, self.calls = list(self.calls.values()), {}
        posted, self._posted = self._posted, []
        ending = {id(call) for call in self.held.values()}  # which are sent again from there
        unknown: list[Call] = []
        unsent: list[Call] = []
        for call in sent:
            reached = unheard is None or call.message < unheard
            (unknown if reached else unsent).append(call)
        self.owing |= any(call.word.kind is Kind.QUEUE_POLL for call in unknown)
        self._asker.lost(
            self,
            [call for call in unknown if id(call) not in ending],
            [call for call in (*unsent, *posted) if id(call) not in ending],
        )

    def _close(self) -> None:
        self.open = False
        if self._subscription is not None:
            self._subscription.unsubscribe()
            self._subscription = None

    @property
    def until_s(self) -> float:
        """When it is silent, should no heartbeat come before."""
        return max(self.begun_s, self.heard_s) + SILENT_S

    def _is_silent(self) -> bool:
        return steady_s() > self.until_s

    def _flush(self) -> None:
        if not self.open:
            return
        posted, self._posted = [one for one in self._posted if one.done is not None], []
        place = 0
        for words in together(one.word for one in posted):
            calls = posted[place : place + len(words)]
            if not self._send(calls, words):
                self._posted = posted[place:]
                self._loop.call_later(AGAIN_S, self._flush)
                return
            place += len(words)

    def _send(self, calls: list[Call], words: list[Word]) -> bool:
        try:
            if not self._say(words):
                return False
        except WireError as error:
            _log.error("what was asked for cannot be forwarded: %s", error)
            for call in calls:
                self._asker.refused(call, TOO_LARGE)
            return True
        for call in calls:
            call.message = self._said
            if call.word.kind is not Kind.CANCEL:
                self.calls[call.word.call] = call
        return True

    def _say(self, words: list[Word], flags: Flag = Flag.NONE) -> bool:
        """Send a message; False when too much waits to be sent, or there is no connection."""
        said = Said(self._incarnation, self._session, self._said + 1, flags, words)
        reply = b"%b.%d" % (self._inbox, said.number)
        if not self._client.publish(self._subject, encode_said(said), reply):
            return False
        self._said = said.number
        if flags & Flag.PING:
            self._asked.append((said.number, steady_s()))
        return True

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if not self.open:
                return  # what the host gave out in vain it takes back
            if no_responders(message):
                self.lose(int(message.subject.rpartition(b".")[2]))
            else:
                self._hear(message)

    def _hear(self, message: Message) -> None:
        try:
            said = decode_said(message.payload)
        except CodecError as error:
            _log.warning("a host said what cannot be read: %s", error)
            self.lose()
            return
        if said.session != self._session:
            return
        while self._asked and self._asked[0][0] <= said.heard:
            _, self.heard_s = self._asked.popleft()
            self.owing = False
        # One that stood still must not hand out what the host has taken back meanwhile.
        if said.flags & Flag.BROKEN or said.number != self._heard + 1 or self._is_silent():
            self.lose()
            return
        self._heard = said.number
        was_weak, self.weak = self.weak, bool(said.flags & Flag.WEAK)
        self.apart = bool(said.flags & Flag.APART)
        if self.weak and not was_weak:
            self._asker.weakened(self)
        for word in said.words:
            self._asker.answered(self, self.calls.pop(word.call, None), word)
