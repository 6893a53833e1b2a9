"""The answering half of a fast-path connection: requests begun, answers in order, one write."""

from __future__ import annotations

import abc
import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.api import Item
from grid_member.engine.leasehold import LATE, steady_s
from grid_member.http.fastpath.plain import MAP_GET, MAP_PUT, MAP_REMOVE, QUEUE_OFFER, QUEUE_POLL
from grid_member.http.wire.answers import MAX_JOINED_BYTES, error
from grid_member.http.wire.watch import UnreadTimer, write_pieces
from grid_member.telemetry.logs import failure

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from grid_member.engine.api import Poll
    from grid_member.http.fastpath.context import FastPathContext
    from grid_member.http.fastpath.plain import Beginning, RequestKind

MAX_DUE: Final = 32
"""Answers that are collected for one write; a large one is written at once."""
WRITES: Final = frozenset({MAP_PUT, MAP_REMOVE, QUEUE_OFFER})
_EVER: Final = math.inf
_FAILED: Final = error(500, "unexpected error")
_log: Final = logging.getLogger("grid.http")
_HEAD_END: Final = b"\r\n\r\n"
_CLOSING: Final = b"\r\nConnection: close\r\n\r\n"


class Slot:
    """A write that was begun behind others, and its outcome; `done` is the callback."""

    __slots__ = ("began_s", "beginning", "outcome", "over", "owner")

    def __init__(self, owner: FastPathAnswers, beginning: Beginning, began_s: float) -> None:
        self.owner = owner
        self.beginning = beginning
        self.began_s = began_s
        self.outcome: Any = None
        self.over = False

    def done(self, outcome: Any) -> None:
        """Take the engine's outcome."""
        if not self.over:  # else it failed after it was done
            self.outcome = outcome
            self.over = True
            self.owner.count_outcome()


