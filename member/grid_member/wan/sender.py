"""Sends the queues of one publisher in one shard to its target.

    read a batch ──▶ encode ──▶ deflate on a thread ──▶ POST ──▶ its places arrived ──▶ acknowledge
         ▲                                                │
         └── again from what has arrived, after a rest ◀──┘ failed

A batch goes at once when none is under way and none went a moment ago, else when there is enough
for a full one or the oldest change has waited for the longest delay. What the sender keeps of the
queues are places alone: sent twice, a change changes nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grid_member.engine.io.ending import end_tasks
from grid_member.engine.wan.changes import CLUSTER_ID_BYTES
from grid_member.wan.answers import REASONS, TOO_LARGE_ALONE, MapAnswer, reason_of
from grid_member.wan.blocked_maps import BlockedMaps
from grid_member.wan.limits import MAX_CHARACTER_BYTES, is_too_large
from grid_member.wan.pacing import READ_SLICE, Pacer
from grid_member.wan.places import Part, Places, QueueName
from grid_member.wan.ports import OverloadedError, TargetError, TooLargeError, UnreachableError
from grid_member.wan.protocol import (
    CHANGE_BYTES,
    COMPRESSED_FROM_BYTES,
    MAX_TEXT_BYTES,
    BatchHeader,
    BatchWriter,
    seal,
)
from grid_member.wan.window import Window

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from grid_member.engine.wan.agreement import PublisherName
    from grid_member.engine.wan.changes import Change, QueuedChange
    from grid_member.wan.figures import PublisherFigures
    from grid_member.wan.hello import Welcome
    from grid_member.wan.link import Link
    from grid_member.wan.ports import Queues

AHEAD_CHANGES: Final = 50_000
"""Changes of a queue that are read behind one that has not arrived: they stay in the queue until it
has, and each further read has to go past them. More only where so many are under way at once."""
ACKNOWLEDGING_S: Final = 0.1
"""Between two acknowledgements, which are records of the log."""
GATHERING_S: Final = 0.01
"""Between two batches that are not full, though none is under way: each costs a request."""
LOOK_S: Final = 1.0
"""Until queues are looked at without a change: a member may have been resumed."""
FIRST_REST_S: Final = 1.0
MAX_REST_S: Final = 30.0
_MAX_EXPONENT: Final = 10


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """What the configuration says of a publisher, and whose changes are sent."""

    name: PublisherName
    cluster_id: bytes
    """Of the source."""
    batch_size: int
    """Changes of a batch at most."""
    max_delay_s: float
    """How long a change may wait for others while a batch is under way."""
    concurrency: int
    """Batches under way at most; -1 adapts the number to the target."""
    compresses: bool
    """Whether large bodies are deflated when that is worth it."""


@dataclass(slots=True)
class _Outgoing:
    """A batch that is being gathered."""

    writer: BatchWriter
    most_bytes: int
    """Its limit; one change may be larger."""
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A batch under way: what is left of it to know while it waits for its answer."""

    maps: tuple[str, ...]
    changes: int
    plain_bytes: int
    """Before it was deflated."""
    entry_bytes: int
    """Key and value of its first change."""
    parts: list[Part]


