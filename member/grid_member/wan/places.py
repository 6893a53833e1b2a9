"""How far each queue was read, and how far all of it has arrived.

    queue:    ──────────────┬───────────┬──────────────┬─────────────▶ place
                acknowledged   arrived     under way      not read

A part that arrived is acknowledged when all before it have: an acknowledgement takes everything up
to its place out of the queue. Parts that arrived beside each other become one, so that there are
never more parts than twice the batches under way, however long one of these takes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class QueueName(NamedTuple):
    """A queue of a publisher: the changes of a map that one member took in."""

    map_name: str
    member: bytes
    """16 bytes, the UUID."""


@dataclass(slots=True, eq=False)
class Part:
    """Some changes of one queue on their way, up to a place."""

    queue: QueueName
    last_place: int
    """As of `QueuedChange.place`."""
    changes: int
    """How many."""
    arrived: bool = False
    """Whether the target has it."""


@dataclass(slots=True)
class _Progress:
    read: int = 0
    """All up to this place were read from the queue."""
    arrived: int = 0
    """All up to this place have arrived."""
    confirmed: int = 0
    """All up to this place are out of the queue."""
    parts: deque[Part] = field(default_factory=deque)


class Places:
    """The progress of all queues of one sender."""

    def __init__(self) -> None:
        self._queues: dict[QueueName, _Progress] = {}

    def cursor(self, queue: QueueName) -> int:
        """Return the place after which the queue was not read yet; 0 is its begin."""
        found = self._queues.get(queue)
        return 0 if found is None else found.read

    def ahead(self, queue: QueueName) -> int:
        """Count the changes that were read and not all before which are known to have arrived."""
        found = self._queues.get(queue)
        return 0 if found is None else sum(part.changes for part in found.parts)

    def send(self, queue: QueueName, last_place: int, changes: int) -> Part:
        """Note that so many changes, up to a place of the queue, are on their way."""
        progress = self._queues.setdefault(queue, _Progress())
        part = Part(queue, last_place, changes)
        progress.read = last_place
        progress.parts.append(part)
        return part

    def note_arrival(self, part: Part) -> None:
        """Note that a part is at the target as safely as its maps promise."""
        progress = self._queues.get(part.queue)
        if progress is None:
            return
        part.arrived = True
        parts = progress.parts
        while parts and parts[0].arrived:
            progress.arrived = parts.popleft().last_place
        if part in parts:  # behind one that has not arrived
            _join(parts, parts.index(part))

    def rewind(self, queue: QueueName) -> None:
        """Have all be read again that is not known to have arrived.

        What arrives of the parts that were under way says nothing any more.
        """
        progress = self._queues.get(queue)
        if progress is None:
            return
        progress.parts.clear()
        progress.read = progress.arrived

    def rewind_map(self, map_name: str) -> None:
        """Rewind the queues of one map."""
        for queue in [queue for queue in self._queues if queue.map_name == map_name]:
            self.rewind(queue)

    def rewind_all(self) -> None:
        """Rewind every queue."""
        for queue in list(self._queues):
            self.rewind(queue)

    def arrived(self) -> dict[QueueName, int]:
        """Return, by queue, the places that are to be acknowledged."""
        return {
            queue: progress.arrived
            for queue, progress in self._queues.items()
            if progress.arrived > progress.confirmed
        }

    def confirm(self, places: Mapping[QueueName, int]) -> None:
        """Note that all up to these places are out of their queues."""
        for queue, place in places.items():
            progress = self._queues.get(queue)
            if progress is not None:
                progress.confirmed = max(progress.confirmed, place)

    def keep(self, queues: Collection[QueueName]) -> None:
        """Forget the queues that are not there any more and have nothing under way."""
        for queue in [queue for queue in self._queues if queue not in queues]:
            progress = self._queues[queue]
            if not progress.parts and progress.arrived <= progress.confirmed:
                del self._queues[queue]


def _join(parts: deque[Part], index: int) -> None:
    """Make one part of one that arrived and of its neighbours that have."""
    part = parts[index]
    while index + 1 < len(parts) and parts[index + 1].arrived:
        part.last_place = parts[index + 1].last_place
        part.changes += parts[index + 1].changes
        del parts[index + 1]
    if parts[index - 1].arrived:  # there is one: the first has not arrived
        part.changes += parts[index - 1].changes
        del parts[index - 1]