class FastPathAnswers(metaclass=abc.ABCMeta):
    """What a connection has begun and not answered, and what the kernel has not taken."""

    __slots__ = (
        "_alone", "_began_s", "_due", "_flush_planned", "_head_at", "_items", "_number", "_on_read",
        "_on_write", "_one", "_parting", "_pending", "_poll", "_poll_waited", "_serving", "_slots",
        "_transport", "_turn", "_unread", "_written_bytes", "context",
    )  # fmt: skip

    def __init__(self, context: FastPathContext) -> None:
        self.context = context
        self._transport: asyncio.Transport | None = None
        self._pending = 0
        """Requests that have no answer yet."""
        self._one: Beginning | None = None
        """The first of them, which needs no slot: mostly it is the only one."""
        self._began_s = 0.0
        self._slots: list[Slot] = []
        """Writes that were begun behind it."""
        self._poll: Poll | None = None
        """The first of them when it is a poll that waits."""
        self._poll_waited = False
        """Whether it, or the one that the items are for, was seen waiting: has its client gone?"""
        self._alone = False
        """Whether the pending one is a read, behind which everything waits."""
        self._due: list[bytes] = []
        """Answers that can be written."""
        self._head_at = 0
        """Where in there the last answer begins."""
        self._serving = False
        """Whether requests are being begun: their answers go out together."""
        self._flush_planned = False
        """Whether answers will be written at the end of this tick."""
        self._turn = False
        """Whether there is something to do when nothing is pending."""
        self._parting = False
        """Whether an answer said that the connection closes."""
        self._number = -1
        """What `context.leavers` knows this by, from the first polled item on."""
        self._items: list[Item] = []
        """Polled items whose answers the kernel does not have as a whole."""
        self._unread: UnreadTimer | None = None
        """While the kernel does not take everything."""
        self._written_bytes = 0
        """Meanwhile."""
        self._on_write: Callable[[Any], None] | None = self._finish_write
        self._on_read: Callable[[Any], None] | None = self._finish_poll
        """What takes the outcome of the first, of a write or another, until there is no client."""

    @property
    @abc.abstractmethod
    def _is_last(self) -> bool:
        """Whether the last answer is the connection's."""

    @abc.abstractmethod
    def _settle(self) -> None:
        """Do what had to wait until nothing is pending and the kernel has everything."""

    def pause_writing(self) -> None:
        """Begin nothing more until the kernel has everything."""
        self._unread = UnreadTimer(self.context.http.write_timeout_s)

    def resume_writing(self) -> None:
        """Go on: the kernel has everything."""
        self._unread = None
        self._hand_items(self._deliver)
        if self._turn and not self._flush_planned:
            # Not in here: a transport that is closed in this call tells twice that it is lost.
            self._flush_planned = True
            self.context.loop.call_soon(self._flush)

    # Beginning

    def _begin(
        self, beginning: Beginning, text: str, content_type: str | None, value: bytes
    ) -> None:
        """Let the engine begin; it may be done with it at once."""
        began_s = 0.0 if self.context.measurements is None else time.perf_counter()
        done: Callable[[Any], None]
        if self._pending or self._slots:
            slot = Slot(self, beginning, began_s)
            self._slots.append(slot)
            done = slot.done
        else:
            self._one, self._began_s = beginning, began_s
            done = self._outcome_callback(beginning.kind)
        self._pending += 1
        try:
            if beginning.kind is MAP_PUT:
                self.context.engine.map_put(beginning.name, text, value, content_type, done)
            else:
                self._call(beginning, text, content_type, value, done)
        except Exception as problem:
            self._fail(problem, done)

    def _fail(self, problem: Exception, done: Callable[[Any], None]) -> None:
        failure(_log, "request failed", problem)
        done(_FAILED)

    def _call(
        self,
        beginning: Beginning,
        text: str,
        content_type: str | None,
        value: bytes,
        done: Callable[[Any], None],
    ) -> None:
        engine, kind, name = self.context.engine, beginning.kind, beginning.name
        if kind is QUEUE_OFFER:
            engine.queue_offer(text, value, content_type, done)
        elif kind is QUEUE_POLL:
            poll = engine.queue_poll(name, float(text), done)
            if self._one is not None:
                self._alone, self._poll = True, poll
        elif kind is MAP_REMOVE:
            engine.map_remove(name, text, done)
        else:
            if kind is MAP_GET:
                engine.map_get(name, text, done)
            else:
                engine.queue_size(name, done)
            self._alone = self._one is not None

    def _outcome_callback(self, kind: RequestKind) -> Callable[[Any], None]:
        """Return what takes the outcome of the first."""
        writes = kind is MAP_PUT or kind is QUEUE_OFFER
        return (self._on_write if writes else self._on_read) or self._finish_one

    def _finish_one(self, outcome: Any) -> None:
        """Take the outcome of the first."""
        one, self._one = self._one, None
        if one is None:
            return  # it failed after it was done
        self._pending -= 1
        self._poll = None
        if type(outcome) is Item:
            if steady_s() >= outcome.until_s:
                self.context.engine.queue_return(outcome)
                outcome, self._poll_waited = LATE, False
            elif not self._accept(outcome):
                return
        else:
            self._poll_waited = False
        if self._transport is not None:
            self._answer(one, self._began_s, outcome)
            self._write_soon()

    def _finish_write(self, outcome: Any) -> None:
        """Take the outcome of a write: mostly the only one, and mostly it went well."""
        context, transport = self.context, self._transport
        if (
            (outcome is not None and outcome is not True)
            or self._pending > 1
            or self._slots
            or self._turn
            or self._serving
            or transport is None
            or not (context.unmeasured and context.member.is_running)  # as `plain`
        ):
            self._finish_one(outcome)
        elif self._one is not None:
            self._one = None
            self._pending = 0
            context.answer_count += 1
            transport.write(context.ready_empty or context.empty())

    def _finish_poll(self, outcome: Any) -> None:
        """Take the outcome of what is no write: mostly an item that can be written now."""
        context, transport = self.context, self._transport
        if (
            type(outcome) is not Item
            or self._one is None
            or self._turn
            or self._serving
            or self._flush_planned
            or self._poll_waited
            or self._unread is not None
            or transport is None
            or not (context.unmeasured and context.member.is_running)  # as `plain`
            or (outcome.until_s < _EVER and steady_s() >= outcome.until_s)
        ):
            self._finish_one(outcome)
            return
        self._one = self._poll = None
        self._pending, self._alone = 0, False
        if not self._accept(outcome):
            return
        context.answer_count += 1
        _, head, body = context.item(outcome)
        if body:
            self._write([head, body])
            return
        transport.write(head)  # as there, mostly
        if transport.get_write_buffer_size() or transport.is_closing():
            self._deliver_written(transport)
        else:
            self._items.pop()
            context.engine.queue_confirm(outcome)

    def _accept(self, item: Item) -> bool:
        """Note an item that the client is to have; False when it has left."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            clients = self.context.lost_clients
            try:
                if self._number < 0:
                    self._number = clients.follow(transport)
                if not clients.has_left(self._number):
                    self._items.append(item)
                    return True
            except OSError as problem:
                failure(_log, "nobody can tell whether a client is there", problem)
            transport.close()  # who only ended its side has answers before this one to read
        self.context.engine.queue_return(item)
        return False

    def count_outcome(self) -> None:
        """Hear that a slot has its outcome."""
        self._pending -= 1
        if not self._flush_planned:
            # More of them come in this tick.
            self._flush_planned = True
            self.context.loop.call_soon(self._flush)

    # Answering

    def _write_soon(self) -> None:
        """Write, unless more is answered in this tick."""
        if self._serving or self._flush_planned:
            return
        if self._pending:
            self._flush_planned = True
            self.context.loop.call_soon(self._flush)
        else:
            self._finish_round()

    def _flush(self) -> None:
        self._flush_planned = False
        if self._pending:
            self._emit()
        else:
            self._finish_round()

    def _finish_round(self) -> None:
        self._alone = False
        self._emit()
        if self._turn:
            self._settle()

    def _answer(self, beginning: Beginning, began_s: float, outcome: Any) -> None:
        """Make the answer due."""
        context = self.context
        status, head, body = context.render(beginning.kind, outcome)
        due = self._due
        self._head_at = len(due)
        due.append(head)
        if body:
            due.append(body)
        context.answer_count += 1
        if context.measurements is not None:
            took_s = time.perf_counter() - began_s
            context.measurements.count_request(beginning.method, beginning.path, status, took_s)

    def _emit(self) -> None:
        """Write the answers that are due, in their order."""
        if self._slots and self._one is None:
            self._answer_slots()
        transport, due = self._transport, self._due
        if transport is None or not due:
            return
        if not (self._turn or len(due) > 1) and self.context.plain:
            transport.write(due.pop())  # as below, mostly
            if self._items:
                self._deliver_written(transport)
            return
        if not self._pending and not self._serving and self._is_last:
            due[self._head_at] = due[self._head_at].replace(_HEAD_END, _CLOSING, 1)
            self._parting = self._turn = True
        self._due = []
        self._write(due)

    def _answer_slots(self) -> None:
        """Make the answers of the first slots due."""
        slots, due = self._slots, self._due
        empty = self.context.empty() if self.context.plain else None
        count = 0
        for slot in slots:
            if not slot.over:
                break
            count += 1
            if empty is not None and (slot.outcome is None or slot.outcome is True):
                self._head_at = len(due)  # as in _answer, mostly
                due.append(empty)
                self.context.answer_count += 1
            else:
                self._answer(slot.beginning, slot.began_s, slot.outcome)
        del slots[:count]

    def _write(self, pieces: list[bytes]) -> None:
        transport = self._transport
        if transport is None:
            return
        if len(pieces) > 1:
            if max(map(len, pieces)) <= MAX_JOINED_BYTES:
                pieces = [b"".join(pieces)]
            else:
                self.context.lost_clients.expire()  # for this takes its time
        write_pieces(transport, pieces)
        if self._unread is not None:
            self._written_bytes += sum(map(len, pieces))
        if self._items:
            self._deliver_written(transport)

    def _deliver_written(self, transport: asyncio.Transport) -> None:
        if transport.get_write_buffer_size() == 0:
            # A failed write empties the buffer too, and closes.
            left = transport.is_closing()
            self._hand_items(self.context.engine.queue_return if left else self._deliver)

    def _lose(self) -> None:
        """Give back what nobody will get: the connection is lost."""
        transport, self._transport = self._transport, None
        self._unfollow()
        self._slots.clear()
        if self._poll is not None:
            self._poll.cancel()
        self._hand_items(self.context.engine.queue_return)
        if transport is not None:
            self.context.receipts.drop(transport)

    def _unfollow(self) -> None:
        self._on_write = self._on_read = None  # else it would hold itself
        if self._number >= 0:
            self.context.lost_clients.forget(self._number)
            self._number = -1

    def _hand_items(self, take: Callable[[Item], None]) -> None:
        items = self._items
        while items:
            take(items.pop())
        self._poll_waited = False

    def _deliver(self, item: Item) -> None:
        """Take it that the client has an item that the kernel has; one that waited has to show."""
        transport = self._transport
        if self._poll_waited and transport is not None:
            self.context.receipts.expect(transport, item, self.context.engine)
        else:
            self.context.engine.queue_confirm(item)

    def _read_up_to(self, size_bytes: int) -> None:
        """Set what one read may bring, where the transport is one that has such a limit."""
        transport = self._transport
        if transport is not None and hasattr(transport, "max_size"):
            transport.max_size = size_bytes

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
