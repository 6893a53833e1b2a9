"""What the fast path's connections of a listener share: engine, limits, ready-made answers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, cast

from grid_member.cluster.member.member import Phase
from grid_member.config.model.member import EndpointGroup
from grid_member.engine.api import Refused
from grid_member.http.fastpath.plain import (
    MAP_GET,
    MAP_PUT,
    MAP_REMOVE,
    MAX_KNOWN,
    QUEUE_OFFER,
    QUEUE_POLL,
    Recognizer,
)
from grid_member.http.routes.data import default_type, refusal
from grid_member.http.wire.answers import (
    EMPTY,
    MAX_JOINED_BYTES,
    NOTHING,
    TEXT,
    Answer,
    error,
    head_bytes,
)
from grid_member.http.wire.watch import Departures, LostClients

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.cluster.member.member import Member
    from grid_member.config.model.member import ListenerConfig, MemberConfig
    from grid_member.engine.api import Entry, Item
    from grid_member.http.fastpath.plain import RequestKind
    from grid_member.http.wire.connection import ConnectionProtocol
    from grid_member.http.wire.receipts import Receipts
    from grid_member.http.wire.uploads import Uploads
    from grid_member.http.wire.watch import Watch

# Finding a member of an enumeration in its class takes ten times as long as a global.
_RUNNING: Final = Phase.RUNNING
_STARTING: Final = Phase.STARTING
_WRITES: Final = frozenset({MAP_PUT, MAP_REMOVE})
_ROOTS: Final = (("grid", "rest", "maps"), ("grid", "rest", "queues"))
_FULL: Final = error(503, "the queue is full")
_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b"
_TYPED: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b"


class FastPathContext:
    """Made once for a listener; answers are bytes as `answers.head_bytes` writes them."""

    def __init__(
        self,
        member: Member,
        watch: Watch,
        uploads: Uploads,
        complete: Callable[[], ConnectionProtocol],
        receipts: Receipts,
    ) -> None:
        """Take what connections need.

        Args:
            member: whose engine does the work.
            watch: looks at the open connections.
            uploads: counts the bytes of bodies that are not there as a whole.
            complete: makes the connection that takes over what is not plain.
            receipts: sees whether clients got what they had waited for.
        """
        self.member = member
        self.engine = member.engine
        self.measurements = member.measurements
        self.unmeasured = member.measurements is None
        self.http = member.config.http
        self.watch = watch
        self.uploads = uploads
        self.complete = complete
        self.receipts = receipts
        self.closed = False
        """No new connection is wanted; one that is made all the same ends at once."""
        self.recognizer = Recognizer(member.config.limits)
        self.departures = Departures()
        self.loop = asyncio.get_running_loop()
        self.lost_clients = LostClients(self.loop)
        self.answer_count = 0
        """How many requests the fast path has answered."""
        self._heads: dict[int, bytes] = {}
        """Of 200s without a content type, by the size of their body."""
        self._typed_heads: dict[tuple[str, int], bytes] = {}
        """Of the others, by content type and size; at most `MAX_KNOWN` of them."""
        self._text_heads: dict[int, bytes] = {}
        """Of polled items that are plain text, by size."""
        self._date = b""
        self.ready_empty = b""
        """What `empty` returns; nothing once the date has changed, with which all of these do."""
        self._nothing = b""

    @property
    def is_serving(self) -> bool:
        """Whether data requests are for the engine; without, there are other answers to them."""
        member = self.member
        if member.phase is _STARTING:
            return member.membership is None
        return member.phase is _RUNNING

    @property
    def plain(self) -> bool:
        """Whether the member runs on, and nothing is counted but the number of answers."""
        return self.unmeasured and self.member.is_running

    # Answers

    def empty(self) -> bytes:
        """Return the answer to a write that is done."""
        if not self.ready_empty:
            self.refresh_heads()
        return self.ready_empty

    def peek(self, name: str, key: str) -> bytes | None:
        """Return the whole answer to a read that is as simple as most, None for another."""
        stored = self.engine.map_peek(name, key)
        if stored is None or self.measurements is not None:
            return None
        if not self.ready_empty:
            self.refresh_heads()
        if type(stored) is bytes:
            size = len(stored)
            head = self._heads.get(size)
            if head is None:
                if size > MAX_JOINED_BYTES:
                    return None
                head = self._heads[size] = _OK % (size, self._date)
            self.answer_count += 1
            return head + stored
        _, head, body = self._value(*stored)
        if body:
            return None
        self.answer_count += 1
        return head

    def render(self, kind: RequestKind, outcome: object) -> tuple[int, bytes, bytes]:
        """Return status, head and body of the answer to an operation; small bodies are with it."""
        if not self.ready_empty:
            self.refresh_heads()
        if outcome is None:
            # Of a write that it is done, of a read that there is nothing.
            return (200, self.ready_empty, b"") if kind in _WRITES else (204, self._nothing, b"")
        if kind is QUEUE_OFFER and type(outcome) is bool:
            return (200, self.ready_empty, b"") if outcome else _complete(_FULL)
        if isinstance(outcome, (Refused, Answer)):
            return _complete(outcome if isinstance(outcome, Answer) else refusal(outcome))
        if kind is MAP_GET:
            entry = cast("Entry", outcome)
            return self._value(entry.value, entry.content_type)
        if kind is QUEUE_POLL:
            return self.item(cast("Item", outcome))
        return self._value(b"%d" % cast("int", outcome), TEXT)

    def item(self, item: Item) -> tuple[int, bytes, bytes]:
        """Return what `render` does, for a polled item."""
        if not self.ready_empty:
            self.refresh_heads()
        value = item.value
        if item.content_type is None and value.isascii():
            head = self._text_heads.get(len(value))  # as below, mostly
            if head is not None:
                return 200, head + value, b""
        return self._value(value, item.content_type or default_type(value))

    def _value(self, value: bytes, content_type: str | None) -> tuple[int, bytes, bytes]:
        size = len(value)
        if content_type is None:
            head = _OK % (size, self._date)
        else:
            head = self._typed_heads.get((content_type, size), b"")
            if not head:
                head = _TYPED % (content_type.encode("latin-1"), size, self._date)
                if (
                    content_type == TEXT
                    and size <= MAX_JOINED_BYTES
                    and len(self._text_heads) < MAX_KNOWN
                ):
                    self._text_heads[size] = head
                if len(self._typed_heads) < MAX_KNOWN:
                    self._typed_heads[content_type, size] = head
        return (200, head + value, b"") if size <= MAX_JOINED_BYTES else (200, head, value)

    def refresh_heads(self) -> None:
        """Make anew what holds the date."""
        # A timer a second, none while nobody asks: less than a look at the clock for each answer.
        # In a second at the latest, also when the clock is set back.
        self.loop.call_later(1.0 - time.time() % 1.0, self._outdate)
        self.ready_empty = head_bytes(EMPTY, keep_alive=True, http_1_0=False)
        self._nothing = head_bytes(NOTHING, keep_alive=True, http_1_0=False)
        self._date = self.ready_empty[self.ready_empty.index(b"Date: ") :]
        self._heads, self._typed_heads, self._text_heads = {}, {}, {}

    def _outdate(self) -> None:
        self.ready_empty = b""


def has_fast_path(listener: ListenerConfig, config: MemberConfig) -> bool:
    """Tell whether plain data requests to a listener are answered on the fast path.

    It asks nobody who they are, so it is not where anybody might have to say it.
    """
    if not config.http.fast_path or listener.metrics or listener.users is not None:
        return False
    security = config.security
    protected = security.protected_endpoints
    asks = security.enabled and (
        EndpointGroup.DATA in protected.groups
        or any(
            path[: len(root)] == root[: len(path)] for path in protected.paths for root in _ROOTS
        )
    )
    return EndpointGroup.DATA in listener.groups and not asks


def _complete(answer: Answer) -> tuple[int, bytes, bytes]:
    return answer.status, head_bytes(answer, keep_alive=True, http_1_0=False), b""