class Sender:
    """The sender of one publisher in one shard."""

    def __init__(
        self,
        settings: SenderSettings,
        queues: Queues,
        link: Link,
        figures: PublisherFigures,
        clock: Callable[[], float],
        compress: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        """Make a sender; `run` begins.

        Args:
            settings: what to send, and how.
            queues: what there is to send.
            link: where it goes.
            figures: counts of the publisher.
            clock: seconds.
            compress: seals a body, deflated if that is worth it, on another thread.
        """
        self._settings = settings
        self._queues = queues
        self._link = link
        self._figures = figures
        self._clock = clock
        self._compress = compress
        self._places = Places()
        self._epoch = queues.epoch()
        """Of the places."""
        self._window = Window(settings.concurrency)
        self._pacer = Pacer(clock)
        self._flights: set[asyncio.Task[None]] = set()
        self._problem: TargetError | None = None
        self._failures = 0
        self._blocked = BlockedMaps(settings.name, figures, clock)
        self._turn = 0
        self._sent_s = -GATHERING_S
        """When the last batch went."""
        self._due_s: float | None = None
        """When changes go that are no full batch; None while none wait."""
        self._acknowledged_s = -ACKNOWLEDGING_S
        self._acknowledging: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        queues.listen(self._wake.set)

    async def run(self) -> None:
        """Send until cancelled. It may run again after an unexpected error ended it."""
        self._problem = None
        self._places.rewind_all()
        try:
            while True:
                await self._replicate(await self._link.welcome())
                await self._rest()
        finally:
            await self._end()

    async def _replicate(self, welcome: Welcome) -> None:
        """Send until something goes wrong; return when nothing is under way any more."""
        while self._problem is None:
            self._wake.clear()
            self._acknowledge_soon()
            if not await self._send_next(welcome):
                await self._wait()
        while self._flights:
            await asyncio.wait(self._flights)
        self._places.rewind_all()

    async def _rest(self) -> None:
        problem, self._problem = self._problem, None
        if isinstance(problem, OverloadedError):
            with self._at_work():
                await asyncio.sleep(problem.retry_after_s)
            return
        self._failures += 1
        rest_s = FIRST_REST_S * 2.0 ** min(self._failures - 1, _MAX_EXPONENT)
        # After the first failure another address may answer: a stop waits for that.
        with self._at_work() if self._failures == 1 else nullcontext():
            await asyncio.sleep(min(MAX_REST_S, rest_s))

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Show that this sender has something under way."""
        self._figures.under_way += 1
        try:
            yield
        finally:
            self._figures.under_way -= 1

    async def _end(self) -> None:
        await end_tasks(*self._flights, self._acknowledging)
        self._blocked.close()

    async def _wait(self) -> None:
        """Wait for something new, or for the moment when something is due."""
        now_s = self._clock()
        moments: list[float] = []
        if len(self._flights) < self._window.size:
            moments = [now_s + LOOK_S, *self._blocked.moments()]
            if self._due_s is not None:
                moments.append(self._due_s)
        if self._acknowledging is None and self._places.arrived():
            moments.append(self._acknowledged_s + ACKNOWLEDGING_S)
        timeout_s = max(0.0, min(moments) - now_s) if moments else None
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return

    def _follow_epoch(self) -> None:
        """Read the queues from their begin when the shard's log was read again.

        A log in memory that its servers lost begins again: its places are lower than before.
        """
        epoch = self._queues.epoch()
        if epoch != self._epoch:
            self._epoch, self._places = epoch, Places()

    # Sending

    async def _send_next(self, welcome: Welcome) -> bool:
        """Send a batch if one is due; tell whether one was sent."""
        if len(self._flights) >= self._window.size:
            return False
        queues = self._open_queues()
        if not self._is_due(queues):
            return False
        self._due_s = None
        outgoing = await self._gather(queues, welcome)
        if outgoing is None:
            return False
        self._sent_s = self._clock()
        flight = asyncio.create_task(self._fly(outgoing))
        self._flights.add(flight)
        flight.add_done_callback(self._land)
        return True

    def _open_queues(self) -> dict[QueueName, int]:
        """Return the queues that may be sent now and the number of their keys, in turn."""
        self._follow_epoch()
        self._blocked.look(self._queues.queued_maps())
        waiting = self._queues.waiting()
        self._places.keep(waiting.keys())
        names = [queue for queue in waiting if self._may_read(queue)]
        self._turn += 1
        first = self._turn % len(names) if names else 0
        return {queue: waiting[queue] for queue in (*names[first:], *names[:first])}

    def _may_read(self, queue: QueueName) -> bool:
        most = max(AHEAD_CHANGES, self._settings.batch_size * self._window.size)
        return queue.map_name not in self._blocked and self._places.ahead(queue) < most

    def _is_due(self, queues: dict[QueueName, int]) -> bool:
        """Tell whether a batch goes now: a full one, or one that waited long enough."""
        now_s = self._clock()
        unread, most_bytes = self._unread(queues), self._link.batch_bytes()
        if unread >= self._settings.batch_size or unread * self._mean_bytes() >= most_bytes:
            return True
        if not self._flights:
            self._due_s = self._sent_s + min(GATHERING_S, self._settings.max_delay_s)
            return now_s >= self._due_s
        if unread <= 0:
            self._due_s = None
            return False
        if self._due_s is None:
            self._due_s = now_s + self._settings.max_delay_s
        return now_s >= self._due_s

    def _unread(self, queues: Iterable[QueueName]) -> int:
        """Count the changes that were not read yet, up to a full batch."""
        most, unread = self._settings.batch_size, 0
        for queue in queues:
            unread += self._queues.unread(queue, self._places.cursor(queue), most - unread)
            if unread >= most:
                break
        return unread

    def _mean_bytes(self) -> float:
        """Return how large a change was up to now."""
        return self._figures.plain_bytes / max(1, self._figures.sent_changes)

    async def _gather(self, queues: dict[QueueName, int], welcome: Welcome) -> _Outgoing | None:
        """Read and encode a batch; None when there is nothing to send."""
        # The ends of entries are not counted in the size of a batch: half leaves room for them.
        most_bytes = min(self._link.batch_bytes(), welcome.limits.batch_bytes // 2)
        outgoing = _Outgoing(BatchWriter(self._header(welcome)), most_bytes)
        self._pacer.begin()
        for queue in queues:
            if queue.map_name in self._blocked:
                continue
            while not self._is_full(outgoing):
                room = self._settings.batch_size - len(outgoing.writer)
                space = most_bytes - outgoing.writer.size_bytes
                after = self._places.cursor(queue)
                changes = self._queues.read(queue, after, min(READ_SLICE, room), space)
                if not changes or not self._take(queue, changes, outgoing, welcome):
                    break
                await self._pacer.turn()
        if len(outgoing.writer):
            return outgoing
        for part in outgoing.parts:
            # All of it has passed the target already.
            self._places.note_arrival(part)
        return None

    def _is_full(self, outgoing: _Outgoing) -> bool:
        writer = outgoing.writer
        return len(writer) >= self._settings.batch_size or writer.size_bytes >= outgoing.most_bytes

    def _take(
        self,
        queue: QueueName,
        changes: Sequence[QueuedChange],
        outgoing: _Outgoing,
        welcome: Welcome,
    ) -> bool:
        """Add changes to a batch up to the first that has no place there; tell whether all had."""
        writer, policy = outgoing.writer, self._queues.policy(queue.map_name)
        batch = [queued.change for queued in changes]
        if _all_fit(batch, outgoing, welcome):
            writer.extend(batch, policy)
            part = self._places.send(queue, changes[-1].place, len(changes))
            outgoing.parts.append(part)
            return True
        taken = 0
        for queued in changes:
            change = queued.change
            if welcome.cluster_id not in change.passed:
                # A byte of a character more or less does not matter for what is a batch's size.
                size_bytes = len(change.key) + len(change.value) + len(change.content_type or "")
                if len(writer) and writer.size_bytes + size_bytes > outgoing.most_bytes:
                    break
                if is_too_large(queued.change, welcome.limits):
                    if not taken:
                        self._blocked.block(queue.map_name, REASONS[MapAnswer.TOO_LARGE])
                    break
                writer.add(change, policy)
            taken += 1
        if taken:
            last = changes[taken - 1].place
            outgoing.parts.append(self._places.send(queue, last, taken))
        return taken == len(changes)

    def _header(self, welcome: Welcome) -> BatchHeader:
        settings = self._settings
        return BatchHeader(settings.cluster_id, welcome.cluster_id, settings.name)

    async def _fly(self, outgoing: _Outgoing) -> None:
        """Carry one batch there, and note what became of it."""
        with self._at_work():
            batch, sealed = await self._seal(outgoing)
            del outgoing  # the answer may take minutes
            await self._carry(batch, sealed)

    async def _carry(self, batch: bytes, sealed: _Sealed) -> None:
        began_s, full = self._clock(), len(self._flights) >= self._window.size
        try:
            answer = await self._link.send(batch)
            if len(answer) != len(sealed.maps):
                raise UnreachableError("the target's answer is not that of a batch")
        except TooLargeError:
            self._note_too_large(sealed)
            return
        except TargetError as problem:
            self._window.note_overload()
            self._problem = problem
            return
        took_s = self._clock() - began_s
        self._window.note_answer(took_s, full=full)
        self._failures = 0
        figures = self._figures
        figures.batches.add(took_s)
        figures.sent_bytes += len(batch)
        figures.plain_bytes += sealed.plain_bytes
        figures.sent_changes += sealed.changes
        self._note_answer(sealed, answer)

    async def _seal(self, outgoing: _Outgoing) -> tuple[bytes, _Sealed]:
        """Return a batch as it travels, and what has to be known of it."""
        writer, body = outgoing.writer, outgoing.writer.body()
        sealed = _Sealed(
            writer.maps, len(writer), len(body), writer.first_entry_bytes, outgoing.parts
        )
        if self._settings.compresses and len(body) >= COMPRESSED_FROM_BYTES:
            return await self._compress(body), sealed
        return seal(body), sealed

    def _land(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._wake.set()
        if not flight.cancelled() and flight.exception() is not None:
            # A bug: what was under way is read again, and the log tells of it.
            self._problem = TargetError("a batch could not be sent")
            flight.get_loop().call_exception_handler(
                {"message": "sending a batch failed", "exception": flight.exception()}
            )

    def _note_answer(self, sealed: _Sealed, answer: bytes) -> None:
        codes = dict(zip(sealed.maps, answer, strict=True))
        for part in sealed.parts:
            name = part.queue.map_name
            # A map of which all has passed the target already is not in the batch.
            if codes.get(name, MapAnswer.TAKEN) == MapAnswer.TAKEN:
                self._places.note_arrival(part)
        for name, code in codes.items():
            if code == MapAnswer.TAKEN:
                self._blocked.unblock(name)
            else:
                self._places.rewind_map(name)
                self._blocked.block(name, reason_of(code))

    def _note_too_large(self, sealed: _Sealed) -> None:
        """Send what was in a batch again in smaller ones; one change alone blocks its map."""
        for name in {part.queue.map_name for part in sealed.parts}:
            self._places.rewind_map(name)
        if sealed.changes > 1:
            self._link.note_too_large(sealed.plain_bytes)
        else:
            self._blocked.block(sealed.maps[0], TOO_LARGE_ALONE % sealed.entry_bytes)

    # Acknowledging

    def _acknowledge_soon(self) -> None:
        """Acknowledge what has arrived, unless that was done a moment ago or is being done."""
        self._follow_epoch()
        if self._acknowledging is not None:
            return
        if self._clock() < self._acknowledged_s + ACKNOWLEDGING_S:
            return
        places = self._places.arrived()
        if places:
            self._acknowledging = asyncio.create_task(self._acknowledge(places))

    async def _acknowledge(self, places: dict[QueueName, int]) -> None:
        progress = self._places
        try:
            if await self._queues.acknowledge(places):
                progress.confirm(places)
        finally:
            # Refused, it is tried again with all that has arrived by then.
            self._acknowledged_s = self._clock()
            self._acknowledging = None
            self._wake.set()


def _all_fit(batch: Sequence[Change], outgoing: _Outgoing, welcome: Welcome) -> bool:
    """Tell whether all go into a batch and to the target: looked at one by one when they may not.

    Reading them in columns costs a fraction of that. No text is taken for shorter than it is.
    """
    values = [change.value for change in batch]
    keys = [change.key for change in batch]
    names = {each.name for each in batch}
    types = {each.content_type or "" for each in batch}
    passed = {each.passed for each in batch}
    texts = sum(map(len, keys)) + sum(map(len, types)) + sum(map(len, names))
    size_bytes = len(batch) * CHANGE_BYTES + sum(map(len, values)) + texts * MAX_CHARACTER_BYTES
    # A length beside each text in a table, and a policy.
    size_bytes += sum(len(ids) * CLUSTER_ID_BYTES + 1 for ids in passed) + 3 * len(types) + 3
    longest_key = max(map(len, keys)) * MAX_CHARACTER_BYTES
    return (
        outgoing.writer.size_bytes + size_bytes <= outgoing.most_bytes
        and max(map(len, values)) <= welcome.limits.value_bytes
        and longest_key <= min(welcome.limits.key_bytes, MAX_TEXT_BYTES)
        and max(map(len, types)) * MAX_CHARACTER_BYTES <= MAX_TEXT_BYTES
        and not any(welcome.cluster_id in ids for ids in passed)
    )
