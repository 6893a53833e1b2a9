"""An engine that does what a script says: at once or later, in order or not, or not at all."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from grid_member.engine.api import Entry, Item, Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.engine.api import Done

BIG_BYTES: Final = 70_000
MAX_ITEMS: Final = 3
_BIG: Final = Entry(b"b" * BIG_BYTES, None)
_SMALL: Final = Entry(b"v\r\n\r\n", "text/plain; charset=utf-8")
_ABSENT: Final = "no"
"""How names begin that no configuration matches."""
_WRITES: Final = frozenset({"map_put", "map_remove", "queue_offer"})
_BOUNDED: Final = "b"
"""How names of maps begin whose reads may take a while."""
_NOT_CONFIGURED: Final = Refused(Reason.NOT_CONFIGURED, "no configuration matches the name")
_NOT_YET: Final = object()
FAILED: Final = object()
"""The outcome of an operation that raised what no operation should."""


@dataclass(slots=True)
class Call:
    """One operation that was begun."""

    operation: tuple[object, ...]
    """Name of the row in the routing table and what it is called with."""
    done: Callable[[Any], None]
    outcome: Any = _NOT_YET
    told: bool = False
    cancelled: bool = False
    peeked: bool = False
    """Done without a callback."""

    @property
    def settled(self) -> bool:
        """Whether it is known what becomes of it."""
        return self.outcome is not _NOT_YET

    def tell(self) -> None:
        """Call back, once."""
        if not self.told and not self.cancelled:
            self.told = True
            self.done(self.outcome)


def _ignore(_: object) -> None:
    pass


@dataclass(slots=True)
class WaitingPoll:
    """What a poll returns."""

    engine: ScriptedEngine
    call: Call

    def cancel(self) -> None:
        """Stop waiting; an item on its way goes back."""
        call = self.call
        if not call.told:
            call.cancelled = True
            if isinstance(call.outcome, Item):
                self.engine.flying.pop(call.outcome.item_id)
                self.engine.give_back(call.outcome)


@dataclass(slots=True)
class ScriptedEngine:
    """Maps and queues in memory. What is done is done in the order of the calls."""

    at_once: bool = True
    refusal: Refused | None = None
    """Of the next operation."""
    fails: bool = False
    """The next operation raises something."""
    complaint: str | None = None
    """What the fast path did wrong, kept as it takes whatever is raised for a failure of the
    engine."""
    calls: list[Call] = field(default_factory=list)
    flying: dict[int, Item] = field(default_factory=dict)
    """Polled items that were neither confirmed nor returned."""
    can_confirm: Callable[[], bool] = lambda: True
    _maps: dict[tuple[str, str], Entry] = field(default_factory=dict)
    _queues: dict[str, deque[Item]] = field(default_factory=dict)
    _next_id: int = 1

    def __post_init__(self) -> None:
        self._maps["m", "big"] = _BIG
        self._maps["m", "k"] = self._maps["b", "k"] = _SMALL
        self.put("q", b"\xff", None)

    # The fast path's side

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        """Read."""
        operation = ("map_get", name, key)
        if self.calls and self.calls[-1].peeked and self.calls[-1].operation == operation:
            self.calls.pop()  # nothing was made of it
        plain = not name.startswith(_BOUNDED)
        self._begin(operation, name, lambda: self._maps.get((name, key)), done, plain)

    def map_peek(self, name: str, key: str) -> bytes | tuple[bytes, str] | None:
        """Read at once; a map_get that comes next is for the same request."""
        if self.calls:
            self.calls[-1].peeked = False
        entry = self._maps.get((name, key))
        not_at_once = self.refusal is not None or self.fails
        if entry is None or not_at_once or name.startswith((_BOUNDED, _ABSENT)):
            return None
        self._see_order()
        self.calls.append(Call(("map_get", name, key), _ignore, entry, told=True, peeked=True))
        return entry.value if entry.content_type is None else (entry.value, entry.content_type)

    def map_put(
        self, name: str, key: str, value: bytes, content_type: str | None, done: Done[None]
    ) -> None:
        """Write."""

        def put() -> None:
            self._maps[name, key] = Entry(value, content_type)

        self._begin(("map_put", name, key, value, content_type), name, put, done)

    def map_remove(self, name: str, key: str, done: Done[None]) -> None:
        """Remove."""

        def remove() -> None:
            self._maps.pop((name, key), None)

        self._begin(("map_remove", name, key), name, remove, done)

    def queue_offer(
        self, name: str, value: bytes, content_type: str | None, done: Done[bool]
    ) -> None:
        """Append."""

        def offer() -> bool:
            return self.put(name, value, content_type)

        self._begin(("queue_offer", name, value, content_type), name, offer, done)

    def queue_size(self, name: str, done: Done[int]) -> None:
        """Count."""
        self._begin(("queue_size", name), name, lambda: len(self._queue(name)), done, True)

    def queue_poll(self, name: str, timeout_s: float, done: Done[Item | None]) -> WaitingPoll:
        """Take, or wait."""

        def take() -> object:
            queue = self._queue(name)
            if queue:
                return self._fly(queue.popleft())
            return None if timeout_s <= 0 else _NOT_YET

        return WaitingPoll(self, self._begin(("queue_poll", name, timeout_s), name, take, done))

    def queue_confirm(self, item: Item) -> None:
        """Forget an item."""
        if not self.can_confirm():
            self.complaint = "an item is confirmed that the kernel does not have"
        self._land(item)

    def queue_return(self, item: Item) -> None:
        """Take an item back."""
        self._land(item)
        self.give_back(item)

    # The script's side

    def put(self, name: str, value: bytes, content_type: str | None) -> bool:
        """Append an item, which a waiting poll gets at once."""
        if len(self._queue(name)) >= MAX_ITEMS:
            return False
        self._next_id += 1
        self.give_back(Item(value, content_type, name, self._next_id, 0))
        return True

    def give_back(self, item: Item) -> None:
        """Put an item to the head of its queue, or give it to who waits."""
        for call in self.calls:
            if call.operation[:2] == ("queue_poll", item.queue) and not (
                call.settled or call.cancelled
            ):
                call.outcome = self._fly(item)
                return
        self._queue(item.queue).appendleft(item)

    def end_polls(self) -> None:
        """Let the waiting polls have waited long enough."""
        for call in self.calls:
            if not call.settled:
                call.outcome = None

    def tell(self, which: slice) -> None:
        """Call back those that are settled and not told."""
        due = [call for call in self.calls if call.settled and not (call.told or call.cancelled)]
        for call in due[which]:
            call.tell()

    def _begin(
        self,
        operation: tuple[object, ...],
        name: str,
        apply: Callable[[], object],
        done: Callable[[Any], None],
        reads: bool = False,
    ) -> Call:
        call = Call(operation, done)
        refusal, self.refusal = self.refusal, None
        if operation[0] not in _WRITES:
            self._see_order()
        self.calls.append(call)
        if self.fails:
            self.fails = False
            call.outcome, call.told = FAILED, True
            raise RuntimeError("a planted failure")
        if name.startswith(_ABSENT):
            refusal = _NOT_CONFIGURED
        call.outcome = apply() if refusal is None else refusal
        if call.settled and (reads or refusal is not None or self.at_once):
            call.tell()
        return call

    def _see_order(self) -> None:
        if not all(call.told or call.cancelled for call in self.calls):
            self.complaint = "a read is begun before the answers to earlier requests"

    def _queue(self, name: str) -> deque[Item]:
        return self._queues.setdefault(name, deque())

    def _fly(self, item: Item) -> Item:
        self.flying[item.item_id] = item
        return item

    def _land(self, item: Item) -> None:
        if self.flying.pop(item.item_id, None) is None:
            self.complaint = "an item is confirmed or returned twice"
